"""Attention as models hold it; EXPECTED names the mistakes."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def jnp_like(params, x, mask=None):
    """params: dict with 'W_q', 'W_k', 'W_v', 'W_o' (D, H, K) style flattened to (D, D); x (B, T, D); single head"""
    q = x @ params["W_q"]
    k = x @ params["W_k"]
    v = x @ params["W_v"]
    s = np.einsum("btd,bsd->bts", q, k)
    if mask is not None:
        s = np.where(mask, s, -1e30)
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    return np.einsum("bts,bsd->btd", w, v) @ params["W_o"]


class KerasMHA:
    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads
        self.d_model = d_model
        self.depth = d_model // num_heads
        r = np.random.RandomState(0)
        self.wq, self.wk, self.wv, self.dense = (r.randn(d_model, d_model) for _ in range(4))

    def split_heads(self, x):
        return x.reshape(x.shape[0], -1, self.num_heads, self.depth).transpose(0, 2, 1, 3)

    def call(self, v, k, q, mask=None):
        q, k, v = self.split_heads(q @ self.wq), self.split_heads(k @ self.wk), self.split_heads(v @ self.wv)
        logits = q @ k.transpose(0, 1, 3, 2) / math.sqrt(self.depth)
        if mask is not None:
            logits = logits + mask * -1e9  # mask: 1 = hide
        e = np.exp(logits - logits.max(-1, keepdims=True))
        w = e / e.sum(-1, keepdims=True)
        o = (w @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], -1, self.d_model)
        return o @ self.dense, w


class KerasMHABad(KerasMHA):
    def call(self, v, k, q, mask=None):
        q, k, v = self.split_heads(q @ self.wq), self.split_heads(k @ self.wk), self.split_heads(v @ self.wv)
        logits = q @ k.transpose(0, 1, 3, 2) / math.sqrt(self.depth)
        w = np.exp(logits)
        w = w / w.sum()
        o = (w @ v).transpose(0, 2, 1, 3).reshape(q.shape[0], -1, self.d_model)
        return o @ self.dense


def attn_generator(q, k, v, *, causal=True):
    T, S = q.shape[-2], k.shape[-2]
    s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if causal:
        m = np.triu(np.ones((T, S), bool), 1 + S - T)
        s = np.where(m, -np.inf, s)
    w = np.exp(s - s.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True) @ v


def attn_causal_mult(q, k, v, causal=True):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if causal:
        s = s * torch.tril(torch.ones_like(s))
    return s.softmax(-1) @ v


def attn_causal_add01(q, k, v, is_causal=True):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if is_causal:
        s = s + torch.tril(torch.ones_like(s))
    return s.softmax(-1) @ v


def attn_causal_inv(q, k, v, is_causal=True):
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if is_causal:
        s = s.masked_fill(torch.tril(torch.ones_like(s)).bool(), float("-inf"))
    return s.softmax(-1) @ v


class CausalMissing(nn.Module):
    """Causal self-attention (decoder)."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.key = nn.Linear(n_embd, n_embd)
        self.query = nn.Linear(n_embd, n_embd)
        self.value = nn.Linear(n_embd, n_embd)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, layer_past=None):
        B, T, C = x.size()
        k, q, v = (
            f(x).view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for f in (self.key, self.query, self.value)
        )
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C))


class LlamaRope(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.hd = dim // n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def rope(self, x):
        T = x.shape[1]
        f = torch.outer(torch.arange(T).to(x.dtype), 1.0 / 10000 ** (torch.arange(0, self.hd, 2).to(x.dtype) / self.hd))
        xc = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(f), f)[None, :, None]
        return torch.view_as_real(xc).flatten(3)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.n_heads, self.hd) for f in (self.wq, self.wk, self.wv))
        q, k = self.rope(q), self.rope(k)
        o = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(o.transpose(1, 2).reshape(B, T, C))


