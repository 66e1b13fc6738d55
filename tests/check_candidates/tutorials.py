"""Attention as tutorials and their readers write it; EXPECTED names the mistakes."""

import math
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def scaled_dot_product(query, key, value, mask=None):
    """Compute attention.

    Args:
        query: array of shape (batch, num_heads, seq_len_q, depth)
        key: array of shape (batch, num_heads, seq_len_k, depth)
        value: (batch, num_heads, seq_len_k, depth_v)
        mask: float array broadcastable to (..., seq_len_q, seq_len_k), 1 means masked
    """
    matmul_qk = np.matmul(query, np.transpose(key, (0, 1, 3, 2)))
    dk = key.shape[-1]
    logits = matmul_qk / np.sqrt(dk)
    if mask is not None:
        logits += mask * -1e9
    e = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    w = e / np.sum(e, axis=-1, keepdims=True)
    return np.matmul(w, value), w


def tf_style_wrong(q, k, v, mask):
    """mask: 1 means masked, 0 means keep"""
    logits = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    logits = logits + (1 - mask) * -1e9
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def attention_weights(Q, K):
    scores = Q @ K.T / np.sqrt(Q.shape[1])
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e / e.sum(0)


def self_attn(X, W_q, W_k, W_v):
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    S = Q @ K.T / np.sqrt(X.shape[0])
    A = np.exp(S - S.max(-1, keepdims=True))
    A /= A.sum(-1, keepdims=True)
    return A @ V


def self_attn_mh(X, W_q, W_k, W_v, W_o, n_heads):
    T, C = X.shape
    d = C // n_heads
    outs = []
    for h in range(n_heads):
        q, k, v = X @ W_q[:, h * d : (h + 1) * d], X @ W_k[:, h * d : (h + 1) * d], X @ W_v[:, h * d : (h + 1) * d]
        s = q @ k.T / np.sqrt(C)
        a = np.exp(s - s.max(-1, keepdims=True))
        outs.append(a / a.sum(-1, keepdims=True) @ v)
    return np.concatenate(outs, -1) @ W_o


def masked_softmax(scores, mask):
    """mask True = keep"""
    s = np.where(mask, scores, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def masked_softmax_bad(scores, mask):
    """mask True = keep"""
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) * mask


def local_attention(q, k, v, window_size):
    n = q.shape[-2]
    idx = np.arange(n)
    m = np.abs(idx[:, None] - idx[None]) <= window_size
    s = np.where(m, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def softmax_np(z):
    z = z - np.max(z)
    return np.exp(z) / np.exp(z).sum(axis=-1, keepdims=True)


def softmax_cols(x):
    ex = np.exp(x - np.max(x, axis=0))
    return ex / ex.sum(axis=0)


def decoder_cross(dec_hidden, enc_outputs):
    """dec_hidden (B, D), enc_outputs (B, S, D); dot product attention (Luong dot), unscaled"""
    s = np.einsum("bd,bsd->bs", dec_hidden, enc_outputs)
    e = np.exp(s - s.max(-1, keepdims=True))
    w = e / e.sum(-1, keepdims=True)
    return np.einsum("bs,bsd->bd", w, enc_outputs), w


def causal_attn_np(x, wq, wk, wv):
    q, k, v = x @ wq, x @ wk, x @ wv
    T = x.shape[-2]
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    s = s + np.triu(np.ones((T, T)) * -1e10, k=0)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def bhtd_attn_seq(q, k, v):
    """Shapes: (B, S, H, D)."""
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[1])
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return np.einsum("bhqk,bkhd->bqhd", p, v)


