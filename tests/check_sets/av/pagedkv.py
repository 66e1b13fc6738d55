"""Toy of a paged KV cache: block allocator, block tables, decode attention."""
import numpy as np


class OutOfBlocks(RuntimeError):
    pass


class BlockPool:
    def __init__(self, n_blocks, block_size, n_kv, hd, dtype=np.float32):
        self.block_size = block_size
        self.k = np.zeros((n_blocks, block_size, n_kv, hd), dtype)
        self.v = np.zeros((n_blocks, block_size, n_kv, hd), dtype)
        self._free = list(range(n_blocks))[::-1]

    def alloc(self):
        if not self._free:
            raise OutOfBlocks()
        return self._free.pop()

    def free(self, blocks):
        self._free.extend(blocks)


class Sequence:
    def __init__(self, pool):
        self.pool, self.table, self.length = pool, [], 0

    def append(self, k, v):
        """k, v: [n_kv, hd] for one token."""
        slot = self.length % self.pool.block_size
        if slot == 0:
            self.table.append(self.pool.alloc())
        self.pool.k[self.table[-1], slot] = k
        self.pool.v[self.table[-1], slot] = v
        self.length += 1

    def release(self):
        self.pool.free(self.table)
        self.table, self.length = [], 0


def paged_decode(q, pool, seqs, scale=None):
    """q: [n_seqs, n_q, hd], one new query for each sequence (its key is already in).

    Query heads are grouped: n_q / n_kv consecutive query heads share one kv head.
    Blocks are merged with the running max/sum; the tail of the last block is not read.
    """
    n_seqs, n_q, hd = q.shape
    n_kv = pool.k.shape[2]
    group = n_q // n_kv
    scale = hd ** -0.5 if scale is None else scale
    out = np.zeros((n_seqs, n_q, hd), np.float64)
    for s, seq in enumerate(seqs):
        qs = q[s].reshape(n_kv, group, hd).astype(np.float64)
        m = np.full((n_kv, group), -np.inf)
        l = np.zeros((n_kv, group))
        acc = np.zeros((n_kv, group, hd))
        left = seq.length
        for block in seq.table:
            n = min(left, pool.block_size)
            kb, vb = pool.k[block, :n], pool.v[block, :n]
            logit = np.einsum("kgd,nkd->kgn", qs, kb) * scale
            m_new = np.maximum(m, logit.max(-1))
            p = np.exp(logit - m_new[..., None])
            c = np.exp(m - m_new)
            l = l * c + p.sum(-1)
            acc = acc * c[..., None] + np.einsum("kgn,nkd->kgd", p, vb)
            m = m_new
            left -= n
        if seq.length:
            out[s] = (acc / l[..., None]).reshape(n_q, hd)
    return out.astype(q.dtype)
