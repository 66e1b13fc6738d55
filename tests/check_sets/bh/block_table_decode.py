"""Reference decode kernel used by the scheduler's unit tests (CPU, slow, exact).

The KV memory is a pool of fixed-size blocks; every running request owns a list
of block numbers (its row in the block table). Rows are padded with -1.
"""
from __future__ import annotations

import logging
from typing import List, NamedTuple

import torch

log = logging.getLogger(__name__)
BLOCK = 16


class KVPool(NamedTuple):
    k: torch.Tensor   # (num_blocks, BLOCK, kv_heads, head_dim)
    v: torch.Tensor

    @classmethod
    def empty(cls, num_blocks: int, kv_heads: int, head_dim: int, dtype=torch.float32):
        # torch.empty on purpose: unwritten slots may hold anything
        shape = (num_blocks, BLOCK, kv_heads, head_dim)
        return cls(torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype))


class BlockAllocator:
    def __init__(self, n: int):
        self.free: List[int] = list(range(n))[::-1]

    def take(self) -> int:
        if not self.free:
            raise MemoryError("KV pool exhausted; preempt a request")
        return self.free.pop()

    def give(self, blocks: List[int]) -> None:
        self.free.extend(blocks)


def append_token(pool: KVPool, table: torch.Tensor, lens: torch.Tensor,
                 k: torch.Tensor, v: torch.Tensor) -> None:
    """Write the new token of each request at slot lens[i] and advance lens."""
    for i in range(table.shape[0]):
        n = int(lens[i])
        blk = int(table[i, n // BLOCK])
        pool.k[blk, n % BLOCK] = k[i]
        pool.v[blk, n % BLOCK] = v[i]
    lens += 1


def paged_decode(q: torch.Tensor, pool: KVPool, table: torch.Tensor,
                 lens: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """One query token per request.

    q:     (R, heads, head_dim); heads is a multiple of kv_heads and consecutive
           query heads share a kv head
    table: (R, max_blocks) int64, padded with -1
    lens:  (R,) tokens in the cache *including* the current one; 0 for an idle
           row, whose output is zero
    """
    R, heads, dim = q.shape
    kv_heads = pool.k.shape[2]
    group = heads // kv_heads
    scale = dim ** -0.5 if scale is None else scale
    out = torch.zeros_like(q)
    for r in range(R):
        n = int(lens[r])
        if n == 0:
            continue
        used = table[r, : (n + BLOCK - 1) // BLOCK]
        if (used < 0).any():
            raise IndexError(f"request {r}: block table shorter than {n} tokens")
        k = pool.k[used].flatten(0, 1)[:n].float()
        v = pool.v[used].flatten(0, 1)[:n].float()
        qr = q[r].float().view(kv_heads, group, dim)
        s = torch.einsum("kgd,nkd->kgn", qr, k) * scale
        p = torch.softmax(s, dim=-1)
        out[r] = torch.einsum("kgn,nkd->kgd", p, v).reshape(heads, dim).to(q.dtype)
    return out


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    pool, alloc = KVPool.empty(8, 2, 8), BlockAllocator(8)
    table = torch.tensor([[alloc.take(), alloc.take()], [alloc.take(), -1]])
    lens = torch.zeros(2, dtype=torch.long)
    for _ in range(10):
        append_token(pool, table, lens, torch.randn(2, 2, 8), torch.randn(2, 2, 8))
    log.info("%s", paged_decode(torch.randn(2, 4, 8), pool, table, lens).shape)
