"""Split-KV decoding: the cache of a long request lies on several workers.

Every worker runs `partial_attention` on its own shard and ships a small message
(output, lse); the front end puts the messages together with `merge_states`.
A request is one query token with H heads, shards have any length.
"""
from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Message:
    out: np.ndarray    # [H, D], normalised within the shard
    lse: np.ndarray    # [H], log of the sum of exponentials of the shard


@dataclass
class Shard:
    k: np.ndarray      # [n, H, D]
    v: np.ndarray      # [n, H, D]

    @classmethod
    def empty(cls, heads: int, dim: int) -> "Shard":
        return cls(np.zeros((0, heads, dim), np.float32), np.zeros((0, heads, dim), np.float32))

    def append(self, k: np.ndarray, v: np.ndarray) -> None:
        self.k = np.concatenate([self.k, k[None]])
        self.v = np.concatenate([self.v, v[None]])


def partial_attention(q: np.ndarray, shard: Shard) -> Message:
    """q [H, D].  exp2 is what the accelerator has, so scores carry log2(e)."""
    H, D = q.shape
    if len(shard.k) == 0:
        return Message(np.zeros((H, D)), np.full(H, -np.inf))
    s = np.einsum("hd,nhd->hn", q.astype(np.float64), shard.k) * (LOG2E / math.sqrt(D))
    m = s.max(axis=1)
    p = np.exp2(s - m[:, None])
    z = p.sum(axis=1)
    out = np.einsum("hn,nhd->hd", p, shard.v) / z[:, None]
    return Message(out, m + np.log2(z))


def merge_states(parts: list[Message]) -> np.ndarray:
    lse = np.stack([p.lse for p in parts])
    top = lse.max(axis=0)
    w = np.exp(lse - top)
    out = np.stack([p.out for p in parts])
    return (w[..., None] * out).sum(axis=0) / w.sum(axis=0)[:, None]


class SplitKVAttention:
    """Front end.  New tokens go round-robin to the workers in pages of `page`.

    attend(q) equals plain softmax attention of q over every token appended so far.
    """

    def __init__(self, workers: int, heads: int, dim: int, page: int = 4):
        self.shards = [Shard.empty(heads, dim) for _ in range(workers)]
        self.page = page
        self.n = 0

    def append(self, k: np.ndarray, v: np.ndarray) -> None:
        owner = (self.n // self.page) % len(self.shards)
        self.shards[owner].append(k, v)
        self.n += 1

    def attend(self, q: np.ndarray, pool: ThreadPoolExecutor | None = None) -> np.ndarray:
        if self.n == 0:
            raise ValueError("nothing in the cache")
        run = map if pool is None else pool.map
        parts = list(run(lambda s: partial_attention(q, s), self.shards))
        return merge_states(parts).astype(q.dtype)

    def stats(self) -> dict:
        sizes = [len(s.k) for s in self.shards]
        return {"tokens": self.n, "per_worker": sizes, "skew": max(sizes) - min(sizes)}


def demo(seed: int = 0, steps: int = 23) -> dict:
    r = np.random.default_rng(seed)
    a = SplitKVAttention(workers=3, heads=2, dim=8)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(steps):
            a.append(r.normal(size=(2, 8)), r.normal(size=(2, 8)))
            a.attend(r.normal(size=(2, 8)), pool)
    return a.stats()


if __name__ == "__main__":
    print(demo())
