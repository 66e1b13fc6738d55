"""tiny_engine: chunked-prefill LLM runner on NumPy, made for reading.

Prompts are fed in chunks of `chunk` tokens; every chunk attends to all the tokens in the
cache and, causally, to itself. Query head h uses kv head h // group (HF layout).
"""
import json
import numpy as np

F = np.float32


class Tensors:
    """name -> array, with a prefix that can be narrowed: t['layers.0']['wq']"""

    def __init__(self, data, prefix=""):
        self._d, self._p = data, prefix

    def __getitem__(self, name):
        full = self._p + name
        if full in self._d:
            return self._d[full]
        return Tensors(self._d, full + ".")


def softmax_(x):
    x -= x.max(-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return x


def rope_(x, offset, theta):
    # x: [H, T, d], pairs (i, i + d/2)
    H, T, d = x.shape
    f = theta ** (-np.arange(d // 2) * 2.0 / d)
    a = (offset + np.arange(T))[:, None] * f[None]
    c, s = np.cos(a), np.sin(a)
    lo, hi = x[..., :d // 2].copy(), x[..., d // 2:].copy()
    x[..., :d // 2] = lo * c - hi * s
    x[..., d // 2:] = hi * c + lo * s
    return x


class Cache:
    def __init__(self, n_layers, n_kv, d, limit):
        self.k = np.zeros((n_layers, n_kv, limit, d), F)
        self.v = np.zeros((n_layers, n_kv, limit, d), F)
        self.n = 0


class Engine:
    def __init__(self, meta, tensors, limit=256, chunk=8):
        m = json.loads(meta) if isinstance(meta, str) else meta
        self.L, self.H, self.Hkv, self.d = m["layers"], m["heads"], m["kv_heads"], m["head_dim"]
        self.theta, self.eps = m.get("theta", 10000.0), m.get("eps", 1e-5)
        self.t = Tensors(tensors)
        self.limit, self.chunk = limit, chunk
        self.cache = Cache(self.L, self.Hkv, self.d, limit)

    def _norm(self, x, w):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.eps) * w

    def _attend(self, x, layer):
        t = self.t["layers.%d" % layer]
        T, at = x.shape[0], self.cache.n
        q = (x @ t["wq"]).reshape(T, self.H, self.d).transpose(1, 0, 2).copy()
        k = (x @ t["wk"]).reshape(T, self.Hkv, self.d).transpose(1, 0, 2).copy()
        v = (x @ t["wv"]).reshape(T, self.Hkv, self.d).transpose(1, 0, 2)
        rope_(q, at, self.theta)
        rope_(k, at, self.theta)
        self.cache.k[layer, :, at:at + T] = k
        self.cache.v[layer, :, at:at + T] = v
        K = np.tile(self.cache.k[layer, :, :at + T], (self.H // self.Hkv, 1, 1))
        V = np.tile(self.cache.v[layer, :, :at + T], (self.H // self.Hkv, 1, 1))
        s = q @ K.transpose(0, 2, 1) / np.sqrt(self.d)
        if T > 1:
            s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
        y = softmax_(s) @ V
        return y.transpose(1, 0, 2).reshape(T, self.H * self.d) @ t["wo"]

    def _ffn(self, x, layer):
        t = self.t["layers.%d" % layer]
        g = x @ t["w1"]
        return (g / (1 + np.exp(-g)) * (x @ t["w3"])) @ t["w2"]

    def feed(self, ids):
        """Runs the new tokens; returns the logits of the last one."""
        ids = np.asarray(ids)
        if self.cache.n + len(ids) > self.limit:
            raise RuntimeError("context is full")
        for i in range(0, len(ids), self.chunk):
            x = self.t["embed"][ids[i:i + self.chunk]]
            for l in range(self.L):
                t = self.t["layers.%d" % l]
                x = x + self._attend(self._norm(x, t["norm1"]), l)
                x = x + self._ffn(self._norm(x, t["norm2"]), l)
            self.cache.n += len(x)
        return self._norm(x[-1], self.t["norm"]) @ self.t["embed"].T

    def generate(self, ids, n):
        logits = self.feed(ids)
        for _ in range(n):
            nxt = int(np.argmax(logits))
            yield nxt
            logits = self.feed([nxt])


def toy(layers=2, heads=4, kv_heads=2, head_dim=8, vocab=64, seed=0):
    r = np.random.default_rng(seed)
    dim = heads * head_dim
    W = lambda a, b: (r.normal(size=(a, b)) / np.sqrt(a)).astype(F)
    d = {"embed": W(vocab, dim) * 4, "norm": np.ones(dim, F)}
    for i in range(layers):
        p = "layers.%d." % i
        d.update({p + "wq": W(dim, dim), p + "wk": W(dim, kv_heads * head_dim), p + "wv": W(dim, kv_heads * head_dim),
                  p + "wo": W(dim, dim), p + "w1": W(dim, 2 * dim), p + "w3": W(dim, 2 * dim), p + "w2": W(2 * dim, dim),
                  p + "norm1": np.ones(dim, F), p + "norm2": np.ones(dim, F)})
    return {"layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}, d
