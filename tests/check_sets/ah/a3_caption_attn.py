"""Assignment 3, part 2: attention layers for image captioning (numpy).

Shapes: N samples, S source length, T target length, D embedding, H heads.
attn_mask: (T, S), 1 where a target position may look at a source position, 0 otherwise.
"""
import numpy as np


def affine(x, w, b):
    return x @ w + b


def stable_softmax(z, axis=-1):
    """Row-wise softmax. The maximum is taken off first so that exp() cannot overflow."""
    m = np.max(z, axis=axis, keepdims=True)
    num = np.exp(z - m)
    den = np.sum(np.exp(z), axis=axis, keepdims=True)
    return num / den


def dropout_forward(x, p, train, rng):
    if not train or p == 0:
        return x
    return x * (rng.random(x.shape) >= p) / (1 - p)


class MultiHeadAttention:
    def __init__(self, embed_dim, num_heads, dropout=0.1, seed=231):
        assert embed_dim % num_heads == 0
        self.rng = np.random.default_rng(seed)
        self.H = num_heads
        self.p = dropout
        self.train = False
        bound = np.sqrt(3.0 / embed_dim)
        self.params = {}
        for name in ("key", "query", "value", "proj"):
            self.params[name + "_w"] = self.rng.uniform(-bound, bound, (embed_dim, embed_dim))
            self.params[name + "_b"] = np.zeros(embed_dim)

    def forward(self, query, key, value, attn_mask=None):
        P = self.params
        N, T, D = query.shape
        S = key.shape[1]
        dk = D // self.H
        q = affine(query, P["query_w"], P["query_b"]).reshape(N, T, self.H, dk).transpose(0, 2, 1, 3)
        k = affine(key, P["key_w"], P["key_b"]).reshape(N, S, self.H, dk).transpose(0, 2, 3, 1)
        v = affine(value, P["value_w"], P["value_b"]).reshape(N, S, self.H, dk).transpose(0, 2, 1, 3)
        e = np.matmul(q, k) / np.sqrt(dk)                     # N x H x T x S
        if attn_mask is not None:
            e = np.where(attn_mask == 0, -np.inf, e)
        a = stable_softmax(e, axis=3)
        a = dropout_forward(a, self.p, self.train, self.rng)
        y = np.matmul(a, v).transpose(0, 2, 1, 3).reshape(N, T, D)
        return affine(y, P["proj_w"], P["proj_b"])


class PositionalEncoding:
    def __init__(self, embed_dim, max_len=5000):
        assert embed_dim % 2 == 0
        pos = np.arange(max_len)[:, None]
        div = 10000.0 ** (-np.arange(0, embed_dim, 2) / embed_dim)
        self.pe = np.zeros((1, max_len, embed_dim))
        self.pe[0, :, 0::2] = np.sin(pos * div)
        self.pe[0, :, 1::2] = np.cos(pos * div)

    def forward(self, x):
        return x + self.pe[:, : x.shape[1]]


class CaptionDecoderLayer:
    def __init__(self, dim, heads, ff):
        rng = np.random.default_rng(1)
        self.self_attn = MultiHeadAttention(dim, heads, seed=2)
        self.cross = MultiHeadAttention(dim, heads, seed=3)
        self.w1, self.b1 = rng.normal(0, dim**-0.5, (dim, ff)), np.zeros(ff)
        self.w2, self.b2 = rng.normal(0, ff**-0.5, (ff, dim)), np.zeros(dim)

    @staticmethod
    def ln(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def forward(self, tgt, memory):
        mask = np.tril(np.ones((tgt.shape[1], tgt.shape[1])))
        tgt = self.ln(tgt + self.self_attn.forward(tgt, tgt, tgt, mask))
        tgt = self.ln(tgt + self.cross.forward(tgt, memory, memory))
        h = np.maximum(0, affine(tgt, self.w1, self.b1))
        return self.ln(tgt + affine(h, self.w2, self.b2))