class MHA1(nn.Module):
    def __init__(self, emb_dim: int, num_heads: int, dropout: float = 0.1):
        super().__init__()
        self.emb_dim = emb_dim
        self.num_heads = num_heads
        self.head_dim = emb_dim // num_heads
        self.q_linear = nn.Linear(emb_dim, emb_dim)
        self.k_linear = nn.Linear(emb_dim, emb_dim)
        self.v_linear = nn.Linear(emb_dim, emb_dim)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(emb_dim, emb_dim)

    def forward(self, q, k, v, mask=None):
        bs = q.size(0)
        k = self.k_linear(k).view(bs, -1, self.num_heads, self.head_dim)
        q = self.q_linear(q).view(bs, -1, self.num_heads, self.head_dim)
        v = self.v_linear(v).view(bs, -1, self.num_heads, self.head_dim)
        k, q, v = k.transpose(1, 2), q.transpose(1, 2), v.transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim)
        if mask is not None:
            mask = mask.unsqueeze(1)
            scores = scores.masked_fill(mask == 0, -1e9)
        scores = F.softmax(scores, dim=-2)
        out = torch.matmul(self.dropout(scores), v)
        return self.out(out.transpose(1, 2).contiguous().view(bs, -1, self.emb_dim))


class SelfAttnAladdin(nn.Module):
    def __init__(self, embed_size, heads):
        super().__init__()
        self.embed_size = embed_size
        self.heads = heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(embed_size, embed_size)
        self.keys = nn.Linear(embed_size, embed_size)
        self.queries = nn.Linear(embed_size, embed_size)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def forward(self, values, keys, query, mask):
        N = query.shape[0]
        vl, kl, ql = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values).reshape(N, vl, self.heads, self.head_dim)
        keys = self.keys(keys).reshape(N, kl, self.heads, self.head_dim)
        query = self.queries(query).reshape(N, ql, self.heads, self.head_dim)
        energy = torch.einsum("nqhd,nkhd->nhqk", [query, keys])
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / (self.embed_size ** (1 / 2)), dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", [attention, values]).reshape(N, ql, self.heads * self.head_dim)
        return self.fc_out(out)


