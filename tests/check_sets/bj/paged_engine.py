"""Toy serving engine with paged KV storage (one layer, GQA, greedy batching).

Pages live in one pool; each request owns a list of page numbers (its block
table).  Freed pages are handed out again without being cleared, so everything
past the request's length is garbage and must be cut off.
"""
from dataclasses import dataclass, field
from typing import Dict, List

import torch


@dataclass
class Request:
    rid: int
    pages: List[int] = field(default_factory=list)
    length: int = 0


class PagePool:
    def __init__(self, n_pages, page, kv_heads, dim):
        self.page = page
        self.k = torch.empty(n_pages, page, kv_heads, dim).normal_()
        self.v = torch.empty(n_pages, page, kv_heads, dim).normal_()
        self.free = list(range(n_pages))

    def take(self):
        if not self.free:
            raise MemoryError("out of KV pages")
        return self.free.pop(0)

    def give(self, pages):
        self.free.extend(pages)


class PagedAttention:
    """`extend(rid, q, k, v)` adds tokens of a request and returns their output.

    q [T, H, D]; k, v [T, Hkv, D].  Causal; query head h uses kv head
    h // (H / Hkv).  `release(rid)` returns the pages.
    """

    def __init__(self, n_pages=16, page=4, heads=4, kv_heads=2, dim=8):
        self.pool = PagePool(n_pages, page, kv_heads, dim)
        self.heads, self.kv_heads, self.dim = heads, kv_heads, dim
        self.live: Dict[int, Request] = {}

    def release(self, rid):
        self.pool.give(self.live.pop(rid).pages)

    def _store(self, req, k, v):
        for kt, vt in zip(k, v):
            page, slot = divmod(req.length, self.pool.page)
            if page == len(req.pages):
                req.pages.append(self.pool.take())
            self.pool.k[req.pages[page], slot] = kt
            self.pool.v[req.pages[page], slot] = vt
            req.length += 1

    def _gather(self, req):
        table = torch.tensor(req.pages)
        k = self.pool.k[table].flatten(0, 1)[: req.length]
        v = self.pool.v[table].flatten(0, 1)[: req.length]
        return k, v

    def extend(self, rid, q, k, v):
        req = self.live.setdefault(rid, Request(rid))
        self._store(req, k, v)
        k, v = self._gather(req)
        t, n = q.shape[0], req.length
        q = q.view(t, self.kv_heads, self.heads // self.kv_heads, self.dim)
        s = torch.einsum("tngd,snd->ngts", q, k) / self.dim**0.5
        late = torch.arange(n)[None] > torch.arange(n - t, n)[:, None]
        p = s.masked_fill(late, float("-inf")).softmax(-1)
        return torch.einsum("ngts,snd->tngd", p, v).reshape(t, self.heads, self.dim)

    def step(self, batch):
        """batch: {rid: (q, k, v)} -> {rid: out}; requests of any lengths."""
        return {rid: self.extend(rid, *qkv) for rid, qkv in batch.items()}

    def usage(self):
        total = self.pool.k.shape[0]
        return (total - len(self.pool.free)) / total


if __name__ == "__main__":
    eng = PagedAttention()
    print(eng.extend(1, torch.randn(5, 4, 8), torch.randn(5, 2, 8), torch.randn(5, 2, 8)).shape, eng.usage())
