"""Mistral-style attention for a CPU toy engine: rolling buffer cache, GQA, RoPE (NeoX halves).

The cache has `window` slots; token number p is written to slot p % window, so at any time it
holds the last `window` tokens (the current one included).  Slots are not in time order, which
does not matter as keys are rotated by their absolute position before they are stored.
One token per call.
"""
import numpy as np


class RollingCache:
    def __init__(self, window, n_kv, head_dim):
        self.k = np.zeros((window, n_kv, head_dim), dtype=np.float32)
        self.v = np.zeros((window, n_kv, head_dim), dtype=np.float32)
        self.window = window
        self.seen = 0

    def push(self, k, v):
        slot = self.seen % self.window
        self.k[slot] = k
        self.v[slot] = v
        self.seen += 1

    def view(self):
        n = min(self.seen, self.window)
        return self.k[:n], self.v[:n]


def rotary(x, pos, theta=1e6):
    # x: [heads, head_dim]
    half = x.shape[-1] // 2
    ang = pos * theta ** (-np.arange(half) / half)
    c, s = np.cos(ang), np.sin(ang)
    lo, hi = x[:, :half], x[:, half:]
    return np.concatenate([lo * c - hi * s, hi * c + lo * s], axis=-1)


class MistralAttention:
    """weights: dict with wq [D, Hq*dh], wk/wv [D, Hkv*dh], wo [Hq*dh, D]"""

    def __init__(self, weights, n_heads, n_kv_heads, window):
        self.w = weights
        self.n_heads, self.n_kv = n_heads, n_kv_heads
        self.head_dim = weights["wq"].shape[1] // n_heads
        self.window = window
        self.cache = RollingCache(window, n_kv_heads, self.head_dim)

    def reset(self):
        self.cache = RollingCache(self.window, self.n_kv, self.head_dim)

    def __call__(self, x):
        """x: [D], hidden state of the next token -> [D]"""
        pos = self.cache.seen
        q = rotary((x @ self.w["wq"]).reshape(self.n_heads, -1), pos)
        k = rotary((x @ self.w["wk"]).reshape(self.n_kv, -1), pos)
        v = (x @ self.w["wv"]).reshape(self.n_kv, -1)
        self.cache.push(k, v)
        keys, values = self.cache.view()                       # [n, Hkv, dh]

        q = q.reshape(self.n_kv, self.n_heads // self.n_kv, self.head_dim)
        att = np.einsum("grd,ngd->grn", q, keys) / np.sqrt(self.head_dim)
        att = np.exp(att - att.max(-1, keepdims=True))
        att /= att.sum(-1, keepdims=True)
        out = np.einsum("grn,ngd->grd", att, values)
        return out.reshape(-1) @ self.w["wo"]


if __name__ == "__main__":
    r = np.random.default_rng(3)
    w = {n: r.normal(size=s) * 0.2 for n, s in
         dict(wq=(16, 16), wk=(16, 8), wv=(16, 8), wo=(16, 16)).items()}
    layer = MistralAttention(w, n_heads=4, n_kv_heads=2, window=3)
    for _ in range(5):
        print(layer(r.normal(size=16))[:3])
