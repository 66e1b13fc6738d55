"""Reference for the paged attention kernel of `tinyserve` (slow, used by the unit tests)."""
from typing import List

import torch


class BlockAllocator:
    def __init__(self, n_blocks: int):
        self.free = list(range(n_blocks))[::-1]

    def take(self) -> int:
        if not self.free:
            raise MemoryError("out of KV blocks")
        return self.free.pop()

    def give(self, blocks: List[int]):
        self.free.extend(blocks)


class PagedCache:
    """pool: [n_blocks, 2, block_size, n_kv_heads, head_dim]; a sequence owns a list of blocks."""

    def __init__(self, n_blocks, block_size, n_kv_heads, head_dim, dtype=torch.float32):
        self.pool = torch.zeros(n_blocks, 2, block_size, n_kv_heads, head_dim, dtype=dtype)
        self.bs = block_size
        self.alloc = BlockAllocator(n_blocks)
        self.tables, self.lengths = {}, {}

    def add(self, seq: int, k: torch.Tensor, v: torch.Tensor):
        """k, v: [n_tokens, n_kv_heads, head_dim]"""
        table = self.tables.setdefault(seq, [])
        n = self.lengths.get(seq, 0)
        for kt, vt in zip(k, v):
            if n % self.bs == 0:
                table.append(self.alloc.take())
            self.pool[table[n // self.bs], 0, n % self.bs] = kt
            self.pool[table[n // self.bs], 1, n % self.bs] = vt
            n += 1
        self.lengths[seq] = n

    def drop(self, seq: int):
        self.alloc.give(self.tables.pop(seq))
        del self.lengths[seq]


def paged_attention(q, cache, seqs, query_lens):
    """Causal attention for a flat batch of queries.

    q: [sum(query_lens), n_heads, head_dim]; the queries of seqs[i] are the last query_lens[i] tokens
    of that sequence, whose keys are already in the cache.  Query heads are grouped over kv heads in
    order (0..r-1 use kv head 0).
    """
    n_heads, d = q.shape[1:]
    out, start = torch.empty_like(q), 0
    for seq, nq in zip(seqs, query_lens):
        n = cache.lengths[seq]
        table = torch.tensor(cache.tables[seq])
        kv = cache.pool[table].transpose(0, 1).flatten(1, 2)[:, :n]        # [2, n, kvh, d]
        k, v = kv[0], kv[1]
        r = n_heads // k.shape[1]
        qs = q[start:start + nq].view(nq, -1, r, d)
        s = torch.einsum("igrd,jgd->grij", qs.float(), k.float()) * d ** -0.5
        i = torch.arange(n - nq, n)
        s.masked_fill_(torch.arange(n)[None, :] > i[:, None], float("-inf"))
        p = s.softmax(-1)
        out[start:start + nq] = torch.einsum("grij,jgd->igrd", p, v.float()).reshape(nq, n_heads, d).to(q.dtype)
        start += nq
    return out
