"""Right attention, written in unusual ways: none of it is wrong."""

import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def online_softmax(q, k, v):
    """q, k, v: (T, D), one key at a time."""
    out = np.zeros((len(q), v.shape[1]))
    for i, query in enumerate(q):
        m, total, acc = -np.inf, 0.0, np.zeros(v.shape[1])
        for key, value in zip(k, v, strict=True):
            s = query @ key / math.sqrt(q.shape[1])
            new = max(m, s)
            acc = acc * np.exp(m - new) + np.exp(s - new) * value
            total = total * np.exp(m - new) + np.exp(s - new)
            m = new
        out[i] = acc / total
    return out


def quarter_powers(q, k, v):
    d = q.shape[-1] ** -0.25
    s = (q * d) @ np.swapaxes(k * d, -1, -2)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e @ v / e.sum(-1, keepdims=True)


def renormalised(q, k, v, mask):
    """mask: True = keep"""
    s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True) * mask
    return p / p.sum(-1, keepdims=True) @ v


def keys_first(q, k, v):
    s = np.einsum("bhsd,bhtd->bhst", k, q) / math.sqrt(q.shape[-1])
    w = np.exp(s - s.max(-2, keepdims=True))
    w = w / w.sum(-2, keepdims=True)
    return np.einsum("bhst,bhse->bhte", w, v)


def loops(q, k, v):
    B, H, T, D = q.shape
    out = np.empty((B, H, T, v.shape[-1]))
    for b in range(B):
        for h in range(H):
            for t in range(T):
                s = np.array([sum(x * y for x, y in zip(q[b, h, t], key, strict=True)) for key in k[b, h]]) / D**0.5
                w = np.exp(s - s.max())
                out[b, h, t] = sum(a * val for a, val in zip(w / w.sum(), v[b, h], strict=True))
    return out


def log_softmax(q, k, v):
    s = torch.matmul(q, k.transpose(-1, -2)).div(math.sqrt(k.shape[-1]))
    return torch.log_softmax(s, -1).exp().matmul(v)


def chunked(q, k, v, chunk=2):
    parts = []
    for at in range(0, q.shape[-2], chunk):
        s = q[..., at : at + chunk, :] @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        parts.append(torch.softmax(s, -1) @ v)
    return torch.cat(parts, -2)


def with_baddbmm(q, k, v):
    """q, k, v: (B, T, D)"""
    empty = torch.empty(1, 1, 1, dtype=q.dtype)
    return torch.bmm(torch.baddbmm(empty, q, k.mT, beta=0, alpha=q.size(-1) ** -0.5).softmax(-1), v)


