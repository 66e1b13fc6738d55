"""A toy serving engine with a paged KV cache (NumPy). Block tables as in vLLM.

Weights follow the Llama layout: with H query heads and G key/value heads, query heads
0 .. H/G-1 belong to kv head 0, the next H/G to kv head 1 and so on.
"""
import numpy as np


class BlockPool:
    def __init__(self, n_blocks, block_size, n_kv, d):
        self.block_size = block_size
        self.k = np.zeros((n_blocks, block_size, n_kv, d), np.float32)
        self.v = np.zeros_like(self.k)
        self.free = list(range(n_blocks))[::-1]

    def alloc(self):
        if not self.free:
            raise MemoryError("out of kv blocks")
        return self.free.pop()

    def release(self, table):
        self.free.extend(reversed(table))
        table.clear()


class Sequence:
    def __init__(self, sid):
        self.sid = sid
        self.table = []
        self.length = 0


class PagedAttention:
    def __init__(self, pool, n_heads):
        self.pool = pool
        self.n_heads = n_heads
        self.n_kv = pool.k.shape[2]
        assert n_heads % self.n_kv == 0

    def append(self, seq, k, v):
        """k, v: [n_kv, d] of one new token"""
        bs = self.pool.block_size
        if seq.length == len(seq.table) * bs:
            seq.table.append(self.pool.alloc())
        b, off = seq.table[seq.length // bs], seq.length % bs
        self.pool.k[b, off] = k
        self.pool.v[b, off] = v
        seq.length += 1

    def gather(self, seq):
        k = self.pool.k[seq.table].reshape(-1, *self.pool.k.shape[2:])[:seq.length]
        v = self.pool.v[seq.table].reshape(-1, *self.pool.v.shape[2:])[:seq.length]
        return k, v

    def decode(self, seqs, q):
        """q: [n_seqs, H, d], one new token per sequence (already appended)."""
        out = np.empty_like(q)
        scale = q.shape[-1] ** -0.5
        for n, seq in enumerate(seqs):
            k, v = self.gather(seq)
            for h in range(self.n_heads):
                g = h % self.n_kv
                s = k[:, g] @ q[n, h] * scale
                p = np.exp(s - s.max())
                out[n, h] = (p / p.sum()) @ v[:, g]
        return out


class Engine:
    def __init__(self, n_blocks=64, block_size=4, n_heads=8, n_kv=2, d=16):
        self.pool = BlockPool(n_blocks, block_size, n_kv, d)
        self.attn = PagedAttention(self.pool, n_heads)
        self.running = {}

    def add(self, sid):
        self.running[sid] = Sequence(sid)

    def step(self, batch):
        """batch: {sid: (q [H, d], k [G, d], v [G, d])}"""
        seqs = []
        for sid, (_, k, v) in batch.items():
            seq = self.running[sid]
            self.attn.append(seq, k, v)
            seqs.append(seq)
        o = self.attn.decode(seqs, np.stack([q for q, _, _ in batch.values()]))
        return dict(zip(batch, o))

    def finish(self, sid):
        self.pool.release(self.running.pop(sid).table)
