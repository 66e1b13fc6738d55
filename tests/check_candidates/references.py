"""Attention after well-known repositories; EXPECTED names the mistakes."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class ScaledDotProductAttention(nn.Module):
    def __init__(self, temperature, attn_dropout=0.1):
        super().__init__()
        self.temperature = temperature
        self.dropout = nn.Dropout(attn_dropout)

    def forward(self, q, k, v, mask=None):
        attn = torch.matmul(q / self.temperature, k.transpose(2, 3))
        if mask is not None:
            attn = attn.masked_fill(mask == 0, -1e9)
        attn = self.dropout(F.softmax(attn, dim=-1))
        return torch.matmul(attn, v), attn


class JadoreMHA(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_head, self.d_k, self.d_v = n_head, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_head * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_head * d_v, bias=False)
        self.fc = nn.Linear(n_head * d_v, d_model, bias=False)
        self.attention = ScaledDotProductAttention(temperature=d_k**0.5)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(d_model, eps=1e-6)

    def forward(self, q, k, v, mask=None):
        b, lq, lk, lv = q.size(0), q.size(1), k.size(1), v.size(1)
        residual = q
        q = self.w_qs(q).view(b, lq, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(k).view(b, lk, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(v).view(b, lv, self.n_head, self.d_v).transpose(1, 2)
        if mask is not None:
            mask = mask.unsqueeze(1)
        q, attn = self.attention(q, k, v, mask=mask)
        q = self.dropout(self.fc(q.transpose(1, 2).contiguous().view(b, lq, -1)))
        return self.layer_norm(q + residual), attn


class JadoreBad(JadoreMHA):
    def forward(self, q, k, v, mask=None):
        b, lq, lk, lv = q.size(0), q.size(1), k.size(1), v.size(1)
        residual = q
        q = self.w_qs(q).view(b, lq, self.n_head, self.d_k).transpose(1, 2)
        k = self.w_ks(k).view(b, lk, self.n_head, self.d_k).transpose(1, 2)
        v = self.w_vs(v).view(b, lv, self.n_head, self.d_v).transpose(1, 2)
        q, attn = self.attention(q, k, v)
        q = self.dropout(self.fc(q.contiguous().view(b, lq, -1)))
        return self.layer_norm(q + residual), attn


class HyunWoong(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_concat = nn.Linear(d_model, d_model)

    def split(self, t):
        b, l, d = t.size()
        return t.view(b, l, self.n_head, d // self.n_head).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.split(self.w_q(q)), self.split(self.w_k(k)), self.split(self.w_v(v))
        score = (q @ k.transpose(2, 3)) / math.sqrt(q.size(-1))
        if mask is not None:
            score = score.masked_fill(mask == 0, -10000)
        out = score.softmax(-1) @ v
        b, h, l, d = out.size()
        return self.w_concat(out.transpose(1, 2).contiguous().view(b, l, h * d))


class DecoderStep:
    """One decoder step at a time; keeps keys and values."""

    def __init__(self):
        self.ks, self.vs = [], []

    def step(self, q, k, v):
        self.ks.append(k)
        self.vs.append(v)
        K, V = np.stack(self.ks, -2), np.stack(self.vs, -2)
        s = (K @ q[..., None])[..., 0] / np.sqrt(q.shape[-1])
        w = np.exp(s - s.max(-1, keepdims=True))
        w /= w.sum(-1, keepdims=True)
        return (w[..., None] * V).sum(-2)


def flash_tiles(Q, K, V, block=2):
    """Flash attention in tiles. Q (N, d)"""
    N, d = Q.shape
    O = np.zeros((N, V.shape[1]))
    l = np.zeros((N, 1))
    m = np.full((N, 1), -np.inf)
    for j in range(0, K.shape[0], block):
        S = Q @ K[j : j + block].T / np.sqrt(d)
        mn = np.maximum(m, S.max(1, keepdims=True))
        P = np.exp(S - mn)
        l = np.exp(m - mn) * l + P.sum(1, keepdims=True)
        O = np.exp(m - mn) * O + P @ V[j : j + block]
        m = mn
    return O / l


def flash_bad(Q, K, V, block=2):
    """Flash attention in tiles. Q (N, d)"""
    N, d = Q.shape
    O = np.zeros((N, V.shape[1]))
    l = np.zeros((N, 1))
    m = np.full((N, 1), -np.inf)
    for j in range(0, K.shape[0], block):
        S = Q @ K[j : j + block].T
        mn = np.maximum(m, S.max(1, keepdims=True))
        P = np.exp(S - mn)
        l = np.exp(m - mn) * l + P.sum(1, keepdims=True)
        O = np.exp(m - mn) * O + P @ V[j : j + block]
        m = mn
    return O / l


def no_rescale(Q, K, V, block=2):
    """Flash attention in tiles, forgets to rescale. Q (N, d)"""
    N, d = Q.shape
    O = np.zeros((N, V.shape[1]))
    l = np.zeros((N, 1))
    m = np.full((N, 1), -np.inf)
    for j in range(0, K.shape[0], block):
        S = Q @ K[j : j + block].T / np.sqrt(d)
        mn = np.maximum(m, S.max(1, keepdims=True))
        P = np.exp(S - mn)
        l = l + P.sum(1, keepdims=True)
        O = O + P @ V[j : j + block]
        m = mn
    return O / l


def cosine_attention(q, k, v):
    """Cosine similarity attention"""
    qn = q / np.linalg.norm(q, axis=-1, keepdims=True)
    kn = k / np.linalg.norm(k, axis=-1, keepdims=True)
    s = qn @ np.swapaxes(kn, -1, -2)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


class EncoderDecoderAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q = nn.Linear(embed_dim, embed_dim)
        self.kv = nn.Linear(embed_dim, 2 * embed_dim)
        self.o = nn.Linear(embed_dim, embed_dim)

    def forward(self, x, encoder_hidden_states, encoder_attention_mask=None):
        """encoder_attention_mask: (B, S) 1 for real tokens and 0 for padding"""
        b, t, c = x.shape
        q = self.q(x).view(b, t, self.num_heads, -1).transpose(1, 2)
        k, v = self.kv(encoder_hidden_states).view(b, -1, 2, self.num_heads, c // self.num_heads).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if encoder_attention_mask is not None:
            s = s.masked_fill(encoder_attention_mask[:, None, None, :] == 0, -1e4)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c))


def two_masks(q, k, v, attn_mask=None, key_padding_mask=None):
    """attn_mask: bool (T, S), True = may attend; key_padding_mask (B, S): True = padding"""
    s = q @ k.mT / math.sqrt(q.size(-1))
    low = torch.finfo(s.dtype).min
    bias = torch.zeros_like(s)
    if attn_mask is not None:
        bias = bias + torch.where(attn_mask, 0.0, low).to(s.dtype)
    if key_padding_mask is not None:
        bias = bias + torch.where(key_padding_mask[:, None, None], low, 0.0).to(s.dtype)
    return (s + bias).softmax(-1) @ v


def bad_sign(q, k, v):
    return F.softmax(-(q @ k.mT) / math.sqrt(q.size(-1)), -1) @ v


EXPECTED = {
    "ScaledDotProductAttention": "",
    "JadoreMHA": "",
    "JadoreBad": "merge_view not_inplace",
    "HyunWoong": "mask_fill_too_small",
    "DecoderStep": "",
    "flash_tiles": "",
    "flash_bad": "scale_missing",
    "no_rescale": "unknown",
    "EncoderDecoderAttention": "mask_fill_too_small",
    "two_masks": "mask_finfo_sum",
    "bad_sign": "unknown",
    "cosine_attention": "",
}
