"""Paged key/value pool for the decode loop of the serving engine.

Sequences own a list of fixed-size pages (their block table); pages need not be
contiguous or ordered in the pool.  ``attend`` serves a batch of running
sequences at once: one query token each, every token stored so far visible
(the token being decoded has to be appended first).  Query heads are grouped:
consecutive ``n_q // n_kv`` query heads read the same key/value head.
"""
import math
from typing import Dict, List, Sequence

import torch


class PagedPool:
    def __init__(self, n_pages: int = 64, page_size: int = 8, n_q: int = 8,
                 n_kv: int = 2, head_dim: int = 16, dtype=torch.float32):
        assert n_q % n_kv == 0
        self.page_size = page_size
        self.n_q, self.n_kv, self.head_dim = n_q, n_kv, head_dim
        self.k_pages = torch.zeros(n_pages, page_size, n_kv, head_dim, dtype=dtype)
        self.v_pages = torch.zeros(n_pages, page_size, n_kv, head_dim, dtype=dtype)
        self.free: List[int] = list(range(n_pages))
        self.tables: Dict[int, List[int]] = {}
        self.lengths: Dict[int, int] = {}

    def open(self, seq_id: int) -> None:
        self.tables[seq_id] = []
        self.lengths[seq_id] = 0

    def close(self, seq_id: int) -> None:
        self.free.extend(self.tables.pop(seq_id))
        del self.lengths[seq_id]

    def append(self, seq_id: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """k, v: [T, n_kv, head_dim]; T new tokens of one sequence."""
        for t in range(k.shape[0]):
            n = self.lengths[seq_id]
            if n % self.page_size == 0:
                if not self.free:
                    raise RuntimeError("pool exhausted")
                self.tables[seq_id].append(self.free.pop())
            page = self.tables[seq_id][n // self.page_size]
            self.k_pages[page, n % self.page_size] = k[t]
            self.v_pages[page, n % self.page_size] = v[t]
            self.lengths[seq_id] = n + 1

    def attend(self, q: torch.Tensor, seq_ids: Sequence[int]) -> torch.Tensor:
        """q: [N, n_q, head_dim], one row per id in seq_ids -> [N, n_q, head_dim]."""
        n = len(seq_ids)
        lens = torch.tensor([self.lengths[s] for s in seq_ids])
        width = max(len(self.tables[s]) for s in seq_ids)
        table = torch.zeros(n, width, dtype=torch.long)
        for row, s in enumerate(seq_ids):
            table[row, :len(self.tables[s])] = torch.tensor(self.tables[s])

        k = self.k_pages[table].flatten(1, 2)     # [N, S, n_kv, d]
        v = self.v_pages[table].flatten(1, 2)
        live = torch.arange(k.shape[1])[None, :] < lens[:, None]
        v = v.masked_fill(~live[:, :, None, None], 0)    # stale rows of a reused page

        group = self.n_q // self.n_kv
        qg = q.view(n, self.n_kv, group, self.head_dim)
        logits = torch.einsum("nkgd,nskd->nkgs", qg.float(), k.float())
        logits = logits / math.sqrt(self.head_dim)
        logits = logits.masked_fill(~live[:, None, None, :], float("-inf"))
        probs = logits.softmax(dim=-1)
        out = torch.einsum("nkgs,nskd->nkgd", probs, v.float())
        return out.reshape(n, self.n_q, self.head_dim).to(q.dtype)


if __name__ == "__main__":
    pool = PagedPool()
    for sid, length in ((3, 11), (9, 20)):
        pool.open(sid)
        pool.append(sid, torch.randn(length, 2, 16), torch.randn(length, 2, 16))
    print(pool.attend(torch.randn(2, 8, 16), [3, 9]).shape)
