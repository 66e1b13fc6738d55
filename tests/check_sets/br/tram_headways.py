"""Headway model of a tram line (how far apart do the trams run?), NumPy inference.

The weights were trained with the public ALiBi reference code, so the slopes here have to
be the slopes of that code for the same number of heads (12 in the shipped checkpoint).
Stop events are the tokens; causal, no position embedding.
"""
from typing import Dict, Mapping

import numpy as np

Array = np.ndarray

N_HEADS = 12


def get_slopes(n_heads: int) -> Array:
    """Geometric sequence 2^(-8/n), 2^(-16/n), ..., 2^(-8), one slope per head."""
    return 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)


def distance_bias(n_heads: int, n_q: int, n_k: int) -> Array:
    """(heads, n_q, n_k); the queries are the last n_q of the n_k events."""
    i = np.arange(n_k - n_q, n_k)
    j = np.arange(n_k)
    return -get_slopes(n_heads)[:, None, None] * (i[:, None] - j[None, :])


def stable_softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


class HeadwayAttention:
    """Fused `Wqkv` (all queries, all keys, all values), then `out_proj`, in MPT naming."""

    def __init__(self, params: Mapping[str, Array], n_heads: int = N_HEADS):
        self.w, self.b = params["Wqkv.weight"], params["Wqkv.bias"]
        self.ow, self.ob = params["out_proj.weight"], params["out_proj.bias"]
        self.n_heads = n_heads
        self.d_model = self.ow.shape[0]
        if self.d_model % n_heads:
            raise ValueError("d_model has to be a multiple of n_heads")

    def _heads(self, x: Array) -> Array:
        b, s, _ = x.shape
        return x.reshape(b, s, self.n_heads, -1).transpose(0, 2, 1, 3)

    def __call__(self, x: Array, past: Dict[str, Array] | None = None) -> Array:
        """x (batch, s, d_model).  If a dict is passed, it is read and extended."""
        b, s, _ = x.shape
        q, k, v = (self._heads(t) for t in np.split(x @ self.w.T + self.b, 3, axis=-1))
        if past is not None:
            if past:
                k = np.concatenate([past["k"], k], axis=2)
                v = np.concatenate([past["v"], v], axis=2)
            past["k"], past["v"] = k, v
        n = k.shape[2]
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        scores = scores + distance_bias(self.n_heads, s, n)
        allowed = np.tri(s, n, n - s, dtype=bool)
        scores = np.where(allowed, scores, -np.inf)
        ctx = stable_softmax(scores) @ v
        return ctx.transpose(0, 2, 1, 3).reshape(b, s, self.d_model) @ self.ow.T + self.ob


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


class HeadwayBlock:
    def __init__(self, params: Mapping[str, Array], n_heads: int = N_HEADS):
        sub = {k[5:]: v for k, v in params.items() if k.startswith("attn.")}
        self.p, self.attn = params, HeadwayAttention(sub, n_heads)

    @staticmethod
    def _ln(x: Array, w: Array) -> Array:
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w

    def __call__(self, x: Array, past: Dict[str, Array] | None = None) -> Array:
        x = x + self.attn(self._ln(x, self.p["norm_1"]), past)
        return x + gelu(self._ln(x, self.p["norm_2"]) @ self.p["up"]) @ self.p["down"]


def fresh(d: int = 48, seed: int = 0) -> Dict[str, Array]:
    r = np.random.default_rng(seed)
    g = lambda *s: r.normal(0, s[-1] ** -0.5, s)
    return {
        "attn.Wqkv.weight": g(3 * d, d), "attn.Wqkv.bias": np.zeros(3 * d),
        "attn.out_proj.weight": g(d, d), "attn.out_proj.bias": np.zeros(d),
        "norm_1": np.ones(d), "norm_2": np.ones(d), "up": g(d, 2 * d), "down": g(2 * d, d),
    }


if __name__ == "__main__":
    block, memory = HeadwayBlock(fresh()), {}
    events = np.random.default_rng(1).normal(size=(2, 9, 48))
    parts = [block(events[:, :6], memory), block(events[:, 6:], memory)]
    print(np.abs(np.concatenate(parts, 1) - block(events)).max())
