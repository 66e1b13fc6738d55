"""Decode step of the serving engine: paged keys/values, work split along the cache.

Stage 1 computes every split on its own and keeps out and log-sum-exp, stage 2 puts the
splits together.  Pages: [n_pages, page_size, n_kv, d].
"""
import math
from dataclasses import dataclass, field
from typing import Dict, List

import torch

LOG2E = 1.4426950408889634


@dataclass
class PagePool:
    n_pages: int
    page_size: int
    n_kv: int
    d: int
    dtype: torch.dtype = torch.float32
    tables: Dict[int, List[int]] = field(default_factory=dict)
    lens: Dict[int, int] = field(default_factory=dict)

    def __post_init__(self):
        shape = (self.n_pages, self.page_size, self.n_kv, self.d)
        self.k = torch.zeros(shape, dtype=self.dtype)
        self.v = torch.zeros(shape, dtype=self.dtype)
        self.free = list(range(self.n_pages))

    def append(self, req, k, v):
        """k, v: [T, n_kv, d]"""
        table = self.tables.setdefault(req, [])
        n = self.lens.get(req, 0)
        for t in range(k.shape[0]):
            if n % self.page_size == 0:
                table.append(self.free.pop())
            page = table[n // self.page_size]
            self.k[page, n % self.page_size] = k[t]
            self.v[page, n % self.page_size] = v[t]
            n += 1
        self.lens[req] = n

    def release(self, req):
        self.free.extend(self.tables.pop(req, []))
        self.lens.pop(req, None)

    def gather(self, req, lo, hi):
        rows = torch.arange(lo, hi)
        pages = torch.tensor(self.tables[req])[rows // self.page_size]
        return self.k[pages, rows % self.page_size], self.v[pages, rows % self.page_size]


def split_kernel(q, k, v, sm_scale):
    """q [Hkv, G, d]; k, v [n, Hkv, d]. Works with exp2 as the hardware does."""
    s = torch.einsum("hgd,nhd->hgn", q.float(), k.float()) * (sm_scale * LOG2E)
    m = s.amax(-1)
    p = torch.exp2(s - m.unsqueeze(-1))
    l = p.sum(-1)
    o = torch.einsum("hgn,nhd->hgd", p, v.float()) / l.unsqueeze(-1)
    return o, m + torch.log2(l)


def merge_states(outs, lses):
    """outs [S, Hkv, G, d], lses [S, Hkv, G]"""
    top = lses.amax(0)
    w = torch.exp(lses - top)
    return (w.unsqueeze(-1) * outs).sum(0) / w.sum(0).unsqueeze(-1)


def decode_attention(q, pool: PagePool, reqs: List[int], split_size: int = 32, sm_scale=None):
    """One new query per request. q [B, H, d], head h uses kv head h // (H / n_kv).

    The keys of the new tokens are already in the pool. Exact softmax(q k^T * sm_scale) v,
    whatever the split size. Returns [B, H, d].
    """
    B, H, d = q.shape
    sm_scale = 1.0 / math.sqrt(d) if sm_scale is None else sm_scale
    out = torch.empty_like(q)
    for b, req in enumerate(reqs):
        n = pool.lens[req]
        qb = q[b].view(pool.n_kv, H // pool.n_kv, d)
        os_, ls_ = [], []
        for lo in range(0, n, split_size):
            k, v = pool.gather(req, lo, min(n, lo + split_size))
            o, lse = split_kernel(qb, k, v, sm_scale)
            os_.append(o)
            ls_.append(lse)
        out[b] = merge_states(torch.stack(os_), torch.stack(ls_)).reshape(H, d).to(q.dtype)
    return out
