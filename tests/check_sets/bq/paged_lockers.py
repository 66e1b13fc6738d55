"""A tiny decode server in the spirit of PagedAttention, NumPy only.

KV memory is a wall of lockers ("pages"). A conversation owns a list of lockers,
in order, not necessarily next to each other. All query heads share one key/value
head (multi-query attention).
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


class OutOfLockers(RuntimeError):
    pass


@dataclass
class Conversation:
    pages: list[int] = field(default_factory=list)
    length: int = 0


class LockerWall:
    def __init__(self, n_pages: int, page: int, dim: int, dtype=np.float32):
        self.page = page
        self.k = np.zeros((n_pages, page, dim), dtype)
        self.v = np.zeros((n_pages, page, dim), dtype)
        self._free = list(range(n_pages))[::-1]

    def append(self, conv: Conversation, k: np.ndarray, v: np.ndarray) -> None:
        slot = conv.length % self.page
        if slot == 0:
            if not self._free:
                raise OutOfLockers(f"{len(self.k)} pages are in use")
            conv.pages.append(self._free.pop())
        self.k[conv.pages[-1], slot] = k
        self.v[conv.pages[-1], slot] = v
        conv.length += 1

    def release(self, conv: Conversation) -> None:
        self._free.extend(conv.pages)
        conv.pages.clear()
        conv.length = 0


def paged_decode(q: np.ndarray, wall: LockerWall, table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """One decode step for a batch.

    q        [B, H, D]    newest query of every conversation (its key is already stored)
    table    [B, P] int   page numbers, padded with -1
    lengths  [B]    int   number of stored tokens; 0 gives zeros
    returns  [B, H, D]
    """
    b, h, d = q.shape
    out = np.zeros((b, h, d), np.float32)
    for i in range(b):
        n = int(lengths[i])
        if n == 0:
            continue
        used = table[i, : -(-n // wall.page)]
        k = wall.k[used].reshape(-1, d)[:n].astype(np.float32)
        v = wall.v[used].reshape(-1, d)[:n].astype(np.float32)
        s = (q[i].astype(np.float32) @ k.T) / np.float32(np.sqrt(d))
        s -= s.max(axis=1, keepdims=True)
        w = np.exp(s)
        out[i] = (w @ v) / w.sum(axis=1, keepdims=True)
    return out


class Server:
    def __init__(self, width=32, heads=4, pages=64, page=4, seed=0):
        g = np.random.default_rng(seed)
        self.heads, self.dim = heads, width // heads
        self.wq = g.normal(0, width ** -0.5, (width, heads, self.dim)).astype(np.float32)
        self.wk = g.normal(0, width ** -0.5, (width, self.dim)).astype(np.float32)
        self.wv = g.normal(0, width ** -0.5, (width, self.dim)).astype(np.float32)
        self.wall = LockerWall(pages, page, self.dim)
        self.convs: dict[str, Conversation] = {}

    def step(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        names = list(batch)
        x = np.stack([batch[n] for n in names]).astype(np.float32)
        for name, row in zip(names, x):
            self.wall.append(self.convs.setdefault(name, Conversation()), row @ self.wk, row @ self.wv)
        live = [self.convs[n] for n in names]
        table = np.full((len(live), max(len(c.pages) for c in live)), -1)
        for i, c in enumerate(live):
            table[i, : len(c.pages)] = c.pages
        q = np.einsum("bw,whd->bhd", x, self.wq)
        y = paged_decode(q, self.wall, table, np.array([c.length for c in live]))
        return {n: y[i].reshape(-1) for i, n in enumerate(names)}

    def hang_up(self, name: str) -> None:
        self.wall.release(self.convs.pop(name))