class KarpathyHead(nn.Module):
    def __init__(self, n_embd, head_size, block_size=32, dropout=0.0):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))

    def forward(self, x):
        B, T, C = x.shape
        k, q, v = self.key(x), self.query(x), self.value(x)
        wei = q @ k.transpose(-2, -1) * C**-0.5
        wei = wei.masked_fill(self.tril[:T, :T] == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ v


class RaschkaCausal(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))

    def forward(self, x):
        b, n, _ = x.shape
        k = self.W_key(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        q = self.W_query(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        v = self.W_value(x).view(b, n, self.num_heads, self.head_dim).transpose(1, 2)
        s = q @ k.transpose(2, 3)
        s.masked_fill_(self.mask.bool()[:n, :n], -torch.inf)
        w = self.dropout(torch.softmax(s / k.shape[-1] ** 0.5, dim=-1))
        return self.out_proj((w @ v).transpose(1, 2).contiguous().view(b, n, self.d_out))


class D2LDot(nn.Module):
    """Scaled dot product attention."""

    def __init__(self, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)

    def forward(self, queries, keys, values, valid_lens=None):
        d = queries.shape[-1]
        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(d)
        if valid_lens is not None:
            m = torch.arange(scores.size(2))[None, None] < valid_lens[:, None, None]
            scores = scores.masked_fill(~m, -1e6)
        return torch.bmm(self.dropout(scores.softmax(-1)), values)


class HFSelf(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        return x.view(x.size(0), x.size(1), self.num_attention_heads, self.attention_head_size).permute(0, 2, 1, 3)

    def forward(self, hidden_states, attention_mask: Optional[torch.Tensor] = None):
        """attention_mask: additive, (B, 1, 1, S)"""
        q, k, v = (self.transpose_for_scores(f(hidden_states)) for f in (self.query, self.key, self.value))
        s = q @ k.transpose(-1, -2) / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            s = s + attention_mask
        ctx = (self.dropout(nn.functional.softmax(s, dim=-1)) @ v).permute(0, 2, 1, 3).contiguous()
        return (ctx.view(ctx.size(0), ctx.size(1), -1),)


class Transformer1(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner = dim_head * heads
        self.heads = heads
        self.scale = dim_head**0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x):
        x = self.norm(x)
        b, n, _ = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        a = (q @ k.transpose(-1, -2) * self.scale).softmax(-1)
        return self.to_out((a @ v).transpose(1, 2).reshape(b, n, -1))


def sdp(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, key_padding_mask: Optional[torch.Tensor] = None):
    """key_padding_mask: True for padding, (B, S)"""
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if key_padding_mask is not None:
        s = s.masked_fill(~key_padding_mask[:, None, None, :], float("-inf"))
    return torch.einsum("bhqk,bhkd->bhqd", s.softmax(-1), v)


class BahdanauGood(nn.Module):
    def __init__(self, enc_hid_dim, dec_hid_dim):
        super().__init__()
        self.attn = nn.Linear(enc_hid_dim + dec_hid_dim, dec_hid_dim)
        self.v = nn.Linear(dec_hid_dim, 1, bias=False)

    def forward(self, hidden, encoder_outputs):
        # hidden = [batch, dec_hid]; encoder_outputs = [batch, src_len, enc_hid]
        h = hidden.unsqueeze(1).repeat(1, encoder_outputs.shape[1], 1)
        e = torch.tanh(self.attn(torch.cat((h, encoder_outputs), dim=2)))
        return F.softmax(self.v(e).squeeze(2), dim=1)


class PE2(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        pos = torch.arange(max_len)[:, None]
        i = torch.arange(0, d_model, 2)
        pe = torch.zeros(max_len, d_model)
        pe[:, 0::2] = torch.sin(pos / 10000 ** (i / d_model))
        pe[:, 1::2] = torch.cos(pos / 10000 ** ((i + 1) / d_model))
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[: x.shape[1]]


def get_sinusoid_encoding(n_position, d_hid):
    def f(p):
        return [p / np.power(10000, 2 * (j // 2) / d_hid) for j in range(d_hid)]

    t = np.array([f(p) for p in range(n_position)])
    t[:, 0::2] = np.sin(t[:, 0::2])
    t[:, 1::2] = np.cos(t[:, 1::2])
    return t


def apply_rotary_pos_emb(q, k, position_ids):
    d = q.shape[-1]
    inv = 1.0 / (10000 ** (torch.arange(0, d, 2).to(q.dtype) / d))
    f = position_ids.to(q.dtype)[:, None] * inv
    emb = torch.cat((f, f), -1)
    rh = lambda x: torch.cat((-x[..., d // 2 :], x[..., : d // 2]), -1)
    return q * emb.cos() + rh(q) * emb.sin(), k * emb.cos() + rh(k) * emb.sin()


class EncDec(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, dropout=0.1, batch_first=True)

    def forward(self, x, memory, memory_key_padding_mask=None):
        return self.attn(x, memory, memory, key_padding_mask=memory_key_padding_mask)[0]


EXPECTED = {
    "scaled_dot_product": "",
    "tf_style_wrong": "mask_inverted",
    "attention_weights": "softmax_axis_q",
    "self_attn": "scale_seqlen",
    "self_attn_mh": "scale_dmodel",
    "masked_softmax": "",
    "masked_softmax_bad": "mask_after_softmax",
    "local_attention": "",
    "softmax_np": "global_max",
    "softmax_cols": "softmax_axis_q",
    "decoder_cross": "",
    "causal_attn_np": "causal_off_by_one",
    "bhtd_attn_seq": "scale_seqlen",
    "MHA1": "softmax_axis_q",
    "SelfAttnAladdin": "scale_dmodel",
    "KarpathyHead": "scale_dmodel",
    "RaschkaCausal": "",
    "D2LDot": "",
    "HFSelf": "",
    "Transformer1": "scale_inverted",
    "sdp": "mask_inverted",
    "BahdanauGood": "",
    "PE2": "pe_exponent",
    "get_sinusoid_encoding": "",
    "apply_rotary_pos_emb": "",
    "EncDec": "",
}
