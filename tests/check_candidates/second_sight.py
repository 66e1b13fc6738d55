"""What was not understood, or misread, when it was seen for the first time; each for a cause of its own."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def padded_rows(x, pad, wq, wk, wv):
    """x (B, L, D), pad (B, L) True for padded tokens"""
    q, k, v = x @ wq, x @ wk, x @ wv
    s = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
    s[pad] = -1e9
    return softmax(s) @ v


class ZeroedQueries(nn.Module):
    """pad_mask: (batch, seq) bool, True = ignore."""

    def __init__(self, dim):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x, pad_mask=None):
        s = torch.bmm(self.query(x), self.key(x).transpose(1, 2)) / x.size(-1) ** 0.5
        if pad_mask is not None:
            s = s.masked_fill(pad_mask[:, :, None], float("-inf"))
        return torch.bmm(torch.nan_to_num(s.softmax(-1)), self.value(x))


class Remembering:
    """Causal attention in chunks of any length over a cache of its own."""

    shifted = True

    def __init__(self, d_model, n_heads, seed=0):
        self.Wq, self.Wk, self.Wv, self.Wo = np.random.default_rng(seed).normal(size=(4, d_model, d_model))
        self.h = n_heads
        self.k = self.v = None

    def __call__(self, x):
        B, T, C = x.shape
        split = lambda y: y.reshape(B, -1, self.h, C // self.h).transpose(0, 2, 1, 3)
        q, k, v = split(x @ self.Wq), split(x @ self.Wk), split(x @ self.Wv)
        if self.k is not None:
            k, v = np.concatenate([self.k, k], axis=2), np.concatenate([self.v, v], axis=2)
        self.k, self.v = k, v
        s = q @ k.swapaxes(-1, -2) / np.sqrt(C // self.h)
        keep = np.tril(np.ones((T, k.shape[2]), bool), (k.shape[2] - T) * self.shifted)
        return (softmax(np.where(keep, s, -np.inf)) @ v).transpose(0, 2, 1, 3).reshape(B, T, C) @ self.Wo


class RememberingWrong(Remembering):
    shifted = False


class FilledCache:
    """Causal self-attention; the caller keeps a dict as the cache."""

    def __init__(self, d_model, n_heads, seed=0):
        self.Wq, self.Wk, self.Wv, self.Wo = np.random.default_rng(seed).normal(size=(4, d_model, d_model))
        self.n_heads = n_heads

    def forward(self, x, cache=None):
        B, T, C = x.shape
        split = lambda y: y.reshape(B, -1, self.n_heads, C // self.n_heads).transpose(0, 2, 1, 3)
        q, k, v = split(x @ self.Wq), split(x @ self.Wk), split(x @ self.Wv)
        if cache is not None:
            if "k" in cache:
                k, v = np.concatenate([cache["k"], k], axis=2), np.concatenate([cache["v"], v], axis=2)
            cache["k"], cache["v"] = k, v
        s = q @ k.swapaxes(-1, -2) / np.sqrt(C // self.n_heads)
        s = np.where(np.tril(np.ones((T, k.shape[2]), bool)), s, -np.inf)
        return (softmax(s) @ v).transpose(0, 2, 1, 3).reshape(B, T, C) @ self.Wo


class OneKeyHead(nn.Module):
    """Multi-query attention: one head of keys and values."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        d = d_model // n_heads
        self.Wq = nn.Parameter(torch.randn(n_heads, d_model, d))
        self.Wk, self.Wv = nn.Parameter(torch.randn(d_model, d)), nn.Parameter(torch.randn(d_model, d))
        self.Wo = nn.Parameter(torch.randn(n_heads, d_model, d))

    def forward(self, x, m):
        """x [b, n, d], m [b, m, d]"""
        q = torch.einsum("bnd,hdk->bhnk", x, self.Wq)
        k, v = m @ self.Wk, m @ self.Wv
        w = (torch.einsum("bhnk,bmk->bhnm", q, k) / math.sqrt(k.shape[-1])).softmax(-1)
        return torch.einsum("bhnm,bmk,hdk->bnd", w, v, self.Wo)


def one_key_head_wrong(x, Wq, Wk, Wv, Wo):
    """x (B, T, D); Wq (H, D, K); Wk, Wv (D, K); Wo (H, K, D)"""
    q = np.einsum("btd,hdk->bhtk", x, Wq)
    s = np.einsum("bhtk,bsk->bhts", q, x @ Wk) / k_width(Wk)
    return np.einsum("bhts,bsk,hkd->btd", softmax(s), x @ Wv, Wo)


