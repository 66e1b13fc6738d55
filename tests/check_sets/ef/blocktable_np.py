"""Reference for the block-table decode kernel (used by the C++ tests).

decode_blocks(q, k_pool, v_pool, table, seqlen)
    q       (B, Hq, d)                one query per sequence
    k_pool  (n_blocks, page, Hkv, d)  v_pool alike
    table   (B, max_blocks) int       block numbers of a sequence in order,
                                      -1 behind its last block
    seqlen  (B,) int >= 1             tokens of the sequence in the pool
    returns (B, Hq, d)

Grouped queries: with g = Hq / Hkv, the query heads 0..g-1 read kv head 0,
g..2g-1 read kv head 1, etc. Scale 1/sqrt(d); all seqlen tokens are visible.
"""
import numpy as np


def gather(pool, row, n):
    used = row[row >= 0]
    flat = pool[used].reshape(-1, *pool.shape[2:])
    return flat[:n]                                   # (n, Hkv, d)


def decode_blocks(q, k_pool, v_pool, table, seqlen):
    B, Hq, d = q.shape
    g = Hq // k_pool.shape[2]
    out = np.empty_like(q)
    for b in range(B):
        n = int(seqlen[b])
        k = np.tile(gather(k_pool, table[b], n), (1, g, 1))
        v = np.tile(gather(v_pool, table[b], n), (1, g, 1))
        s = np.einsum("hd,nhd->hn", q[b], k) / np.sqrt(d)
        s -= s.max(axis=1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=1, keepdims=True)
        out[b] = np.einsum("hn,nhd->hd", p, v)
    return out
