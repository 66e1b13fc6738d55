"""Llama-type inference in NumPy. Weights are a flat dict of float32 arrays (in, out); one sequence at a time.

The prompt may be fed in chunks: generate(prompt[:512]), then the rest, then token by token.
"""
import numpy as np


def rmsnorm(x, g, eps=1e-5):
    return x * (1.0 / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps)) * g


def rope(x, start, base=10000.0):
    """x [L, H, d], halves rotated (the export un-permutes q and k)"""
    L, _, d = x.shape
    f = base ** (-np.arange(0, d, 2) / d)
    a = np.arange(start, start + L)[:, None] * f[None]
    c, s = np.cos(a)[:, None], np.sin(a)[:, None]
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return np.concatenate([x1 * c - x2 * s, x2 * c + x1 * s], -1)


class KV:
    def __init__(self):
        self.k, self.v = None, None

    @property
    def n(self):
        return 0 if self.k is None else len(self.k)

    def add(self, k, v):
        self.k = k if self.k is None else np.concatenate([self.k, k])
        self.v = v if self.v is None else np.concatenate([self.v, v])


def attend(x, w, layer, kv, n_heads, n_kv):
    """x [L, C] new tokens, causal, everything that is in kv lies before them."""
    p = f"layers.{layer}.attention."
    L = x.shape[0]
    d = w[p + "wq"].shape[1] // n_heads
    past = kv.n
    q = rope((x @ w[p + "wq"]).reshape(L, n_heads, d), past)
    k = rope((x @ w[p + "wk"]).reshape(L, n_kv, d), past)
    kv.add(k, (x @ w[p + "wv"]).reshape(L, n_kv, d))
    K = np.repeat(kv.k, n_heads // n_kv, axis=1)
    V = np.repeat(kv.v, n_heads // n_kv, axis=1)
    s = np.einsum("ihd,jhd->hij", q, K) / np.sqrt(d)
    allowed = np.tril(np.ones((L, K.shape[0]), dtype=bool))
    s = np.where(allowed, s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    s /= s.sum(-1, keepdims=True)
    return np.einsum("hij,jhd->ihd", s, V).reshape(L, n_heads * d) @ w[p + "wo"]


def mlp(x, w, layer):
    p = f"layers.{layer}.feed_forward."
    g = x @ w[p + "w1"]
    return (g / (1 + np.exp(-g)) * (x @ w[p + "w3"])) @ w[p + "w2"]


class Model:
    def __init__(self, w, n_layers, n_heads, n_kv):
        self.w, self.n_layers, self.n_heads, self.n_kv = w, n_layers, n_heads, n_kv
        self.reset()

    def reset(self):
        self.cache = [KV() for _ in range(self.n_layers)]

    def forward(self, ids):
        x = self.w["tok_embeddings"][np.asarray(ids)]
        for i in range(self.n_layers):
            h = rmsnorm(x, self.w[f"layers.{i}.attention_norm"])
            x = x + attend(h, self.w, i, self.cache[i], self.n_heads, self.n_kv)
            x = x + mlp(rmsnorm(x, self.w[f"layers.{i}.ffn_norm"]), self.w, i)
        return rmsnorm(x, self.w["norm"]) @ self.w["output"]
