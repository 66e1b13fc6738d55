"""Host side of split-KV decoding: several workers each hold a slice of the context.

A worker answers with (out, lse). Like the device kernel it works with exp2/log2, and the lse it
sends is base 2. The coordinator puts the answers together.
"""
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

LOG2E = np.float32(1.4426950408889634)


@dataclass
class Shard:
    """Keys and values of one worker, [n, Hkv, d], appended to as the text grows."""

    n_kv: int
    d: int
    k: np.ndarray = field(default=None)
    v: np.ndarray = field(default=None)

    def __post_init__(self):
        self.k = np.zeros((0, self.n_kv, self.d), np.float32)
        self.v = np.zeros((0, self.n_kv, self.d), np.float32)

    def __len__(self):
        return self.k.shape[0]

    def push(self, k, v):
        self.k = np.concatenate([self.k, k])
        self.v = np.concatenate([self.v, v])

    def attend(self, q):
        """q [Hq, d] -> out [Hq, d], lse [Hq]; -inf when the shard is empty."""
        hq = q.shape[0]
        if len(self) == 0:
            return np.zeros_like(q), np.full(hq, -np.inf, q.dtype)
        g = hq // self.n_kv
        qg = q.reshape(self.n_kv, g, self.d) * (LOG2E / np.sqrt(self.d))
        s = np.einsum("hgd,nhd->hgn", qg, self.k)
        m = s.max(axis=-1, keepdims=True)
        p = np.exp2(s - m)
        l = p.sum(axis=-1, keepdims=True)
        out = np.einsum("hgn,nhd->hgd", p, self.v) / l
        lse = m + np.log2(l)
        return out.reshape(hq, self.d), lse.reshape(hq)


def merge_states(o_a, s_a, o_b, s_b):
    """Two partial results over disjoint keys -> the result over their union."""
    s_max = np.maximum(s_a, s_b)
    w_a = np.exp(s_a - s_max)
    w_b = np.exp(s_b - s_max)
    total = w_a + w_b
    out = (o_a * w_a[:, None] + o_b * w_b[:, None]) / total[:, None]
    return out, s_max + np.log(total)


class SplitAttention:
    def __init__(self, n_heads, n_kv, head_dim, workers=4):
        self.n_heads = n_heads
        self.shards = [Shard(n_kv, head_dim) for _ in range(workers)]

    def append(self, k, v):
        """New keys go to the shard that holds the fewest."""
        min(self.shards, key=len).push(k, v)

    def __call__(self, q, pool=None):
        run = map if pool is None else pool.map
        parts = [p for p in run(lambda s: s.attend(q), self.shards) if np.isfinite(p[1]).all()]
        if not parts:
            return np.zeros_like(q)
        out, lse = parts[0]
        for o, s in parts[1:]:
            out, lse = merge_states(out, lse, o, s)
        return out


class Session:
    """Decode loop of one user; weights as {'wq','wk','wv','wo'} with [in, out] matrices."""

    def __init__(self, weights, n_heads, n_kv):
        self.w, self.h, self.kv = weights, n_heads, n_kv
        self.d = weights["wq"].shape[1] // n_heads
        self.attn = SplitAttention(n_heads, n_kv, self.d)
        self.pool = None

    def threads(self, n):
        self.pool = ThreadPoolExecutor(n)
        return self

    def step(self, x):
        q = (x @ self.w["wq"]).reshape(self.h, self.d)
        k = (x @ self.w["wk"]).reshape(1, self.kv, self.d)
        v = (x @ self.w["wv"]).reshape(1, self.kv, self.d)
        self.attn.append(k, v)
        return self.attn(q, self.pool).reshape(-1) @ self.w["wo"]
