"""Lecture 11: a GPT in 80 lines of numpy.

Position t attends to 0..t.  Position codes are those of Vaswani et al.:
    PE[p, 2i] = sin(p / 10000^(2i/d)),  PE[p, 2i+1] = cos(p / 10000^(2i/d))
"""
import numpy as np


def pos_codes(n, d):
    pe = np.zeros((n, d))
    for p in range(n):
        for i in range(0, d, 2):
            pe[p, i] = np.sin(p / 10000 ** ((2 * i) / d))
            pe[p, i + 1] = np.cos(p / 10000 ** ((2 * i) / d))
    return pe


def softmax(z):
    top = z.max(axis=-1, keepdims=True)
    return np.exp(z - top) / np.exp(z).sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def ln(x, g, b):
    return g * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + b


class LectureGPT:
    def __init__(self, vocab, n_ctx, d, heads, seed=0):
        r = np.random.default_rng(seed)
        self.d, self.heads = d, heads
        self.wte = r.normal(0, 0.5, (vocab, d))
        self.wpe = pos_codes(n_ctx, d)
        self.wqkv = r.normal(0, d ** -0.5, (d, 3 * d))
        self.wo = r.normal(0, d ** -0.5, (d, d))
        self.w1 = r.normal(0, d ** -0.5, (d, 4 * d))
        self.w2 = r.normal(0, 0.5 * d ** -0.5, (4 * d, d))
        self.g, self.b = np.ones(d), np.zeros(d)

    def attention(self, x):
        n = len(x)
        q, k, v = np.split(x @ self.wqkv, 3, axis=-1)
        hidden = np.triu(np.ones((n, n)), k=2).astype(bool)
        outs = []
        for qh, kh, vh in zip(*(np.split(t, self.heads, axis=-1) for t in (q, k, v))):
            s = qh @ kh.T / np.sqrt(qh.shape[-1])
            s = np.where(hidden, -1e10, s)
            outs.append(softmax(s) @ vh)
        return np.hstack(outs) @ self.wo

    def __call__(self, ids):
        x = self.wte[ids] + self.wpe[: len(ids)]
        x = x + self.attention(ln(x, self.g, self.b))
        x = x + gelu(ln(x, self.g, self.b) @ self.w1) @ self.w2
        return ln(x, self.g, self.b) @ self.wte.T

    def generate(self, ids, n):
        ids = list(ids)
        for _ in range(n):
            ids.append(int(np.argmax(self(np.array(ids))[-1])))
        return ids
