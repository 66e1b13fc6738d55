"""mini-paged: a toy inference service with a paged key/value cache.

The pool is one tensor of fixed-size blocks, shared by all requests.  A request
owns a list of block numbers (its block table); blocks are handed out when they
are needed and returned when the request ends.  One attention layer only, since
the book-keeping is what the exercise is about.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F


@dataclass
class PagedConfig:
    n_heads: int = 4
    n_kv_heads: int = 2
    head_dim: int = 8
    block_size: int = 4
    n_blocks: int = 32


class PagedAttentionService:
    def __init__(self, cfg: PagedConfig = PagedConfig()):
        self.cfg = cfg
        shape = (cfg.n_blocks, cfg.block_size, cfg.n_kv_heads, cfg.head_dim)
        self.k_pool = torch.zeros(shape)
        self.v_pool = torch.zeros(shape)
        self.free = list(range(cfg.n_blocks - 1, -1, -1))
        self.tables: dict[str, list[int]] = {}
        self.lengths: dict[str, int] = {}

    def open(self, request_id: str) -> None:
        self.tables[request_id] = []
        self.lengths[request_id] = 0

    def close(self, request_id: str) -> None:
        self.free.extend(reversed(self.tables.pop(request_id)))
        del self.lengths[request_id]

    def _store(self, rid: str, k: torch.Tensor, v: torch.Tensor) -> None:
        pos = self.lengths[rid]
        block, slot = divmod(pos, self.cfg.block_size)
        if block == len(self.tables[rid]):
            if not self.free:
                raise MemoryError("out of cache blocks")
            self.tables[rid].append(self.free.pop())
        phys = self.tables[rid][block]
        self.k_pool[phys, slot] = k
        self.v_pool[phys, slot] = v
        self.lengths[rid] = pos + 1

    def step(self, request_ids, q, k, v):
        """One token for each request.

        q [R, n_heads, head_dim]; k, v [R, n_kv_heads, head_dim].
        Returns [R, n_heads, head_dim].
        """
        cfg = self.cfg
        for i, rid in enumerate(request_ids):
            self._store(rid, k[i], v[i])

        lens = torch.tensor([self.lengths[r] for r in request_ids])
        width = max(len(self.tables[r]) for r in request_ids)
        table = torch.zeros(len(request_ids), width, dtype=torch.long)
        for i, r in enumerate(request_ids):
            table[i, : len(self.tables[r])] = torch.tensor(self.tables[r])

        # [R, blocks, block_size, Hkv, d] -> [R, T, Hkv, d]
        keys = self.k_pool[table].flatten(1, 2)
        vals = self.v_pool[table].flatten(1, 2)
        group = cfg.n_heads // cfg.n_kv_heads
        keys = keys.repeat_interleave(group, dim=2)
        vals = vals.repeat_interleave(group, dim=2)

        logits = torch.einsum("rhd,rthd->rht", q, keys) / cfg.head_dim**0.5
        valid = torch.arange(keys.shape[1])[None] < lens[:, None]
        logits = logits.masked_fill(~valid[:, None], float("-inf"))
        return torch.einsum("rht,rthd->rhd", F.softmax(logits, dim=-1), vals)