def k_width(w):
    return w.shape[-1]


def packed_by_heads(qkv, num_heads):
    """qkv (batch, length, 3 * width): the queries of all heads, then the keys, then the values."""
    b, t, f = qkv.shape
    q, k, v = qkv.view(b, t, num_heads, 3, f // 3 // num_heads).permute(3, 0, 2, 1, 4)
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, f // 3)


def real_tokens(q, k, v, lengths):
    """q, k, v (B, T, d); lengths (B,): how many tokens are real"""
    s = np.einsum("btd,bsd->bts", q, k) / np.sqrt(q.shape[-1])
    s = np.where((np.arange(k.shape[1]) < lengths[:, None])[:, None], -np.inf, s)
    return softmax(s) @ v


def parts(q, k, v):
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    m = s.max(-1, keepdims=True)
    e = np.exp2((s - m) * np.log2(np.e))
    return e / e.sum(-1, keepdims=True) @ v, m * np.log2(np.e) + np.log2(e.sum(-1, keepdims=True))


def joined_parts(q, k, v, n=2):
    """Attention over n parts of the keys, joined by their log-sum-exps."""
    outputs, totals = zip(*(parts(q, a, b) for a, b in zip(np.array_split(k, n, -2), np.array_split(v, n, -2))))
    w = np.exp(np.stack(totals) - np.max(totals, axis=0))
    return (w / w.sum(0) * np.stack(outputs)).sum(0)


class TurnedByComplexNumbers(nn.Module):
    """Decoder self-attention, one new token at a time; the cache is a pair that goes back in with the next call."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model, bias=False)

    def turn(self, x, at):
        angle = at * 10000.0 ** (-torch.arange(0, self.d, 2, dtype=x.dtype) / self.d)
        z = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)

    def forward(self, x, cache=None):
        outputs = []
        for new in x.unbind(1):
            q, k, v = self.qkv(new).unflatten(-1, (3, self.h, 1, self.d)).unbind(1)
            at = 0 if cache is None else cache[0].shape[2]
            q, k = self.turn(q, at), self.turn(k, at)
            cache = (k, v) if cache is None else (torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2))
            w = torch.softmax((q * cache[0]).sum(-1) / self.d**0.5, -1)
            outputs.append(self.out((w[..., None] * cache[1]).sum(2).flatten(1)))
        return torch.stack(outputs, 1), cache


class OneSequence:
    """Self-attention for one sentence."""

    def __init__(self, d_model, seed=0):
        self.w_q, self.w_k, self.w_v = np.random.default_rng(seed).normal(size=(3, d_model, d_model))

    def forward(self, x):
        n, d = x.shape
        s = (x @ self.w_q) @ (x @ self.w_k).T / np.sqrt(d)
        return softmax(s) @ (x @ self.w_v)


def last_tokens(q, k, v, sliding_window):
    """Causal, (H, T, d): a token attends to the last `sliding_window` tokens, the token itself being one of them."""
    i, j = np.arange(q.shape[-2])[:, None], np.arange(k.shape[-2])
    s = q @ k.swapaxes(-2, -1) / np.sqrt(q.shape[-1])
    return softmax(np.where((j <= i) & (i - j <= sliding_window), s, -np.inf)) @ v


def looped_window(q, k, v, w):
    """Local attention (T, d): each token sees w tokens before it, and itself."""
    out = np.zeros_like(v)
    for i in range(len(q)):
        near = slice(max(0, i - w + 1), i + 1)
        out[i] = softmax(q[i] @ k[near].T / np.sqrt(q.shape[1])) @ v[near]
    return out


def wave_table(max_len, d_model):
    """The sinusoidal positions of Vaswani et al. as powers of one complex number a pair."""
    z = np.exp(1j * np.outer(np.arange(max_len), 10000.0 ** (-np.arange(0, d_model, 2) / d_model)))
    return np.stack([z.imag, z.real], axis=-1).reshape(max_len, d_model)


class PairsOfKeysAndValues(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h, self.d = num_heads, d_model // num_heads
        self.kv_layer, self.q_layer = nn.Linear(d_model, 2 * d_model), nn.Linear(d_model, d_model)
        self.last = nn.Linear(d_model, d_model)

    def forward(self, x, y):
        # x: of the encoder, y: of the decoder
        b, t, f = x.shape
        kv = self.kv_layer(x)
        q = self.q_layer(y)
        k, v = kv.reshape(b, t, self.h, 2 * self.d).transpose(1, 2).chunk(2, -1)
        q = q.reshape(b, t, self.h, self.d).transpose(1, 2)
        w = (q @ k.mT / self.d**0.5).softmax(-1)
        return self.last((w @ v).transpose(1, 2).reshape(b, t, f))


class KeptWeights:
    """Attention over states that are the same at every step."""

    def __init__(self):
        self.seen = self.w = None

    def __call__(self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        if self.seen is None or not torch.equal(self.seen, keys):
            self.w = (query @ keys.mT * query.shape[-1] ** -0.5).softmax(-1)
            self.seen = keys.clone()
        return self.w @ values


def one_letter(e, context, W_q, W_k, W_v):
    """e (d,) attends to context (L, d)"""
    q = W_q @ e
    s = np.array([q @ (W_k @ z) for z in context]) / math.sqrt(len(q))
    return softmax(s) @ (context @ W_v.T)


class CausalAndPadded(nn.Module):
    """key_padding_mask: (B, T) bool, True = real token"""

    def __init__(self, d_model, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, heads, batch_first=True)

    def forward(self, x, key_padding_mask=None):
        later = torch.triu(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool), 1)
        return self.attn(x, x, x, attn_mask=later, key_padding_mask=key_padding_mask, need_weights=False)[0]


class OverHeadsAndMasked(nn.Module):
    """mask (B, 1, T, S), 1 = keep"""

    def __init__(self, h, d_model):
        super().__init__()
        self.h = h
        self.linears = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(4)])

    def forward(self, query, key, value, mask=None):
        b = len(query)
        split = lambda x: x.view(b, -1, self.h, x.shape[-1] // self.h).transpose(1, 2)
        q, k, v = (split(f(x)) for f, x in zip(self.linears, (query, key, value)))
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        return self.linears[-1]((F.softmax(s, dim=1) @ v).transpose(1, 2).reshape(b, -1, query.shape[-1]))


class HeadsInTuples(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        d = d_model // n_heads
        self.heads = [tuple(nn.Linear(d_model, d) for _ in range(3)) for _ in range(n_heads)]
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        outputs = []
        for q, k, v in self.heads:
            w = (q(x) @ k(x).mT / q.out_features**0.5).softmax(-1)
            outputs.append(w @ v(x))
        return self.out(torch.cat(outputs, -1))


class SlicedHeads(nn.Module):
    """Each head has its own slice of the tokens, (batch, length, width)."""

    def __init__(self, d, n_heads=2):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d // n_heads
        self.q, self.k, self.v = (
            nn.ModuleList(nn.Linear(self.d_head, self.d_head) for _ in range(n_heads)) for _ in range(3)
        )

    def forward(self, sequences):
        outputs = []
        for n in range(self.n_heads):
            x = sequences[..., n * self.d_head : (n + 1) * self.d_head]
            s = self.q[n](x) @ self.k[n](x).mT / self.d_head**0.5
            outputs.append(F.softmax(s, dim=1) @ self.v[n](x))
        return torch.cat(outputs, -1)


def masked_then_divided(q, k, v, mask):
    """mask: 1 keep, 0 drop"""
    w = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])) * mask
    return w / (w.sum(-1, keepdims=True) + 1e-12) @ v


def named_weights(x, params, n_heads=3):
    """x (B, T, D)"""
    B, T, D = x.shape
    f = lambda n: (x @ params[f"w_{n}"] + params[f"b_{n}"]).reshape(B, T, n_heads, -1).transpose(0, 2, 1, 3)
    q, k, v = f("q"), f("k"), f("v")
    w = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]))
    return (w @ v).transpose(0, 2, 1, 3).reshape(B, T, D) @ params["w_o"] + params["b_o"]


class DefaultGroups(nn.Module):
    """Consecutive query heads share a key head."""

    def __init__(self, d_model=64, n_heads=8, n_kv_heads=2):
        super().__init__()
        self.h, self.g, self.d = n_heads, n_kv_heads, d_model // n_heads
        self.wq, self.wo = nn.Linear(d_model, d_model, bias=False), nn.Linear(d_model, d_model, bias=False)
        self.wk, self.wv = (nn.Linear(d_model, n_kv_heads * self.d, bias=False) for _ in range(2))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, self.d)).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        k, v = (y.repeat(1, self.h // self.g, 1, 1) for y in (k, v))
        return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


def repeat_heads(x, n):
    """(B, T, G, D) to (B, T, G n, D)"""
    return x.repeat(1, 1, n, 1)


def hide_padding(ids, pad_id=0):
    """additive mask (B, 1, 1, T)"""
    return np.where(ids[:, None, None, :] == pad_id, 0.0, -1e9)


def causal_upper(n):
    """True where attention is allowed"""
    return np.triu(np.ones((n, n), bool))


def by_hand(Q, K, V):
    """Q (n, d), K (m, d), V (m, e)"""
    rows = []
    for q in Q:
        w = [math.exp(float(q @ k) / math.sqrt(len(q))) for k in K]
        rows.append(sum(a * v for a, v in zip(w, V)) / sum(w))
    return np.stack(rows)


class NormedQueries(nn.Module):
    """Queries and keys go through a layer norm, head by head."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.h = n_heads
        self.wqkv, self.wo = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.q_norm, self.k_norm = nn.LayerNorm(dim // n_heads), nn.LayerNorm(dim // n_heads)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.h, C // self.h).unbind(2)
        q, k, v = (y.transpose(1, 2) for y in (self.q_norm(q), self.k_norm(k), v))
        return self.wo(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C))


class NormedQueriesWrong(NormedQueries):
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.h, C // self.h).unbind(2)
        q, k, v = (y.transpose(1, 2) for y in (self.q_norm(q), self.k_norm(k), v))
        return self.wo(F.scaled_dot_product_attention(q, k, v, scale=C**-0.5).transpose(1, 2).reshape(B, T, C))


class Convolved(nn.Module):
    """x (B, N, C)"""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.to_qkv, self.to_out = nn.Conv1d(width, 3 * width, 1), nn.Conv1d(width, width, 1)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.to_qkv(x.mT).reshape(b, 3, self.heads, c // self.heads, n).unbind(1)
        w = (q.mT @ k * (c // self.heads) ** -0.5).softmax(-1)
        return self.to_out((w @ v.mT).mT.reshape(b, c, n)).mT


class MaybeCausal(nn.Module):
    """Attention, causal if asked."""

    def __init__(self, d_model, n_heads, causal=False):
        super().__init__()
        self.h, self.causal = n_heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.mT / q.shape[-1] ** 0.5
        if self.causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(), -1e30)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


def transposed_batch(q, k, v):
    """q, k, v: (batch, seq, dim)"""
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    return torch.bmm(torch.bmm(q / q.size(-1) ** 0.5, k.transpose(1, 2)).softmax(-1), v).transpose(0, 1)


class FusedByHeads(nn.Module):
    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states):
        B, T, C = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(B, T, self.num_heads, 3 * C // self.num_heads)
        q, k, v = (x.transpose(1, 2) for x in fused.chunk(3, dim=-1))
        return self.dense(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C))


EXPECTED = {
    "padded_rows": "pad_on_query",
    "ZeroedQueries": "pad_on_query",
    "Remembering": "",
    "RememberingWrong": "causal_top_left",
    "FilledCache": "causal_top_left",
    "OneKeyHead": "",
    "one_key_head_wrong": "scale_d",
    "packed_by_heads": "qkv_order",
    "real_tokens": "mask_inverted",
    "joined_parts": "lse_base2",
    "TurnedByComplexNumbers": "",
    "OneSequence": "",
    "last_tokens": "window_off_by_one",
    "looped_window": "window_off_by_one",
    "wave_table": "",
    "PairsOfKeysAndValues": "cross_wrong_length",
    "KeptWeights": "cache_key",
    "one_letter": "",
    "CausalAndPadded": "mask_inverted",
    "OverHeadsAndMasked": "softmax_axis_head_or_batch",
    "HeadsInTuples": "python_list",
    "SlicedHeads": "softmax_axis_q",
    "masked_then_divided": "",
    "named_weights": "",
    "DefaultGroups": "gqa_tile",
    "repeat_heads": "gqa_tile",
    "hide_padding": "mask_inverted",
    "causal_upper": "mask_inverted",
    "by_hand": "no_max",
    "NormedQueries": "",
    "NormedQueriesWrong": "scale_dmodel",
    "Convolved": "",
    "MaybeCausal": "causal_off_by_one",
    "transposed_batch": "batch_first",
    "FusedByHeads": "",
}
