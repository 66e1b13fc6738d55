"""Toy paged KV cache (PagedAttention, Kwon et al. 2023) -- numpy only, for teaching.

Physical pool:   k_pool, v_pool   [num_blocks, block_size, Hkv, D]
Per sequence:    a list of physical block ids; token t lives in
                 block table[t // block_size], row t % block_size
"""
import numpy as np


class OutOfBlocks(RuntimeError):
    pass


class PagedCache:
    def __init__(self, num_blocks, block_size, n_kv_heads, head_dim, dtype=np.float32):
        shape = (num_blocks, block_size, n_kv_heads, head_dim)
        # freshly allocated blocks hold garbage on purpose
        self.k_pool = np.full(shape, 7.0, dtype)
        self.v_pool = np.full(shape, 7.0, dtype)
        self.block_size = block_size
        self.free = list(range(num_blocks))[::-1]
        self.tables = {}
        self.lengths = {}
        self.refs = np.zeros(num_blocks, int)

    def _take(self):
        if not self.free:
            raise OutOfBlocks
        b = self.free.pop()
        self.refs[b] = 1
        return b

    def add(self, seq):
        self.tables[seq], self.lengths[seq] = [], 0

    def fork(self, src, dst):
        """dst shares all blocks of src until one of them writes (copy on write)"""
        self.tables[dst] = list(self.tables[src])
        self.lengths[dst] = self.lengths[src]
        self.refs[self.tables[src]] += 1

    def release(self, seq):
        for b in self.tables.pop(seq):
            self.refs[b] -= 1
            if self.refs[b] == 0:
                self.free.append(b)
        del self.lengths[seq]

    def append(self, seq, k, v):
        """k, v [T, Hkv, D]"""
        table = self.tables[seq]
        for kt, vt in zip(k, v):
            n = self.lengths[seq]
            i, r = divmod(n, self.block_size)
            if i == len(table):
                table.append(self._take())
            elif self.refs[table[i]] > 1:
                fresh = self._take()
                self.k_pool[fresh] = self.k_pool[table[i]]
                self.v_pool[fresh] = self.v_pool[table[i]]
                self.refs[table[i]] -= 1
                table[i] = fresh
            self.k_pool[table[i], r] = kt
            self.v_pool[table[i], r] = vt
            self.lengths[seq] = n + 1


def paged_attention(q, cache, seqs, scale=None):
    """One decode step. q [N, H, D]: the newest token of each of the N sequences in `seqs`
    (its key is already in the cache). Query head h reads kv head h // (H // Hkv).
    Walks the blocks of a sequence keeping a running max and a running sum.
    """
    N, H, D = q.shape
    Hkv = cache.k_pool.shape[2]
    rep = H // Hkv
    scale = D ** -0.5 if scale is None else scale
    out = np.zeros((N, H, D), np.float64)
    for n, seq in enumerate(seqs):
        qn = q[n].reshape(Hkv, rep, D).astype(np.float64) * scale
        m = np.full((Hkv, rep, 1), -np.inf)
        l = np.zeros((Hkv, rep, 1))
        acc = np.zeros((Hkv, rep, D))
        left = cache.lengths[seq]
        for b in cache.tables[seq]:
            used = min(left, cache.block_size)
            if used <= 0:
                break
            left -= used
            k = cache.k_pool[b, :used].astype(np.float64)
            v = cache.v_pool[b, :used].astype(np.float64)
            s = np.einsum("grd,tgd->grt", qn, k)
            m_new = np.maximum(m, s.max(-1, keepdims=True))
            old = np.exp(m - m_new)
            p = np.exp(s - m_new)
            l = l * old + p.sum(-1, keepdims=True)
            acc = acc * old + np.einsum("grt,tgd->grd", p, v)
            m = m_new
        if cache.lengths[seq]:
            out[n] = (acc / l).reshape(H, D)
    return out.astype(q.dtype)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    c = PagedCache(16, 4, 2, 8)
    c.add("a")
    c.append("a", rng.normal(size=(6, 2, 8)), rng.normal(size=(6, 2, 8)))
    c.fork("a", "b")
    c.append("b", rng.normal(size=(3, 2, 8)), rng.normal(size=(3, 2, 8)))
    print(c.tables, paged_attention(rng.normal(size=(2, 4, 8)), c, ["a", "b"]).shape)
