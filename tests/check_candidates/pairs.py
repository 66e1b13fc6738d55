"""Attention with two mistakes at once; EXPECTED names both."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def soft(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def t(x):
    return np.swapaxes(x, -1, -2)


def p01(q, k, v):
    return soft(q @ t(k), axis=-2) @ v


def p02(q, k, v):
    # q, k, v: (batch, time, dim)
    s = torch.bmm(q, k.transpose(1, 2)) / q.size(-1)
    return torch.bmm(F.softmax(s, dim=1), v)


def p03(q, k, v):
    e = np.exp(q @ t(k))
    return e / e.sum(-1, keepdims=True) @ v


def p04(q, k, v):
    e = np.exp(q @ t(k) / np.sqrt(q.shape[-1]))
    return e / e.sum() @ v


def p05(q, k, v):
    s = q @ t(k)
    return s / s.sum(-1, keepdims=True) @ v


def p06(q, k, v):
    return q @ t(k) @ v


def p07(q, k, v, mask):
    """mask: True = keep"""
    s = q @ t(k)
    return soft(np.where(mask, -1e9, s)) @ v


def p08(q, k, v, mask=None):
    """mask: bool, True = keep"""
    s = q @ t(k) / q.shape[-1]
    if mask is not None:
        s = s + mask
    return soft(s) @ v


def p09(q, k, v, mask=None):
    w = torch.softmax(q @ k.mT, -1)
    return (w if mask is None else w * mask) @ v


def p10(q, k, v, mask=None):
    s = q @ k.mT
    if mask is not None:
        s = s * mask
    return s.softmax(-1) @ v


def p11(q, k, v, mask=None):
    s = q @ k.mT * math.sqrt(q.size(-1))
    if mask is not None:
        s = s.masked_fill(mask == 0, -10.0)
    return s.softmax(-1) @ v


def causal_p12(q, k, v):
    s = q @ t(k)
    n, m = s.shape[-2:]
    return soft(np.where(np.tri(n, m, m - n + 1) > 0, s, -np.inf)) @ v


def causal_p13(q, k, v):
    """Causal attention."""
    return soft(q @ t(k)) @ v


def p14(q, k, v, is_causal=False):
    s = q @ k.mT
    if is_causal:
        s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    return s.softmax(-1) @ v


class P15(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, self.h, n, c // self.h) for f in (self.q, self.k, self.v))
        w = (q @ k.mT / math.sqrt(c)).softmax(-1)
        return self.o((w @ v).transpose(1, 2).reshape(b, n, c))


class P16(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, q, k, v):
        b, n, c = q.shape
        q, k, v = (
            f(x).view(b, -1, self.h, c // self.h).transpose(1, 2) for f, x in ((self.q, q), (self.k, k), (self.v, v))
        )
        w = (q @ k.mT / math.sqrt(c)).softmax(-1)
        return self.o((w @ v).reshape(b, n, c))


class P17(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        w = (q @ k.mT).softmax(-1)
        return self.proj((w @ v).reshape(b, n, c))


class P18(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        w = (q @ k.mT / math.sqrt(c // self.h)).softmax(1)
        return self.wo((w @ v).reshape(b, n, c))


class P19(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.wq, self.wq, self.wv))
        w = (q @ k.mT / (c // self.h)).softmax(-1)
        return self.wo((w @ v).transpose(1, 2).reshape(b, n, c))


class P20(nn.Module):
    def __init__(self, d_model, num_heads, dropout=0.1):
        super().__init__()
        self.h = num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        w = nn.Dropout(0.1)((q @ k.mT / math.sqrt(c)).softmax(-1))
        return self.wo((w @ v).transpose(1, 2).reshape(b, n, c))


class P21(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.layers = [nn.Linear(d_model, d_model) for _ in range(4)]
        self.h = num_heads

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (f(x).view(b, n, self.h, -1).transpose(1, 2) for f in self.layers[:3])
        w = (q @ k.mT).softmax(-1)
        return self.layers[3]((w @ v).transpose(1, 2).reshape(b, n, c))


def p22(q, k, v, mask=None):
    """mask: 1 = attend"""
    q *= q.shape[-1] ** -0.5
    s = q @ t(k)
    if mask is not None:
        s = np.where(mask, -np.inf, s)
    return soft(s) @ v


def p23(q, k, v):
    s = q @ t(k) / math.sqrt(k.shape[-2])
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / np.exp(s).sum(-1, keepdims=True) @ v


def p24(q, k, v, softcap=None, mask=None):
    s = q @ t(k)
    if mask is not None:
        s = np.where(mask, s, -1e9)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    return soft(s) @ v


def p25(q, k, v, softcap=20.0):
    return soft(q @ t(k) / q.shape[-1]) @ v


def p26(q, k, v):
    """Grouped-query attention."""
    r = q.shape[1] // k.shape[1]
    k, v = np.tile(k, (1, r, 1, 1)), np.tile(v, (1, r, 1, 1))
    return soft(q @ t(k)) @ v


def p27(q, k, v):
    w = (q @ k.mT).softmax(-1)
    return w @ v, torch.log2((q @ k.mT).exp().sum(-1))


def p28(q, k, v):
    s = q @ t(k)
    return soft(s) @ v, s


def p29(q, k, v, num_heads):
    b, n, c = q.shape
    q, k, v = (x.reshape(b, num_heads, -1, c // num_heads) for x in (q, k, v))
    return (soft(q @ t(k) / math.sqrt(c // num_heads)) @ v).reshape(b, n, c)


def p30(q, k, v, num_heads):
    b, n, c = q.shape
    q, k, v = (np.concatenate(np.split(x, num_heads, -1), 0) for x in (q, k, v))
    o = soft(q @ t(k) / math.sqrt(c)) @ v
    return o.reshape(b, num_heads, n, -1).swapaxes(1, 2).reshape(b, n, c)


def p31(q, k, v, padding_mask):
    """padding_mask: (B, S), True = token"""
    s = q @ t(k)
    return soft(np.where(padding_mask[:, None, :, None], s, -1e9)) @ v


def p32(x, Wq, Wk, Wv):
    q, k, v = x @ Wq, x @ Wk, x @ Wk
    return soft(q @ t(k)) @ v


def p33(x, w_qkv, num_heads):
    b, n, c = x.shape
    k, q, v = (a.reshape(b, n, num_heads, -1).swapaxes(1, 2) for a in np.split(x @ w_qkv, 3, -1))
    return (soft(q @ t(k) / math.sqrt(c)) @ v).swapaxes(1, 2).reshape(b, n, c)


class P34(nn.Module):
    """x: (batch, seq, dim)"""

    def __init__(self, d_model, nhead, dropout=0.1):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)

    def forward(self, x):
        return F.dropout(self.attn(x, x, x)[0], 0.1)


def additive_p35(query, keys, W, U, v):
    e = ((query @ W)[:, :, None] + (keys @ U)[:, None]) @ v
    return soft(e, axis=1) @ keys


def additive_p36(query, keys, W, U, v):
    e = np.tanh((query @ W)[:, :, None] + (keys @ U)[:, None]) @ v
    return e @ keys


def alibi_p37(num_heads, length):
    slopes = 2.0 ** (-8 * np.arange(num_heads) / num_heads)
    return slopes[:, None, None] * (np.arange(length)[:, None] - np.arange(length))


def softmax(x):
    e = np.exp(x)
    return e / e.sum()


def p39(q, k, v, mask=None):
    """mask: additive, 0 or -inf"""
    s = q @ k.mT
    if mask is not None:
        s = s.masked_fill(mask == 0, -torch.inf)
    return s.softmax(-1) @ v


def p40(q, k, v, mask=None):
    """mask: True = keep"""
    if mask is not None:
        mask.logical_not_()
    s = q @ k.mT
    if mask is not None:
        s = s.masked_fill(mask, -torch.inf)
    return s.softmax(-1) @ v


def p41(q, k, v, mask=None):
    s = q @ t(k) / math.sqrt(q.shape[-1])
    e = np.exp(s)
    if mask is not None:
        e = e * mask
    return e / np.exp(s).sum(-1, keepdims=True) @ v


def p42(q, k, v, causal=False):
    s = q @ t(k) / q.shape[-1]
    if causal:
        s = np.where(np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2] - 1) > 0, s, -1e9)
    return soft(s) @ v


def p43(q, k, v, causal=False):
    s = q @ t(k) * math.sqrt(q.shape[-1])
    w = soft(s)
    if causal:
        w = w * np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2])
    return w @ v


class P44(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads):
        super().__init__()
        self.h, self.g, self.d = num_heads, num_kv_heads, d_model // num_heads
        self.q_proj, self.o_proj = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.k_proj, self.v_proj = nn.Linear(d_model, self.g * self.d), nn.Linear(d_model, self.g * self.d)

    def forward(self, x):
        b, n, c = x.shape
        q = self.q_proj(x).view(b, n, self.h, self.d).transpose(1, 2)
        k, v = (
            f(x).view(b, n, self.g, self.d).transpose(1, 2).repeat(1, self.h // self.g, 1, 1)
            for f in (self.k_proj, self.v_proj)
        )
        w = (q @ k.mT / math.sqrt(c)).softmax(-1)
        return self.o_proj((w @ v).transpose(1, 2).reshape(b, n, c))


EXPECTED = {
    "p01": "softmax_axis_q scale_missing",
    "p02": "softmax_axis_q scale_d",
    "p03": "scale_missing no_max",
    "p04": "softmax_global no_max",
    # The scale cancels.
    "p05": "no_exp_norm",
    "p06": "scale_missing softmax_missing",
    "p07": "scale_missing mask_inverted",
    "p08": "scale_d mask_bool_as_float",
    "p09": "scale_missing mask_after_softmax",
    "p10": "scale_missing mask_times_scores",
    "p11": "scale_inverted mask_fill_too_small",
    "causal_p12": "scale_missing causal_off_by_one",
    "causal_p13": "scale_missing causal_missing",
    "p14": "scale_missing causal_top_left",
    "P15": "split_view scale_dmodel",
    "P16": "merge_view scale_dmodel",
    "P17": "merge_view scale_missing",
    "P18": "merge_view softmax_axis_head_or_batch",
    "P19": "shared_projection scale_d",
    "P20": "dropout_eval scale_dmodel",
    "P21": "python_list scale_missing",
    "p22": "inplace mask_inverted",
    "p23": "scale_seqlen softmax_partial_max",
    "p24": "scale_missing softcap_after_mask",
    "p25": "scale_d softcap_missing",
    "p26": "scale_missing gqa_tile",
    "p27": "scale_missing lse_base2",
    "p28": "scale_missing returns_scores",
    "p29": "split_view merge_view",
    "p30": "fold_batch_head_swap scale_dmodel",
    "p31": "scale_missing pad_on_query",
    "p32": "scale_missing shared_projection",
    "p33": "qkv_order scale_dmodel",
    "P34": "batch_first dropout_eval",
    "additive_p35": "additive_no_tanh softmax_axis_q",
    "additive_p36": "softmax_missing",
    "alibi_p37": "alibi_sign alibi_slopes",
    "softmax": "softmax_global no_max",
    "p39": "scale_missing mask_float_as_bool",
    "p40": "scale_missing inplace",
    "p41": "no_max mask_after_softmax",
    "p42": "scale_d causal_off_by_one",
    "p43": "scale_inverted mask_after_softmax",
    "P44": "scale_dmodel gqa_tile",
}
