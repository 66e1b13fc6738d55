"""Attention with three mistakes at once; EXPECTED names them, lines.json where they stand."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def attend_t01(q, k, v, mask):
    """mask: bool, True = may attend"""
    s = q @ np.swapaxes(k, -1, -2)
    s = np.where(mask, -1e9, s)
    w = soft(s, axis=-2)
    return w @ v


class HeadsT02(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).view(b, self.n_heads, n, d // self.n_heads)
        k = self.k(x).view(b, self.n_heads, n, d // self.n_heads)
        v = self.v(x).view(b, self.n_heads, n, d // self.n_heads)
        p = q @ k.transpose(-2, -1) / math.sqrt(self.d_model)
        y = torch.matmul(p, v)
        return self.o(y.transpose(1, 2).reshape(b, n, d))


class HeadsT03(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q = self.wq(x).view(b, n, self.heads, -1).transpose(1, 2)
        k = self.wq(x).view(b, n, self.heads, -1).transpose(1, 2)
        v = self.wv(x).view(b, n, self.heads, -1).transpose(1, 2)
        s = q @ k.transpose(2, 3)
        y = F.softmax(s, dim=-1) @ v
        return self.wo(y.reshape(b, n, c))


def attend_t04(q, k, v, mask):
    """(B, H, T, D); mask: bool, True = may attend"""
    s = np.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1]
    s = s + mask
    w = soft(s, axis=1)
    return np.einsum("bhts,bhsd->bhtd", w, v)


class CausalT05(nn.Module):
    """Causal self-attention."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn, self.c_proj = nn.Linear(n_embd, 3 * n_embd), nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (a.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for a in self.c_attn(x).split(C, dim=2))
        att = q @ k.transpose(-2, -1) / math.sqrt(self.n_head)
        seen = torch.ones(T, T).tril(1)
        att = att.masked_fill(seen == 0, -1e9)
        y = F.softmax(att, dim=-1) @ v
        y = y.contiguous().view(B, T, C)
        return self.c_proj(y)


def grouped_t06(q, k, v, mask=None):
    """Grouped queries: q (B, H, T, D), k and v (B, G, S, D); mask: bool, True = may attend"""
    r = q.shape[1] // k.shape[1]
    k = k.repeat(1, r, 1, 1)
    v = v.repeat(1, r, 1, 1)
    s = q @ k.mT / q.shape[-1]
    if mask is not None:
        s = s.masked_fill(mask, -1e9)
    return s.softmax(-1) @ v


def attend_t07(x, wq, wk, wv, wo, n_heads):
    """x (B, T, D), the weights (D, D)"""
    B, T, D = x.shape
    q = (x @ wq).reshape(B, T, n_heads, -1).transpose(0, 2, 1, 3)
    k = (x @ wk).reshape(B, T, n_heads, -1).transpose(0, 2, 1, 3)
    v = (x @ wv).reshape(B, T, n_heads, -1).transpose(0, 2, 1, 3)
    s = q @ k.swapaxes(2, 3) / np.sqrt(D)
    w = soft(s, axis=2)
    y = (w @ v).reshape(B, T, D)
    return y @ wo


class DroppingT08(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        self.num_heads, self.dropout = num_heads, dropout
        self.q, self.k, self.v, self.o = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.num_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-1, -2) / math.sqrt(c)
        w = F.dropout(s.softmax(-1), self.dropout)
        y = w @ v
        return self.o(y.reshape(b, n, c))