def fused(q, k, v, attn_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


class Wrapped(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.mha = nn.MultiheadAttention(d_model, nhead, batch_first=True)

    def forward(self, x, key_padding_mask=None):
        return self.mha(x, x, x, key_padding_mask=key_padding_mask)[0]


def log_sum_exp(q, k, v):
    s = q @ k.mT / math.sqrt(q.size(-1))
    return torch.exp(s - torch.logsumexp(s, -1, keepdim=True)) @ v


def additive_bias(q, k, v, attn_bias=None):
    s = q @ k.mT / math.sqrt(q.size(-1))
    if attn_bias is not None:
        s = s + attn_bias
    return s.softmax(-1) @ v


def drop_mask(q, k, v, mask=None):
    """mask: True marks positions that may not be attended to."""
    s = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(mask, float("-inf"))
    return s.softmax(-1) @ v


def zero_rows(q, k, v, mask=None):
    """mask: True = keep.  Rows that see nothing give zeros."""
    s = q @ k.mT / math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(~mask, float("-inf"))
    return torch.nan_to_num(s.softmax(-1)) @ v


def float_mask(q, k, v, mask=None):
    """mask: 1 for keys to keep, 0 for the others."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = s + (1.0 - mask) * -1e9
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def by_length(q, k, v, lengths):
    s = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(q.shape[-1])
    hidden = np.arange(k.shape[2])[None, :] >= np.asarray(lengths)[:, None]
    s = np.where(hidden[:, None, None, :], -np.inf, s)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhts,bhsd->bhtd", e / e.sum(-1, keepdims=True), v)


def jax_layout(query, key, value):
    """query: (B, T, H, D)"""
    logits = np.einsum("BTNH,BSNH->BNTS", query, key) * query.shape[-1] ** -0.5
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("BNTS,BSNH->BTNH", e / e.sum(-1, keepdims=True), value)


def time_first(q, k, v):
    """q, k, v: (T, B, D)"""
    s = np.einsum("tbd,sbd->bts", q, k) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bts,sbd->tbd", e / e.sum(-1, keepdims=True), v)


def packed(qkv):
    """qkv: (B, T, 3, H, D)"""
    q, k, v = (qkv[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    s = q @ k.swapaxes(2, 3) / math.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.n_head, self.dropout = config.n_head, config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (a.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for a in (q, k, v))
        p = self.dropout if self.training else 0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Annotated(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k, self.h = d_model // h, h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        n = query.size(0)
        query, key, value = (
            lin(x).view(n, -1, self.h, self.d_k).transpose(1, 2) for lin, x in zip(self.linears, (query, key, value))
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        x = self.dropout(scores.softmax(-1)) @ value
        return self.linears[-1](x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class SeparateHeads(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d = d_model // n_heads
        self.heads = nn.ModuleList(
            [nn.ModuleDict({n: nn.Linear(d_model, d, bias=False) for n in ("q", "k", "v")}) for _ in range(n_heads)]
        )
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        done = [F.scaled_dot_product_attention(h["q"](x), h["k"](x), h["v"](x)) for h in self.heads]
        return self.out(torch.cat(done, -1))


class RawParameters(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Parameter(torch.randn(dim, dim) / dim**0.5) for _ in range(4))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = ((x @ w).view(b, t, self.h, -1).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        w = (q @ k.mT / math.sqrt(c // self.h)).softmax(-1)
        return (w @ v).transpose(1, 2).reshape(b, t, c) @ self.w_o


class PreNorm(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.num_heads = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        return x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class LlamaAttention(nn.Module):
    def __init__(self, hidden_size, num_heads, num_key_value_heads):
        super().__init__()
        self.h, self.g, self.d = num_heads, num_key_value_heads, hidden_size // num_heads
        self.q_proj = nn.Linear(hidden_size, num_heads * self.d, bias=False)
        self.k_proj = nn.Linear(hidden_size, self.g * self.d, bias=False)
        self.v_proj = nn.Linear(hidden_size, self.g * self.d, bias=False)
        self.o_proj = nn.Linear(num_heads * self.d, hidden_size, bias=False)

    def forward(self, hidden_states):
        b, t, _ = hidden_states.shape
        q = self.q_proj(hidden_states).view(b, t, self.h, self.d).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, t, self.g, self.d).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, t, self.g, self.d).transpose(1, 2)
        k, v = (x[:, :, None].expand(-1, -1, self.h // self.g, -1, -1).reshape(b, self.h, t, self.d) for x in (k, v))
        keep = torch.ones(t, t, dtype=torch.bool).tril()
        s = (q @ k.mT * self.d**-0.5).masked_fill(~keep, torch.finfo(q.dtype).min)  # causal
        return self.o_proj((s.softmax(-1, dtype=torch.float32).to(q.dtype) @ v).transpose(1, 2).reshape(b, t, -1))


class PlainClass:
    """Keras style, in NumPy."""

    def __init__(self, units, num_heads):
        rng = np.random.default_rng(0)
        self.num_heads = num_heads
        self.Wq, self.Wk, self.Wv, self.Wo = (rng.normal(size=(units, units)) for _ in range(4))

    def call(self, query, value, key=None):
        key = value if key is None else key
        B, T, F = query.shape

        def heads(x):
            return x.reshape(B, -1, self.num_heads, F // self.num_heads).swapaxes(1, 2)

        q, k, v = heads(query @ self.Wq), heads(key @ self.Wk), heads(value @ self.Wv)
        s = q @ k.swapaxes(2, 3) / np.sqrt(F / self.num_heads)
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(B, T, F) @ self.Wo


def pure(x, W_q, W_k, W_v, W_o, num_heads):
    B, T, F = x.shape
    q, k, v = (np.stack(np.split(x @ w, num_heads, -1), 1) for w in (W_q, W_k, W_v))
    s = np.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(F // num_heads)
    w = np.exp(s - s.max(-1, keepdims=True))
    o = np.einsum("bhij,bhjd->bhid", w / w.sum(-1, keepdims=True), v)
    return np.concatenate([o[:, i] for i in range(num_heads)], -1) @ W_o


class Result(NamedTuple):
    context: np.ndarray
    weights: np.ndarray


def named_result(query, key, value):
    s = query @ np.swapaxes(key, -1, -2) / math.sqrt(query.shape[-1])
    w = np.exp(s - s.max(-1, keepdims=True))
    w /= w.sum(-1, keepdims=True)
    return Result(w @ value, w)


def dict_result(q, k, v):
    w = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
    return {"weights": w, "output": w @ v}


def weights_first(q, k, v):
    w = (q @ k.mT / math.sqrt(q.size(-1))).softmax(-1)
    return w, w @ v


def causal_flag(q, k, v, causal=False):
    s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if causal:
        T, S = s.shape[-2:]
        s = np.where(np.arange(S)[None] <= np.arange(T)[:, None] + (S - T), s, -np.inf)
    w = np.exp(s - s.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ v


def causal_loop(q, k, v):
    """Causal: each query sees itself and what came before."""
    T, D = q.shape
    rows = []
    for t in range(T):
        s = k[: t + 1] @ q[t] / math.sqrt(D)
        w = np.exp(s - s.max())
        rows.append(w @ v[: t + 1] / w.sum())
    return np.stack(rows)


def grouped(q, k, v):
    """q (B, H, T, D); k, v (B, G, S, D)"""
    B, H, T, D = q.shape
    G = k.shape[1]
    folded = q.reshape(B, G, H // G, T, D)
    s = np.einsum("bgrtd,bgsd->bgrts", folded, k) / math.sqrt(D)
    w = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bgrts,bgsd->bgrtd", w / w.sum(-1, keepdims=True), v).reshape(B, H, T, -1)


def capped(q, k, v, softcap=None):
    s = q @ k.mT / math.sqrt(q.size(-1))
    if softcap:
        s = torch.tanh(s / softcap) * softcap
    return s.softmax(-1) @ v


def folded_heads(q, k, v, num_heads):
    b, t, c = q.shape
    q, k, v = (x.view(b, -1, num_heads, c // num_heads).transpose(1, 2).flatten(0, 1) for x in (q, k, v))
    w = torch.bmm(q, k.mT).mul_((c // num_heads) ** -0.5).softmax(-1)
    return torch.bmm(w, v).view(b, num_heads, t, -1).transpose(1, 2).reshape(b, t, c)


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    np.exp(x, out=x)
    return x / np.sum(x, axis=axis, keepdims=True)


def stable_softmax(z):
    return np.exp(z - np.logaddexp.reduce(z, axis=-1, keepdims=True))


def sinusoidal_encoding(length, depth):
    angles = np.arange(length)[:, None] / np.power(10000, 2 * (np.arange(depth)[None] // 2) / depth)
    angles[:, 0::2], angles[:, 1::2] = np.sin(angles[:, 0::2]), np.cos(angles[:, 1::2])
    return angles[None]


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=50):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        pos = torch.arange(max_len).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2], pe[0, :, 1::2] = torch.sin(pos * div), torch.cos(pos * div)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return self.dropout(x + self.pe[:, : x.size(1)])


def apply_rope(x, positions=None):
    D = x.shape[-1]
    positions = np.arange(x.shape[-2]) if positions is None else positions
    z = x[..., ::2] + 1j * x[..., 1::2]
    z = z * np.exp(1j * positions[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D))
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def rotary(q, k, cos, sin):
    def half(x):
        a, b = x.chunk(2, -1)
        return torch.cat([-b, a], -1)

    return q * cos + half(q) * sin, k * cos + half(k) * sin


def alibi_slopes(n):
    def power(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(n).is_integer():
        return np.array(power(n))
    closest = 2 ** math.floor(math.log2(n))
    return np.array(power(closest) + list(alibi_slopes(2 * closest)[0::2][: n - closest]))


def alibi_bias(num_heads, seq_len):
    return alibi_slopes(num_heads)[:, None, None] * (np.arange(seq_len)[None, None] - np.arange(seq_len)[None, :, None])


def split_heads(x, num_heads):
    return np.moveaxis(x.reshape(*x.shape[:2], num_heads, -1), 2, 1)


def merge_heads(x):
    return torch.cat(list(x.unbind(1)), -1)


def repeat_kv(x, n_rep):
    b, g, s, d = x.shape
    return x[:, :, None].expand(b, g, n_rep, s, d).reshape(b, g * n_rep, s, d)


def causal_mask(size):
    return np.triu(np.full((size, size), -np.inf), k=1)


def merge_partials(o1, lse1, o2, lse2):
    lse = np.logaddexp(lse1, lse2)
    return o1 * np.exp(lse1 - lse)[..., None] + o2 * np.exp(lse2 - lse)[..., None], lse


class Bahdanau(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa, self.Ua, self.Va = (
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, 1),
        )

    def forward(self, query, keys):
        # query (B, 1, H), keys (B, S, H)
        w = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1).softmax(-1)
        return torch.bmm(w, keys), w


def additive_attention(query, keys, W_q, W_k, v):
    hidden = np.tanh((query @ W_q)[:, :, None] + (keys @ W_k)[:, None])
    e = hidden @ v
    w = np.exp(e - e.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ keys


class CachedAttention(nn.Module):
    """Causal attention with a cache."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, past=None):
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.n_heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        s = k.size(2)
        hidden = torch.ones(t, s, dtype=torch.bool).triu(s - t + 1)
        w = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(hidden, -torch.inf).softmax(-1)
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, t, c)), (k, v)


