import numpy as np


class Attention:
    """Inference only, no framework.  weights: "q", "k", "v", "o" (dim, dim); x: (tokens, dim)"""

    def __init__(self, weights, n_heads):
        self.w = weights
        self.n_heads = n_heads

    def __call__(self, x):
        t, d = x.shape
        hd = d // self.n_heads
        out = np.zeros_like(x)
        for h in range(self.n_heads):
            cols = slice(h * hd, (h + 1) * hd)
            q, k, v = x @ self.w["q"][:, cols], x @ self.w["k"][:, cols], x @ self.w["v"][:, cols]
            s = q @ k.T / hd**0.5
            top = s.max(axis=-1, keepdims=True)
            p = np.exp(s - top) / np.exp(s).sum(axis=-1, keepdims=True)
            out[:, cols] = p @ v
        return out @ self.w["o"]


rng = np.random.default_rng(0)
demo = Attention({n: rng.normal(size=(8, 8)) / 3 for n in "qkvo"}, n_heads=2)
