"""Страничный KV-кэш сервиса генерации (numpy).

Память разбита на страницы по ``page`` токенов; у каждого запроса своя таблица
страниц, страницы могут идти в любом порядке. Головы ключей сгруппированы:
голова запроса h читает голову h // (H // Hkv).
"""
from __future__ import annotations

import numpy as np


class PagedPool:
    def __init__(self, pages: int = 32, page: int = 4, kv_heads: int = 2, dim: int = 8):
        self.page = page
        self.kv_heads = kv_heads
        self.dim = dim
        self.k = np.zeros((pages, page, kv_heads, dim), np.float32)
        self.v = np.zeros((pages, page, kv_heads, dim), np.float32)
        self.free = list(range(pages))
        self.tables: dict[str, list[int]] = {}
        self.used: dict[str, int] = {}

    def open(self, rid: str) -> None:
        self.tables[rid] = []
        self.used[rid] = 0

    def close(self, rid: str) -> None:
        self.free.extend(self.tables.pop(rid))
        del self.used[rid]

    def append(self, rid: str, k: np.ndarray, v: np.ndarray) -> None:
        """k, v: (kv_heads, dim) нового токена."""
        n = self.used[rid]
        if n % self.page == 0:
            if not self.free:
                raise MemoryError("кэш заполнен")
            self.tables[rid].append(self.free.pop())
        where = self.tables[rid][n // self.page], n % self.page
        self.k[where], self.v[where] = k, v
        self.used[rid] = n + 1

    def gather(self, rid: str) -> tuple[np.ndarray, np.ndarray]:
        table, n = self.tables[rid], self.used[rid]
        k = self.k[table].reshape(-1, self.kv_heads, self.dim)[:n]
        v = self.v[table].reshape(-1, self.kv_heads, self.dim)[:n]
        return k, v

    def attend(self, rid: str, q: np.ndarray) -> np.ndarray:
        """q: (H, dim) последнего токена -> (H, dim)"""
        k, v = self.gather(rid)
        grouped = q.reshape(self.kv_heads, -1, self.dim)
        s = np.einsum("ngd,tnd->ngt", grouped, k) / np.sqrt(self.dim)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return np.einsum("ngt,tnd->ngd", p, v).reshape(q.shape)


def decode_batch(pool: PagedPool, batch: dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]):
    """Один шаг для всех запросов пакета: {rid: (q, k, v)} -> {rid: y}"""
    out = {}
    for rid, (q, k, v) in batch.items():
        if rid not in pool.tables:
            pool.open(rid)
        pool.append(rid, k, v)
        out[rid] = pool.attend(rid, q)
    return out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    pool = PagedPool()
    for _ in range(6):
        res = decode_batch(pool, {r: (rng.normal(size=(4, 8)), rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
                                  for r in ("a", "b")})
    print({r: y.shape for r, y in res.items()}, pool.tables)
