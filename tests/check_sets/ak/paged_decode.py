"""Reference decode step of the server: paged KV, one new token per running sequence.

Only numpy; the CUDA kernel is tested against this. Long contexts are cut into partitions that
are attended separately and put together by their log-sum-exp (natural log).
"""
import numpy as np


class BlockAllocator:
    def __init__(self, n_blocks):
        self.free = list(range(n_blocks))[::-1]

    def take(self):
        if not self.free:
            raise MemoryError("no KV blocks left")
        return self.free.pop()

    def give(self, blocks):
        self.free.extend(blocks)


class PagedKV:
    """k, v pools: [n_blocks, block_size, n_kv_heads, head_dim]."""

    def __init__(self, n_blocks, block_size, n_kv_heads, head_dim, dtype=np.float32):
        self.block_size = block_size
        self.k = np.zeros((n_blocks, block_size, n_kv_heads, head_dim), dtype)
        self.v = np.zeros_like(self.k)
        self.alloc = BlockAllocator(n_blocks)
        self.tables = {}
        self.length = {}

    def open(self, seq):
        self.tables[seq], self.length[seq] = [], 0

    def close(self, seq):
        self.alloc.give(self.tables.pop(seq))
        del self.length[seq]

    def append(self, seq, k, v):
        """k, v [n, n_kv_heads, head_dim]"""
        for kt, vt in zip(k, v):
            pos = self.length[seq]
            if pos % self.block_size == 0:
                self.tables[seq].append(self.alloc.take())
            blk, off = self.tables[seq][pos // self.block_size], pos % self.block_size
            self.k[blk, off], self.v[blk, off] = kt, vt
            self.length[seq] += 1


def _partition(q, k, v, scale):
    """q [Hkv, G, d]; k, v [n, Hkv, d] -> out [Hkv, G, d], lse [Hkv, G]"""
    s = np.einsum("hgd,nhd->hgn", q, k) * scale
    m = s.max(-1, keepdims=True)
    p = np.exp(s - m)
    z = p.sum(-1, keepdims=True)
    out = np.einsum("hgn,nhd->hgd", p / z, v)
    return out, (m + np.log(z))[..., 0]


def paged_attention(q, k_pool, v_pool, block_tables, context_lens, scale=None,
                    partition_blocks=4):
    """q [S, Hq, d], one query per sequence; query head h belongs to kv head h // (Hq // Hkv).

    block_tables: S lists of block ids; context_lens: S ints, the new token included.
    """
    S, Hq, d = q.shape
    bs, Hkv = k_pool.shape[1], k_pool.shape[2]
    scale = d ** -0.5 if scale is None else scale
    out = np.zeros((S, Hq, d), np.float64)
    for i in range(S):
        n = int(context_lens[i])
        if n == 0:
            continue
        blocks = list(block_tables[i])[: -(-n // bs)]
        qi = q[i].astype(np.float64).reshape(Hkv, Hq // Hkv, d)
        parts, lses = [], []
        for at in range(0, len(blocks), partition_blocks):
            ids = blocks[at:at + partition_blocks]
            rest = n - at * bs
            k = k_pool[ids].reshape(-1, Hkv, d)[:rest]
            v = v_pool[ids].reshape(-1, Hkv, d)[:rest]
            o, lse = _partition(qi, k, v, scale)
            parts.append(o)
            lses.append(lse)
        lses = np.stack(lses)                       # [P, Hkv, G]
        w = np.exp(lses - lses.max(0))
        w /= w.sum(0)
        out[i] = (w[..., None] * np.stack(parts)).sum(0).reshape(Hq, d)
    return out.astype(q.dtype)


def decode_step(hidden, w, kv, seqs, n_heads):
    """hidden [S, e]; w: dict with wq, wk, wv, wo as [in, out]."""
    S, e = hidden.shape
    d, Hkv = kv.k.shape[-1], kv.k.shape[-2]
    q = (hidden @ w["wq"]).reshape(S, n_heads, d)
    k = (hidden @ w["wk"]).reshape(S, 1, Hkv, d)
    v = (hidden @ w["wv"]).reshape(S, 1, Hkv, d)
    for i, s in enumerate(seqs):
        kv.append(s, k[i], v[i])
    o = paged_attention(q, kv.k, kv.v, [kv.tables[s] for s in seqs],
                        [kv.length[s] for s in seqs])
    return o.reshape(S, -1) @ w["wo"]
