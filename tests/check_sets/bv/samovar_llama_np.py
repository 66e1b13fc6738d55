"""Маленький Llama-подобный слой на чистом NumPy: веса приходят из state_dict.

Имена ключей как у Meta (wq, wk, wv, wo), поэтому и поворот RoPE у нас «попарный»:
пара - соседние координаты (0,1), (2,3) ... В формате HF половины переставлены,
такие веса сюда загружать нельзя.
"""
import numpy as np


class KVCache:
    def __init__(self, max_len, n_kv, d):
        self.k = np.zeros((max_len, n_kv, d))
        self.v = np.zeros((max_len, n_kv, d))
        self.n = 0

    def push(self, k, v):
        t = len(k)
        self.k[self.n:self.n + t] = k
        self.v[self.n:self.n + t] = v
        self.n += t
        return self.k[:self.n], self.v[:self.n]


def rope(x, start, base=10000.0):
    """x: [T, heads, d]; первый токен стоит на позиции start."""
    T, _, d = x.shape
    w = base ** (-np.arange(0, d, 2) / d)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * np.outer(start + np.arange(T), w))[:, None, :]
    out = np.empty_like(x)
    out[..., 0::2], out[..., 1::2] = z.real, z.imag
    return out


class AttentionLayer:
    """Внимание с группами: n_heads голов запросов, n_kv голов ключей. Вход [T, dim], причинное."""

    def __init__(self, sd, prefix, n_heads, n_kv, max_len=128):
        g = lambda name: np.asarray(sd[f"{prefix}.{name}.weight"], dtype=np.float64).T
        self.wq, self.wk, self.wv, self.wo = g("wq"), g("wk"), g("wv"), g("wo")
        self.n_heads, self.n_kv = n_heads, n_kv
        self.d = self.wq.shape[1] // n_heads
        self.cache = KVCache(max_len, n_kv, self.d)

    def __call__(self, x):
        T = len(x)
        start = self.cache.n
        q = rope((x @ self.wq).reshape(T, self.n_heads, self.d), start)
        k = rope((x @ self.wk).reshape(T, self.n_kv, self.d), start)
        v = (x @ self.wv).reshape(T, self.n_kv, self.d)
        K, V = self.cache.push(k, v)
        K = np.repeat(K, self.n_heads // self.n_kv, axis=1)     # голова h -> группа h // r
        V = np.repeat(V, self.n_heads // self.n_kv, axis=1)
        s = np.einsum("thd,shd->hts", q, K) / np.sqrt(self.d)
        visible = np.arange(len(K))[None, :] <= start + np.arange(T)[:, None]
        s = np.where(visible, s, -np.inf)
        s -= s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        return np.einsum("hts,shd->thd", p, V).reshape(T, -1) @ self.wo


def fake_state_dict(dim=24, n_heads=4, n_kv=2, seed=0):
    r = np.random.default_rng(seed)
    d = dim // n_heads
    rows = {"wq": dim, "wk": n_kv * d, "wv": n_kv * d, "wo": dim}
    return {f"layers.0.attention.{n}.weight": r.normal(size=(m, dim)) * dim ** -0.5 for n, m in rows.items()}


if __name__ == "__main__":
    layer = AttentionLayer(fake_state_dict(), "layers.0.attention", 4, 2)
    print(layer(np.random.randn(5, 24)).shape, layer(np.random.randn(1, 24)).shape)
