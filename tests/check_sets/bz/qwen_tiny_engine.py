"""A single Qwen-like attention layer for a classroom inference engine (NumPy, KV cache).

RoPE in the half-split form: the pair (x_i, x_{i + d/2}) is rotated by the angle
pos * theta^(-2i/d).  Biases on q, k, v only; RMSNorm before; residual after.
2024年度 計算機アーキテクチャ演習 の配布コード.
"""
import numpy as np


def rms_norm(x, w, eps=1e-6):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * w


class Rope:
    def __init__(self, head_dim, theta=10000.0):
        self.inv = theta ** (-np.arange(0, head_dim, 2) / head_dim)

    def __call__(self, x, start):
        # x: (T, heads, head_dim)
        ang = (start + np.arange(x.shape[0]))[:, None, None] * self.inv
        cos, sin = np.cos(ang), np.sin(ang)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos - a * sin], axis=-1)


class QwenLayer:
    def __init__(self, w, n_heads, head_dim):
        self.w, self.n_heads, self.head_dim = w, n_heads, head_dim
        self.rope = Rope(head_dim)
        self.clear()

    def clear(self):
        shape = (0, self.n_heads, self.head_dim)
        self.k_cache, self.v_cache = np.zeros(shape), np.zeros(shape)

    def _proj(self, x, name):
        y = x @ self.w["w" + name] + self.w["b" + name]
        return y.reshape(len(x), self.n_heads, self.head_dim)

    def forward(self, x):
        """x: (T, D) 新しいトークン。キャッシュの続きとして扱う。"""
        start, T = len(self.k_cache), len(x)
        h = rms_norm(x, self.w["norm"])
        q = self.rope(self._proj(h, "q"), start)
        k = self.rope(self._proj(h, "k"), start)
        v = self._proj(h, "v")
        self.k_cache = np.concatenate([self.k_cache, k])
        self.v_cache = np.concatenate([self.v_cache, v])

        s = np.einsum("thd,shd->hts", q, self.k_cache) / np.sqrt(self.head_dim)
        ok = np.arange(start + T)[None, :] <= start + np.arange(T)[:, None]
        s = np.where(ok, s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        y = np.einsum("hts,shd->thd", p, self.v_cache).reshape(T, -1)
        return x + y @ self.w["wo"]


def dummy_weights(dim, n_heads, head_dim, seed=0):
    r = np.random.default_rng(seed)
    w = {"norm": np.ones(dim), "wo": r.normal(size=(n_heads * head_dim, dim)) * dim ** -0.5}
    for n in "qkv":
        w["w" + n] = r.normal(size=(dim, n_heads * head_dim)) * dim ** -0.5
        w["b" + n] = r.normal(size=n_heads * head_dim) * 0.1
    return w


if __name__ == "__main__":
    layer = QwenLayer(dummy_weights(16, 2, 8), 2, 8)
    x = np.random.default_rng(1).normal(size=(5, 16))
    print(layer.forward(x[:4]).shape, layer.forward(x[4:]).shape)
