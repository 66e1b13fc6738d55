"""Page-table KV memory and decode step for the talking lighthouse (NumPy only).

The keeper's machine has 4 MB of RAM left for keys and values, so they live in pages
of PAGE slots out of one pool; a conversation is a list of page numbers and a length.
A decode step splits a conversation into chunks of pages, reduces every chunk to
(o, lse), o = softmax-weighted mean of v within the chunk, lse = natural log of the sum
of exp(score), and merges the chunks.
"""
from __future__ import annotations

import numpy as np

PAGE = 4


class PagePool:
    def __init__(self, n_pages: int, kv_heads: int, dim: int, dtype=np.float32):
        self.k = np.zeros((n_pages, PAGE, kv_heads, dim), dtype)
        self.v = np.zeros((n_pages, PAGE, kv_heads, dim), dtype)
        self.free = list(range(n_pages))[::-1]

    def take(self) -> int:
        if not self.free:
            raise MemoryError("out of pages")
        return self.free.pop()

    def give(self, pages: list[int]) -> None:
        self.free.extend(pages)


class Conversation:
    def __init__(self, pool: PagePool):
        self.pool, self.pages, self.length = pool, [], 0

    def append(self, k: np.ndarray, v: np.ndarray) -> None:
        """k, v: [kv_heads, dim] of one token."""
        if self.length % PAGE == 0:
            self.pages.append(self.pool.take())
        p, slot = self.pages[-1], self.length % PAGE
        self.pool.k[p, slot], self.pool.v[p, slot] = k, v
        self.length += 1

    def close(self) -> None:
        self.pool.give(self.pages)
        self.pages, self.length = [], 0


def merge(o1, l1, o2, l2):
    m = np.maximum(l1, l2)
    w1, w2 = np.exp(l1 - m), np.exp(l2 - m)
    z = w1 + w2
    return (o1 * w1[..., None] + o2 * w2[..., None]) / z[..., None], m + np.log(z)


class LampDecoder:
    """Attention of one new token per conversation.

    heads // kv_heads consecutive query heads read the same key/value head.
    """

    def __init__(self, heads: int, kv_heads: int, dim: int, pages_per_chunk: int = 2):
        if heads % kv_heads:
            raise ValueError("heads must be a multiple of kv_heads")
        self.h, self.g, self.d = heads, kv_heads, dim
        self.step = pages_per_chunk
        self.scale = 1.0 / np.sqrt(dim)

    def _chunk(self, q, conv, first, last):
        pages = conv.pages[first:last]
        k = conv.pool.k[pages].reshape(-1, self.g, self.d)
        v = conv.pool.v[pages].reshape(-1, self.g, self.d)
        n = min(conv.length - first * PAGE, k.shape[0])         # the last page may be half full
        k, v = k[:n].astype(np.float64), v[:n].astype(np.float64)
        qg = q.reshape(self.g, self.h // self.g, self.d).astype(np.float64)
        s = np.einsum("gmd,sgd->gms", qg, k) * self.scale
        top = s.max(-1, keepdims=True)
        e = np.exp(s - top)
        z = e.sum(-1, keepdims=True)
        o = np.einsum("gms,sgd->gmd", e / z, v)
        return o.reshape(self.h, self.d), (top + np.log(z)).reshape(self.h)

    def __call__(self, q: np.ndarray, convs: list[Conversation]) -> np.ndarray:
        """q [batch, heads, dim] -> [batch, heads, dim]"""
        out = np.zeros(q.shape, np.float64)
        for b, conv in enumerate(convs):
            if conv.length == 0:
                continue
            o, lse = self._chunk(q[b], conv, 0, self.step)
            for first in range(self.step, len(conv.pages), self.step):
                o, lse = merge(o, lse, *self._chunk(q[b], conv, first, first + self.step))
            out[b] = o
        return out.astype(q.dtype)


def main():
    rng = np.random.default_rng(3)
    pool = PagePool(16, 2, 8)
    talks = [Conversation(pool) for _ in range(3)]
    for t, n in zip(talks, (3, 11, 17)):
        for _ in range(n):
            t.append(rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    print(LampDecoder(6, 2, 8)(rng.normal(size=(3, 6, 8)), talks).round(3)[:, 0])


if __name__ == "__main__":
    main()
