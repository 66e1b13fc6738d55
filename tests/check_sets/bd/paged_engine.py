"""Toy paged KV store for a CPU inference server (float32, NumPy only).

Memory is cut into pages of PAGE tokens.  A sequence owns an ordered list of page
numbers; the last page may be partly filled.  Decoding attends page by page and
merges the partial results through their natural log-sum-exp.
"""
from dataclasses import dataclass, field
from typing import Dict, List, Tuple

import numpy as np

PAGE = 4


@dataclass
class Seq:
    pages: List[int] = field(default_factory=list)
    length: int = 0


class PagedKV:
    """n_q query heads share n_kv key/value heads in consecutive groups."""

    def __init__(self, n_pages: int, n_q: int, n_kv: int, dim: int):
        if n_q % n_kv:
            raise ValueError("n_q must be a multiple of n_kv")
        self.n_q, self.n_kv, self.dim = n_q, n_kv, dim
        self.k = np.zeros((n_pages, PAGE, n_kv, dim), np.float32)
        self.v = np.zeros((n_pages, PAGE, n_kv, dim), np.float32)
        self.free = list(range(n_pages))[::-1]
        self.seqs: Dict[str, Seq] = {}

    def append(self, name: str, k: np.ndarray, v: np.ndarray) -> None:
        """k, v [n_kv, dim] of one new token."""
        s = self.seqs.setdefault(name, Seq())
        if s.length % PAGE == 0:
            if not self.free:
                raise MemoryError("out of pages")
            s.pages.append(self.free.pop())
        page, slot = s.pages[-1], s.length % PAGE
        self.k[page, slot] = k
        self.v[page, slot] = v
        s.length += 1

    def release(self, name: str) -> None:
        self.free.extend(self.seqs.pop(name).pages)

    def _page(self, q: np.ndarray, page: int, n: int) -> Tuple[np.ndarray, np.ndarray]:
        """q [n_kv, group, dim] against the first n slots of one page -> (out, lse)."""
        k, v = self.k[page, :n], self.v[page, :n]
        s = np.einsum("hgd,nhd->hgn", q, k) / np.sqrt(self.dim)
        m = s.max(-1, keepdims=True)
        e = np.exp(s - m)
        z = e.sum(-1, keepdims=True)
        return np.einsum("hgn,nhd->hgd", e / z, v), (m + np.log(z))[..., 0]

    def decode(self, name: str, q: np.ndarray) -> np.ndarray:
        """q [n_q, dim]: the query of the newest token (already appended) -> [n_q, dim]."""
        s = self.seqs[name]
        q = q.reshape(self.n_kv, self.n_q // self.n_kv, self.dim)
        acc, lse = None, None
        for i, page in enumerate(s.pages):
            n = min(PAGE, s.length - i * PAGE)
            o, l = self._page(q, page, n)
            if acc is None:
                acc, lse = o, l
                continue
            new = np.logaddexp(lse, l)
            acc = acc * np.exp(lse - new)[..., None] + o * np.exp(l - new)[..., None]
            lse = new
        return acc.reshape(self.n_q, self.dim)


def demo():
    rng = np.random.default_rng(1)
    kv = PagedKV(8, 4, 2, 8)
    for _ in range(10):
        kv.append("a", *rng.standard_normal((2, 2, 8)))
    print(kv.decode("a", rng.standard_normal((4, 8))).shape)


if __name__ == "__main__":
    demo()