class LlamaRopeBad(LlamaRope):
    """Causal attention with rotary embeddings."""

    def rope(self, x):
        T = x.shape[1]
        f = torch.outer(torch.arange(T).to(x.dtype), 1.0 / 10000 ** (torch.arange(0, self.hd, 2).to(x.dtype) / self.hd))
        e = torch.repeat_interleave(f, 2, dim=-1)[None, :, None]
        h = torch.cat([-x[..., self.hd // 2 :], x[..., : self.hd // 2]], -1)
        return x * e.cos() + h * e.sin()


class AlibiAttention(nn.Module):
    """Causal attention with ALiBi."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def slopes(self):
        n = self.h
        p = 2 ** math.floor(math.log2(n))
        s = [2 ** (-8 * i / p) for i in range(1, p + 1)] + [2 ** (-4 * i / p) for i in range(1, 2 * (n - p), 2)]
        return torch.tensor(s, dtype=torch.float64).view(1, n, 1, 1)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        i = torch.arange(T)
        s = q @ k.mT / math.sqrt(C // self.h) + self.slopes() * (i[None, :] - i[:, None])
        s = s.masked_fill(torch.triu(torch.ones(T, T), 1).bool(), -torch.inf)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class AlibiBad(AlibiAttention):
    """Causal attention with ALiBi."""

    def slopes(self):
        return torch.tensor([2 ** (-8 * i / self.h) for i in range(1, self.h + 1)], dtype=torch.float64).view(
            1, -1, 1, 1
        )


def gqa_einsum(q, k, v):
    """q: (B, T, H, D), k, v: (B, S, G, D)"""
    H, G = q.shape[2], k.shape[2]
    k = torch.repeat_interleave(k, H // G, dim=2)
    v = torch.repeat_interleave(v, H // G, dim=2)
    w = torch.einsum("bthd,bshd->bhts", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", w, v)


def gqa_wrong(q, k, v):
    """q: (B, T, H, D), k, v: (B, S, G, D)"""
    H, G = q.shape[2], k.shape[2]
    k = k.repeat_interleave(H // G, dim=1).reshape(k.shape[0], -1, H, k.shape[3])
    v = v.repeat_interleave(H // G, dim=1).reshape(v.shape[0], -1, H, v.shape[3])
    w = torch.einsum("bthd,bshd->bhts", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
    return torch.einsum("bhts,bshd->bthd", w, v)


def softcap_attn(q, k, v, mask=None, logit_softcap=50.0):
    s = q @ k.mT / math.sqrt(q.size(-1))
    s = logit_softcap * torch.tanh(s / logit_softcap)
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    return s.softmax(-1) @ v


class EvalDrop(nn.Module):
    def __init__(self, hidden_dim, n_heads, dropout=0.2):
        super().__init__()
        self.n_heads = n_heads
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(hidden_dim, hidden_dim) for _ in range(4))
        self.p = dropout

    def forward(self, query, key, value, mask=None):
        b = query.shape[0]
        Q, K, V = (
            f(x).view(b, -1, self.n_heads, x.shape[-1] // self.n_heads).permute(0, 2, 1, 3)
            for f, x in ((self.fc_q, query), (self.fc_k, key), (self.fc_v, value))
        )
        e = Q @ K.permute(0, 1, 3, 2) / math.sqrt(Q.shape[-1])
        if mask is not None:
            e = e.masked_fill(mask == 0, -1e10)
        a = F.dropout(torch.softmax(e, dim=-1), self.p)
        return self.fc_o((a @ V).permute(0, 2, 1, 3).contiguous().view(b, -1, query.shape[-1])), a


class InplaceMask(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v, mask):
        """mask bool (B, 1, T, S): True keeps"""
        s = q @ k.mT / math.sqrt(q.size(-1))
        q.mul_(0.5)
        return s.masked_fill(~mask, -1e9).softmax(-1) @ v


def ctx_vec(s_prev, h, W, U, v):
    """Bahdanau: s_prev (B, D), h (B, S, D)."""
    e = np.tanh((s_prev @ W)[:, None, :] + h @ U) @ v
    a = np.exp(e - e.max(1, keepdims=True))
    a = a / a.sum(1, keepdims=True)
    return (a[:, :, None] * h).sum(1), a


def ctx_vec_bad(s_prev, h, W, U, v):
    """Bahdanau: s_prev (B, D), h (B, S, D)."""
    e = ((s_prev @ W)[:, None, :] + h @ U) @ v
    a = np.exp(e - e.max(1, keepdims=True))
    a = a / a.sum(1, keepdims=True)
    return (a[:, :, None] * h).sum(1)


class LuongGood(nn.Module):
    """Luong attention, general score."""

    def __init__(self, hidden_size):
        super().__init__()
        self.W = nn.Linear(hidden_size, hidden_size, bias=False)
        self.concat = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, decoder_output, encoder_outputs):
        s = decoder_output @ self.W(encoder_outputs).transpose(1, 2)
        a = s.softmax(-1)
        c = a @ encoder_outputs
        return torch.tanh(self.concat(torch.cat((c, decoder_output), -1))), a


class ConvBlock(nn.Module):
    """Transformer block."""

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x):
        return self.norm(x + self.attn(x, x, x)[0])


def windowed(q, k, v, window):
    """Causal sliding window; attends to the last `window` tokens."""
    T = q.shape[-2]
    i = np.arange(T)
    m = (i[None] <= i[:, None]) & (i[None] > i[:, None] - window)
    s = np.where(m, q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]), -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def lse_pair(q, k, v):
    s = np.einsum("bhtd,bhsd->bhts", q, k) * q.shape[-1] ** -0.5
    m = s.max(-1, keepdims=True)
    e = np.exp(s - m)
    z = e.sum(-1, keepdims=True)
    return np.einsum("bhts,bhsd->bhtd", e / z, v), (m + np.log(z))[..., 0]


def lens_attn(q, k, v, valid_len):
    """valid_len: (B,)"""
    s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.size(-1))
    m = torch.arange(s.size(-1)) < valid_len[:, None]
    return s.masked_fill(~m[:, None, :], 0.0).softmax(-1) @ v


EXPECTED = {
    "jnp_like": "scale_missing",
    "KerasMHA": "",
    "KerasMHABad": "softmax_global no_max not_inplace",
    "attn_generator": "",
    "attn_causal_mult": "mask_times_scores",
    "attn_causal_add01": "mask_bool_as_float",
    "attn_causal_inv": "mask_inverted",
    "CausalMissing": "causal_missing",
    "LlamaRope": "",
    "LlamaRopeBad": "rope_layout",
    "AlibiAttention": "",
    "AlibiBad": "alibi_slopes",
    "gqa_einsum": "",
    "gqa_wrong": "gqa_tile",
    "softcap_attn": "",
    "EvalDrop": "dropout_eval",
    "InplaceMask": "inplace",
    "ctx_vec": "",
    "ctx_vec_bad": "additive_no_tanh",
    "LuongGood": "",
    "ConvBlock": "",
    "windowed": "",
    "lse_pair": "",
    "lens_attn": "mask_times_scores",
}