class EmbedTokens(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.table = nn.Embedding(vocab_size, d_model)

    def forward(self, ids):
        return self.table(ids) * self.table.embedding_dim**0.5


def sliding(q, k, v, window):
    """Causal; a query sees itself and the ``window`` keys before it, itself not counted."""
    i, j = torch.arange(q.size(-2))[:, None], torch.arange(k.size(-2))
    keep = (j <= i) & (i - j <= window)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep)


EXPECTED = dict.fromkeys(
    (
        "online_softmax",
        "quarter_powers",
        "renormalised",
        "keys_first",
        "loops",
        "log_softmax",
        "chunked",
        "with_baddbmm",
        "fused",
        "Wrapped",
        "log_sum_exp",
        "additive_bias",
        "drop_mask",
        "zero_rows",
        "float_mask",
        "by_length",
        "jax_layout",
        "time_first",
        "packed",
        "GPT",
        "Annotated",
        "SeparateHeads",
        "RawParameters",
        "PreNorm",
        "LlamaAttention",
        "PlainClass",
        "pure",
        "named_result",
        "dict_result",
        "weights_first",
        "causal_flag",
        "causal_loop",
        "grouped",
        "capped",
        "folded_heads",
        "softmax",
        "stable_softmax",
        "sinusoidal_encoding",
        "PositionalEncoding",
        "apply_rope",
        "rotary",
        "alibi_slopes",
        "alibi_bias",
        "split_heads",
        "merge_heads",
        "repeat_kv",
        "causal_mask",
        "merge_partials",
        "Bahdanau",
        "additive_attention",
        "CachedAttention",
        "EmbedTokens",
        "sliding",
    ),
    "",
)
