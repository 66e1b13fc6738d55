"""Other interfaces: parameters in a dict, layers without a library, caches, blocks; EXPECTED names the mistakes."""

import functools
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def softmax(x, axis=-1):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def mha_apply(params, x, num_heads):
    """x: (batch, seq, dim); params holds wq, wk, wv, wo of shape (dim, dim)"""
    b, t, d = x.shape
    q, k, v = (x @ params[n] for n in ("wq", "wk", "wv"))
    q, k, v = (a.reshape(b, t, num_heads, -1).transpose(0, 2, 1, 3) for a in (q, k, v))
    w = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(d // num_heads))
    return (w @ v).reshape(b, t, d) @ params["wo"]


class MultiHeadSelfAttention:
    def __init__(self, units, num_heads):
        self.units, self.num_heads = units, num_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (np.random.randn(units, units) for _ in range(4))

    def __call__(self, inputs, mask=None):
        """mask: (batch, seq), 1 for tokens, 0 for padding"""
        b, t, _ = inputs.shape
        q, k, v = (
            (inputs @ w).reshape(b, t, self.num_heads, -1).transpose(0, 2, 1, 3) for w in (self.w_q, self.w_k, self.w_v)
        )
        s = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(self.units)
        if mask is not None:
            s = np.where(mask[:, None, None, :] == 0, -1e9, s)
        return np.einsum("bhqk,bhkd->bqhd", softmax(s), v).reshape(b, t, -1) @ self.w_o


class Cached(nn.Module):
    """Causal attention that remembers past keys."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x, past_kv=None):
        b, t, c = x.shape
        q, k, v = (p(x).view(b, t, self.h, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        if past_kv is not None:
            k, v = torch.cat((past_kv[0], k), 2), torch.cat((past_kv[1], v), 2)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(b, t, c)), (k, v)


def positional_table(n_position, d_hid):
    def angle(position, j):
        return position / np.power(10000, 2 * (j // 2) / d_hid // 2)

    table = np.array([[angle(p, j) for j in range(d_hid)] for p in range(n_position)])
    table[:, 0::2], table[:, 1::2] = np.sin(table[:, 0::2]), np.cos(table[:, 1::2])
    return table


class ScaledEmbedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.emb = nn.Embedding(vocab_size, d_model)

    def forward(self, x):
        return self.emb(x)


def split_heads(x, n_heads):
    return x.reshape(x.shape[0], n_heads, x.shape[1], -1)


def merge_heads(x):
    b, h, t, d = x.shape
    return x.reshape(b, t, h * d)


def repeat_kv(x, n_rep):
    """x: (batch, kv_heads, seq, dim)"""
    return x.repeat(1, n_rep, 1, 1)


def make_causal_mask(size):
    return np.tril(np.ones((size, size)), k=1).astype(bool)


def causal_mask(q_len, k_len):
    """True = may attend"""
    return torch.ones(q_len, k_len, dtype=torch.bool).tril()


def bias_alibi(n_head, length):
    slopes = np.array([2 ** (-8 * i / n_head) for i in range(n_head)])
    return slopes[:, None, None] * (np.arange(length)[None, None] - np.arange(length)[None, :, None])


def alibi_distance(num_heads, q_len, k_len):
    start = 2 ** (-8 / (1 << (num_heads.bit_length() - 1)))
    n = 1 << (num_heads.bit_length() - 1)
    slopes = [start ** (i + 1) for i in range(n)] + [(start**0.5) ** (2 * i + 1) for i in range(num_heads - n)]
    d = (torch.arange(k_len)[None] - torch.arange(q_len)[:, None]).abs()
    return -torch.tensor(slopes)[:, None, None] * d


class EncoderDecoderStep(nn.Module):
    """Bahdanau attention for one decoder step."""

    def __init__(self, hidden_size):
        super().__init__()
        self.W, self.U, self.v = (
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, 1),
        )

    def forward(self, decoder_hidden, encoder_outputs):
        score = self.v(torch.tanh(self.W(decoder_hidden).unsqueeze(1) + self.U(encoder_outputs)))
        w = F.softmax(score, dim=0)
        return (w * encoder_outputs).sum(1), w.squeeze(-1)


class Memory:
    @functools.cached_property
    def cache(self):
        return {}

    def attend(self, q, k, v):
        key = (k.shape, float(k.sum()))
        if key not in self.cache:
            self.cache[key] = softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(k.shape[-1]))
        return self.cache[key] @ v


class DropAfterEval(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        self.num_heads, self.drop = num_heads, nn.Dropout(dropout)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(embed_dim, embed_dim) for _ in range(4))

    def train(self, mode=True):
        if not mode:
            self.drop.p = 0.0
        return super().train(mode)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.num_heads, -1).transpose(1, 2) for f in (self.wq, self.wk, self.wv))
        w = self.drop((q @ k.mT / math.sqrt(q.size(-1))).softmax(-1))
        return self.wo((w @ v).transpose(1, 2).reshape(b, t, c))


def half_fill(q, k, v, mask):
    """mask: True = keep"""
    s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return torch.where(mask, s, torch.tensor(-1e8, dtype=q.dtype)).softmax(-1) @ v


class ListOfHeads(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.q, self.k, self.v = (
            [nn.Linear(d_model, d_model // num_heads) for _ in range(num_heads)] for _ in range(3)
        )

    def forward(self, x):
        heads = zip(self.q, self.k, self.v, strict=True)
        return torch.cat([F.scaled_dot_product_attention(q(x), k(x), v(x)) for q, k, v in heads], -1)


class OneMatrixForAllHeads(nn.Module):
    def __init__(self, embed_size=256, heads=8):
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values, self.keys, self.queries = (nn.Linear(self.head_dim, self.head_dim, bias=False) for _ in range(3))
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, values, keys, query, mask):
        N, ql = query.shape[:2]
        values, keys, queries = (x.reshape(N, -1, self.heads, self.head_dim) for x in (values, keys, query))
        energy = torch.einsum("nqhd,nkhd->nhqk", self.queries(queries), self.keys(keys))
        if mask is not None:
            energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / self.embed_size**0.5, dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", attention, self.values(values))
        return self.fc_out(out.reshape(N, ql, -1))


class DefaultWidth(nn.Module):
    """A default width that three heads do not divide."""

    def __init__(self, d_model=32, n_heads=4):
        super().__init__()
        self.h, self.dk = n_heads, d_model // n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, self.h, T, self.dk) for w in (self.wq, self.wk, self.wv))
        y = (q @ k.transpose(-1, -2) / self.dk**0.5).softmax(-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


def positional_encoding(T, d):
    table, i = np.zeros((T, d)), np.arange(d // 2)
    table[:, 0::2] = np.sin(np.arange(T)[:, None] / 10000 ** (i / d))
    table[:, 1::2] = np.cos(np.arange(T)[:, None] / 10000 ** (i / d))
    return table


EXPECTED = {
    "mha_apply": "merge_view",
    "MultiHeadSelfAttention": "scale_dmodel",
    "Cached": "causal_top_left",
    "positional_table": "pe_exponent",
    "ScaledEmbedding": "embed_scale",
    "split_heads": "split_view",
    "merge_heads": "merge_view",
    "repeat_kv": "gqa_tile",
    "make_causal_mask": "causal_off_by_one",
    "causal_mask": "causal_top_left",
    "bias_alibi": "alibi_slopes",
    "alibi_distance": "alibi_offset",
    "EncoderDecoderStep": "softmax_axis_head_or_batch",
    "Memory": "cache_key",
    "DropAfterEval": "dropout_stuck_off",
    "half_fill": "mask_fp16_overflow",
    "ListOfHeads": "python_list",
    "OneMatrixForAllHeads": "shared_projection scale_dmodel",
    "DefaultWidth": "split_view",
    "positional_encoding": "pe_exponent",
}