class ListedT09(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        d = d_model // num_heads
        self.q = [nn.Linear(d_model, d) for _ in range(num_heads)]
        self.k = [nn.Linear(d_model, d) for _ in range(num_heads)]
        self.v = [nn.Linear(d_model, d) for _ in range(num_heads)]

    def forward(self, x):
        heads = []
        for q, k, v in zip(self.q, self.k, self.v):
            s = q(x) @ k(x).transpose(1, 2)
            w = s.softmax(dim=1)
            heads.append(w @ v(x))
        return torch.cat(heads, dim=-1)


def capped_t10(q, k, v, mask, softcap=5.0):
    """mask: bool, True = may attend; returns the output and the weights"""
    s = q @ np.swapaxes(k, -1, -2)
    s = np.where(mask, s, -1e9)
    s = softcap * np.tanh(s / softcap)
    w = soft(s)
    return w @ v, s


def attend_t11(q, k, v, mask):
    """(B, H, T, D); mask: bool, True = may attend"""
    s = q @ k.mT * math.sqrt(q.shape[-1])
    s.masked_fill(~mask, -1e9)
    w = F.softmax(s, dim=1)
    return w @ v


def attend_t12(q, k, v, mask):
    """mask: 1 = may attend, 0 = not"""
    q /= np.sqrt(k.shape[-2])
    s = q @ np.swapaxes(k, -1, -2)
    s = s * mask
    return soft(s) @ v


def attend_t13(q, k, v, mask):
    """mask: 1 = may attend, 0 = not"""
    s = q @ np.swapaxes(k, -1, -2) / q.shape[-1]
    e = np.exp(s)
    w = e / e.sum(-1, keepdims=True)
    w = w * mask
    return w @ v


class PaddedT14(nn.Module):
    """mask (B, T): True = a real token, False = padding"""

    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.nhead, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.mT
        s = s.masked_fill(~mask[:, None, :, None], -1e9)
        y = s.softmax(-1) @ v
        return self.o(y.reshape(b, n, d))


def packed_t15(x, w_qkv, num_heads):
    """x: (B, T, D), w_qkv: (D, 3 D), the columns are q, k, v."""
    B, T, D = x.shape
    k, q, v = np.split(x @ w_qkv, 3, axis=-1)
    q, k, v = (a.reshape(B, T, num_heads, -1).swapaxes(1, 2) for a in (q, k, v))
    s = q @ k.swapaxes(2, 3)
    y = soft(s) @ v
    return y.reshape(B, T, D)


class FoldedT16(nn.Module):
    def __init__(self, d_model, nhead):
        super().__init__()
        self.nhead = nhead
        self.wq, self.wk, self.wv = (nn.Linear(d_model, d_model) for _ in range(3))

    def fold(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.nhead, -1).transpose(1, 2).reshape(b * self.nhead, n, -1)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.fold(self.wq(x)), self.fold(self.wk(x)), self.fold(self.wv(x))
        s = q @ k.transpose(1, 2)
        w = s.softmax(1)
        y = (w @ v).view(self.nhead, b, n, -1)
        return y.permute(1, 2, 0, 3).reshape(b, n, d)


def biased_t17(q, k, v):
    """ALiBi, causal, (batch, heads, length, width)"""
    n, T = q.shape[1], q.shape[2]
    slopes = torch.tensor([2.0 ** (-8 * h / n) for h in range(n)], dtype=q.dtype)
    back = torch.arange(T)[:, None] - torch.arange(T)[None]
    s = q @ k.mT
    s = s + slopes[:, None, None] * back
    return s.masked_fill(back < 0, -torch.inf).softmax(-1) @ v


def local_t18(q, k, v, window):
    """Causal; each query sees the keys among the last ``window`` positions, itself included."""
    s = q @ np.swapaxes(k, -1, -2) / q.shape[-1]
    i, j = np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])
    s = np.where((j <= i) & (i - j <= window), s, -1e30)
    top = s.max(-1, keepdims=True)
    return np.exp(s - top) / np.exp(s).sum(-1, keepdims=True) @ v


class ShownT19(nn.Module):
    """Returns the output and the weights."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.mT
        w = self.dropout(s.softmax(-1))
        y = w @ v
        return self.o(y.reshape(b, t, c)), w


def bahdanau_t20(state, states, W, U, v):
    """Bahdanau: state (B, D), states (B, S, D); returns the context and the weights"""
    e = ((state @ W)[:, None] + states @ U) @ v
    p = np.exp(e)
    a = p / p.sum(1, keepdims=True)
    return np.einsum("bs,bsd->bd", a, states), e


EXPECTED = {
    "attend_t01": "scale_missing mask_inverted softmax_axis_q",
    "HeadsT02": "split_view scale_dmodel softmax_missing",
    "HeadsT03": "shared_projection scale_missing merge_view",
    "attend_t04": "scale_d mask_bool_as_float softmax_axis_head_or_batch",
    "CausalT05": "scale_num_heads causal_off_by_one merge_view",
    "grouped_t06": "gqa_tile scale_d mask_inverted",
    "attend_t07": "scale_dmodel softmax_axis_q merge_view",
    "DroppingT08": "scale_dmodel dropout_eval merge_view",
    "ListedT09": "python_list scale_missing softmax_axis_q",
    "capped_t10": "scale_missing softcap_after_mask returns_scores",
    "attend_t11": "scale_inverted not_inplace softmax_axis_head_or_batch",
    "attend_t12": "inplace scale_seqlen mask_times_scores",
    "attend_t13": "scale_d no_max mask_after_softmax",
    "PaddedT14": "scale_missing pad_on_query merge_view",
    "packed_t15": "qkv_order scale_missing merge_view",
    "FoldedT16": "scale_missing softmax_axis_q fold_batch_head_swap",
    "biased_t17": "alibi_slopes scale_missing alibi_sign",
    "local_t18": "scale_d window_off_by_one softmax_partial_max",
    "ShownT19": "scale_missing weights_after_dropout merge_view",
    "bahdanau_t20": "additive_no_tanh no_max returns_scores",
}
