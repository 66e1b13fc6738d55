"""Decode path of a small serving engine: paged K/V and split-KV reduction.

Pages live in one pool [n_pages, page, Hkv, D].  A request owns a NumPy block table
(page numbers in order) and a length.  The context is cut into partitions; each
gives (out, lse) with the natural-log normaliser, and the parts are merged.
"""
import math
from typing import List

import numpy as np
import torch

PARTITION_PAGES = 2


class PagedPool:
    def __init__(self, n_pages, page, n_kv, dim, dtype=torch.float32):
        self.page = page
        self.k = torch.zeros(n_pages, page, n_kv, dim, dtype=dtype)
        self.v = torch.zeros(n_pages, page, n_kv, dim, dtype=dtype)
        self.free: List[int] = list(range(n_pages))[::-1]


class Request:
    def __init__(self):
        self.table = np.empty(0, dtype=np.int64)
        self.length = 0

    def append(self, pool: PagedPool, k: torch.Tensor, v: torch.Tensor):
        """k, v [Hkv, D] of one token"""
        slot = self.length % pool.page
        if slot == 0:
            self.table = np.append(self.table, pool.free.pop())
        pool.k[self.table[-1], slot] = k
        pool.v[self.table[-1], slot] = v
        self.length += 1

    def release(self, pool: PagedPool):
        pool.free.extend(self.table.tolist())
        self.table = self.table[:0]
        self.length = 0


def _partial(q, k, v, scale):
    # q [Hkv, G, D]; k, v [n, Hkv, D]
    s = torch.einsum("hgd,nhd->hgn", q.float(), k.float()) * scale
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - lse.unsqueeze(-1))
    return torch.einsum("hgn,nhd->hgd", p, v.float()), lse


def merge(o1, l1, o2, l2):
    """Combine two normalised partial results."""
    m = torch.maximum(l1, l2)
    a, b = torch.exp(l1 - m), torch.exp(l2 - m)
    o = (o1 * a.unsqueeze(-1) + o2 * b.unsqueeze(-1)) / (a + b).unsqueeze(-1)
    return o, m + torch.log(a + b)


def decode_attention(q: torch.Tensor, pool: PagedPool, req: Request) -> torch.Tensor:
    """One new query [Hq, D] against everything the request has cached.

    The token's own K/V must already be appended.  Query head h reads
    kv head h // (Hq / Hkv).
    """
    if req.length == 0:
        raise ValueError("empty request")
    n_kv, dim = pool.k.shape[2:]
    qg = q.view(n_kv, -1, dim)
    scale = 1.0 / math.sqrt(dim)
    out = lse = None
    for first in range(0, len(req.table), PARTITION_PAGES):
        pages = torch.from_numpy(req.table[first: first + PARTITION_PAGES])
        n = min(req.length - first * pool.page, len(pages) * pool.page)
        k = pool.k[pages].flatten(0, 1)[:n]
        v = pool.v[pages].flatten(0, 1)[:n]
        o, l = _partial(qg, k, v, scale)
        out, lse = (o, l) if out is None else merge(out, lse, o, l)
    return out.reshape(-1, dim).to(q.dtype)


def decode_batch(qs, pool, requests):
    return torch.stack([decode_attention(q, pool, r) for q, r in zip(qs, requests)])
