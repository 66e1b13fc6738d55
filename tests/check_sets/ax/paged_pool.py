# toyserve/cpu/paged_pool.py
"""Key/value pages for the CPU backend.

One page holds ``page`` consecutive tokens of one sequence.  A sequence is a
list of page numbers and a length; beams share pages and a page is copied only
when somebody is about to write into it while others still hold it.

Grouped heads: query head ``h`` reads kv head ``h // (n_q / n_kv)``.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Seq:
    pages: list[int] = field(default_factory=list)
    length: int = 0


class OutOfPages(RuntimeError):
    pass


class PagedKV:
    def __init__(self, n_pages: int, page: int, n_q: int, n_kv: int, dim: int, dtype=np.float32):
        if n_q % n_kv:
            raise ValueError("n_q must be a multiple of n_kv")
        self.page, self.n_q, self.n_kv, self.dim = page, n_q, n_kv, dim
        self.k = np.zeros((n_pages, page, n_kv, dim), dtype)
        self.v = np.zeros_like(self.k)
        self.refs = np.zeros(n_pages, np.int64)
        self.free = list(range(n_pages - 1, -1, -1))
        self.seqs: dict[int, Seq] = {}
        self._next = 0

    # ---- bookkeeping -----------------------------------------------------
    def open(self) -> int:
        sid, self._next = self._next, self._next + 1
        self.seqs[sid] = Seq()
        return sid

    def close(self, sid: int) -> None:
        for p in self.seqs.pop(sid).pages:
            self._drop(p)

    def _take(self) -> int:
        if not self.free:
            raise OutOfPages
        p = self.free.pop()
        self.refs[p] = 1
        return p

    def _drop(self, p: int) -> None:
        self.refs[p] -= 1
        if self.refs[p] == 0:
            self.free.append(p)

    def fork(self, sid: int) -> int:
        """A second sequence with the same content (cheap: pages are shared)."""
        new = self.open()
        src, dst = self.seqs[sid], self.seqs[new]
        dst.pages, dst.length = list(src.pages), src.length
        for p in src.pages:
            self.refs[p] += 1
        return new

    def permute(self, sids: list[int], parents: list[int]) -> list[int]:
        """Beam step: new beam i continues old beam ``parents[i]``."""
        out = [self.fork(sids[p]) for p in parents]
        for s in sids:
            self.close(s)
        return out

    def append(self, sid: int, k: np.ndarray, v: np.ndarray) -> None:
        """k, v: [tokens, n_kv, dim]"""
        s = self.seqs[sid]
        for kt, vt in zip(k, v):
            slot = s.length % self.page
            if slot == 0:
                s.pages.append(self._take())
            elif self.refs[s.pages[-1]] > 1:
                fresh = self._take()
                self.k[fresh, :slot] = self.k[s.pages[-1], :slot]
                self.v[fresh, :slot] = self.v[s.pages[-1], :slot]
                self._drop(s.pages[-1])
                s.pages[-1] = fresh
            self.k[s.pages[-1], slot] = kt
            self.v[s.pages[-1], slot] = vt
            s.length += 1

    # ---- attention -------------------------------------------------------
    def attend(self, sids: list[int], q: np.ndarray) -> np.ndarray:
        """One decode token for each sequence.

        q: [len(sids), n_q, dim]; the token's own key and value have been
        appended already.  An empty sequence gives zeros.
        """
        g = self.n_q // self.n_kv
        out = np.zeros(q.shape, np.float32)
        for row, sid in enumerate(sids):
            s = self.seqs[sid]
            qh = q[row].astype(np.float32).reshape(self.n_kv, g, self.dim) * self.dim ** -0.5
            top = np.full((self.n_kv, g), -np.inf, np.float32)
            den = np.zeros((self.n_kv, g), np.float32)
            acc = np.zeros((self.n_kv, g, self.dim), np.float32)
            left = s.length
            for p in s.pages:
                n = min(left, self.page)
                sc = np.einsum("hgd,thd->hgt", qh, self.k[p, :n].astype(np.float32))
                new = np.maximum(top, sc.max(-1))
                shrink = np.exp(top - new)
                e = np.exp(sc - new[..., None])
                den = den * shrink + e.sum(-1)
                acc = acc * shrink[..., None] + np.einsum("hgt,thd->hgd", e, self.v[p, :n].astype(np.float32))
                top, left = new, left - n
            if s.length:
                out[row] = (acc / den[..., None]).reshape(self.n_q, self.dim)
        return out.astype(q.dtype)
