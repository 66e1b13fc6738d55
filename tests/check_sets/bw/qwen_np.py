"""Qwen3-style attention for a pure NumPy engine (prefill and decode share the code).

Per-head RMSNorm on q and k, rotary with half-split pairs, grouped-query attention
with the head order of the released safetensors (consecutive query heads share a
key/value head). Batch size is always one.
"""
import numpy as np


def rms(x, w, eps=1e-6):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


class Rope:
    def __init__(self, d, theta=1e6):
        self.inv = theta ** -(np.arange(0, d, 2) / d)

    def __call__(self, x, pos):
        # x: (heads, n, d)
        ang = pos[:, None] * self.inv
        c, s = np.cos(ang), np.sin(ang)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


class KVCache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[1]

    def push(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = np.concatenate([self.k, k], axis=1)
            self.v = np.concatenate([self.v, v], axis=1)
        return self.k, self.v


class QwenAttention:
    def __init__(self, weights, n_heads=4, n_kv_heads=2, head_dim=8):
        self.w = weights
        self.n_heads, self.n_kv, self.hd = n_heads, n_kv_heads, head_dim
        self.rope = Rope(head_dim)

    def _proj(self, x, name, heads):
        y = x @ self.w[name].T
        return y.reshape(len(x), heads, self.hd).swapaxes(0, 1)

    def __call__(self, x, cache):
        """x: (n, hidden). Appends to the cache and returns (n, hidden)."""
        n, past = len(x), len(cache)
        pos = np.arange(past, past + n)

        q = rms(self._proj(x, "q_proj", self.n_heads), self.w["q_norm"])
        k = rms(self._proj(x, "k_proj", self.n_kv), self.w["k_norm"])
        v = self._proj(x, "v_proj", self.n_kv)
        k, v = cache.push(self.rope(k, pos), v)
        q = self.rope(q, pos)

        rep = self.n_heads // self.n_kv
        k = np.tile(k, (rep, 1, 1))
        v = np.tile(v, (rep, 1, 1))

        s = np.einsum("hqd,hkd->hqk", q, k) / np.sqrt(self.hd)
        future = np.arange(past + n)[None, :] > pos[:, None]
        s[:, future] = -np.inf
        s -= s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        y = np.einsum("hqk,hkd->qhd", p, v).reshape(n, -1)
        return y @ self.w["o_proj"].T


def random_weights(hidden=24, n_heads=4, n_kv_heads=2, head_dim=8, seed=0):
    r = np.random.default_rng(seed)
    g = lambda o, i: r.standard_normal((o, i)) / np.sqrt(i)
    return {
        "q_proj": g(n_heads * head_dim, hidden),
        "k_proj": g(n_kv_heads * head_dim, hidden),
        "v_proj": g(n_kv_heads * head_dim, hidden),
        "o_proj": g(hidden, n_heads * head_dim),
        "q_norm": 1 + 0.1 * r.standard_normal(head_dim),
        "k_norm": 1 + 0.1 * r.standard_normal(head_dim),
    }


if __name__ == "__main__":
    att, cache = QwenAttention(random_weights()), KVCache()
    h = np.random.default_rng(1).standard_normal((6, 24))
    print(att(h[:5], cache).shape, att(h[5:], cache).shape, len(cache))
