"""Grouped-query attention from scratch (Ainslie et al. 2023), forward pass in NumPy.

Part 6 of my "LLM internals with nothing but arrays" series. All activations keep
the layout [batch, time, heads, head_dim]. There are `n_kv` key/value heads for
`n_q` query heads and every key/value head serves a run of n_q // n_kv consecutive
query heads. The block is causal.
"""
import numpy as np


def rmsnorm(x, g, eps=1e-6):
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * g


def silu(x):
    return x / (1.0 + np.exp(-x))


def stable_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    x = np.exp(x)
    return x / x.sum(axis=-1, keepdims=True)


class GroupedQueryBlock:
    def __init__(self, d_model=32, n_q=4, n_kv=2, d_ff=48, rng=None):
        if n_q % n_kv:
            raise ValueError("n_q must be a multiple of n_kv")
        rng = rng or np.random.default_rng(0)
        self.n_q, self.n_kv = n_q, n_kv
        self.hd = d_model // n_q
        std = d_model ** -0.5
        self.w = {
            "q": rng.normal(0, std, (d_model, n_q * self.hd)),
            "k": rng.normal(0, std, (d_model, n_kv * self.hd)),
            "v": rng.normal(0, std, (d_model, n_kv * self.hd)),
            "o": rng.normal(0, std, (n_q * self.hd, d_model)),
            "gate": rng.normal(0, std, (d_model, d_ff)),
            "up": rng.normal(0, std, (d_model, d_ff)),
            "down": rng.normal(0, d_ff ** -0.5, (d_ff, d_model)),
        }
        self.g1, self.g2 = np.ones(d_model), np.ones(d_model)

    def expand_kv(self, t):
        """[B, T, n_kv, hd] -> [B, T, n_q, hd]"""
        b, n, _, hd = t.shape
        reps = self.n_q // self.n_kv
        return np.tile(t, (1, reps, 1, 1)).reshape(b, n, self.n_q, hd)

    def attention(self, x):
        b, t, _ = x.shape
        q = (x @ self.w["q"]).reshape(b, t, self.n_q, self.hd)
        k = (x @ self.w["k"]).reshape(b, t, self.n_kv, self.hd)
        v = (x @ self.w["v"]).reshape(b, t, self.n_kv, self.hd)
        k, v = self.expand_kv(k), self.expand_kv(v)
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(self.hd)
        scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
        y = np.einsum("bhij,bjhd->bihd", stable_softmax(scores), v)
        return y.reshape(b, t, -1) @ self.w["o"]

    def feed_forward(self, x):
        return (silu(x @ self.w["gate"]) * (x @ self.w["up"])) @ self.w["down"]

    def __call__(self, x):
        x = x + self.attention(rmsnorm(x, self.g1))
        return x + self.feed_forward(rmsnorm(x, self.g2))
