"""Llama attention for one sequence on the CPU, weights as in the original (Meta) checkpoint.

The Meta layout rotates neighbouring channels (0,1), (2,3), ..., which is the
product with exp(i * m * theta) if a pair is read as one complex number.
"""
import numpy as np
from dataclasses import dataclass, field
from typing import Optional


@dataclass
class Cache:
    k: Optional[np.ndarray] = None   # (S, Hkv, d), already rotated
    v: Optional[np.ndarray] = None

    def __len__(self):
        return 0 if self.k is None else len(self.k)

    def push(self, k, v):
        self.k = k if self.k is None else np.concatenate([self.k, k])
        self.v = v if self.v is None else np.concatenate([self.v, v])
        return self.k, self.v


@dataclass
class LlamaAttention:
    wq: np.ndarray          # (dim, Hq*d)
    wk: np.ndarray          # (dim, Hkv*d)
    wv: np.ndarray
    wo: np.ndarray          # (Hq*d, dim)
    n_heads: int
    n_kv_heads: int
    theta: float = 10000.0
    cache: Cache = field(default_factory=Cache)

    def _rotate(self, x, first):
        d = x.shape[-1]
        inv = self.theta ** (-np.arange(0, d, 2) / d)
        ang = np.outer(np.arange(first, first + len(x)), inv)[:, None, :]
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * ang)
        y = np.empty_like(x)
        y[..., 0::2], y[..., 1::2] = z.real, z.imag
        return y

    def forward(self, x):
        """x (T, dim): the T newest tokens. The cache grows by T."""
        T, done = len(x), len(self.cache)
        d = self.wq.shape[1] // self.n_heads
        q = self._rotate((x @ self.wq).reshape(T, self.n_heads, d), done)
        k = self._rotate((x @ self.wk).reshape(T, self.n_kv_heads, d), done)
        v = (x @ self.wv).reshape(T, self.n_kv_heads, d)
        K, V = self.cache.push(k, v)

        rep = self.n_heads // self.n_kv_heads
        q = q.reshape(T, self.n_kv_heads, rep, d)
        s = np.einsum("tgrd,sgd->grts", q, K) / np.sqrt(d)
        ok = np.tri(T, done + T, k=done, dtype=bool)
        s = np.where(ok, s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        o = np.einsum("grts,sgd->tgrd", p, V)
        return o.reshape(T, -1) @ self.wo

    __call__ = forward
