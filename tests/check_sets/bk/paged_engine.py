"""A toy of a paged KV engine -- for the blog post, so: NumPy and no tricks.

The cache is a pool of pages of PAGE tokens. A sequence owns a list of page numbers
(its block table), in order; the last page is partly filled. Pages are recycled, so
whatever lies behind the end of a sequence is rubbish of its former owner.
"""
import numpy as np

PAGE = 4


class Pool:
    def __init__(self, n_pages, n_kv, d, dtype=np.float32):
        self.k = np.full((n_pages, PAGE, n_kv, d), np.nan, dtype)
        self.v = np.full((n_pages, PAGE, n_kv, d), np.nan, dtype)
        self.free = list(range(n_pages))[::-1]

    def take(self):
        if not self.free:
            raise MemoryError("pool exhausted")
        return self.free.pop()


class Sequence:
    def __init__(self, pool):
        self.pool, self.table, self.length = pool, [], 0

    def append(self, k, v):
        """k, v [n_kv, d] of one token"""
        page, row = divmod(self.length, PAGE)
        if page == len(self.table):
            self.table.append(self.pool.take())
        self.pool.k[self.table[page], row] = k
        self.pool.v[self.table[page], row] = v
        self.length += 1

    def release(self):
        self.pool.free.extend(self.table)
        self.table, self.length = [], 0


def paged_decode(pool, seqs, q):
    """One decoding step for a batch of sequences.

    q [S, n_q, d]: the query of the newest token of each sequence; its key and value
    are already appended. Query head h uses kv head h // (n_q / n_kv). -> [S, n_q, d]
    """
    n_q, d = q.shape[1:]
    n_kv = pool.k.shape[2]
    group = n_q // n_kv
    out = np.empty(q.shape, np.float32)
    for i, s in enumerate(seqs):
        keys = pool.k[s.table].reshape(-1, n_kv, d)[: s.length].astype(np.float64)
        vals = pool.v[s.table].reshape(-1, n_kv, d)[: s.length].astype(np.float64)
        qg = q[i].astype(np.float64).reshape(n_kv, group, d)
        logit = np.einsum("kgd,tkd->kgt", qg, keys) / d ** 0.5
        logit -= logit.max(-1, keepdims=True)
        w = np.exp(logit)
        w /= w.sum(-1, keepdims=True)
        out[i] = np.einsum("kgt,tkd->kgd", w, vals).reshape(n_q, d)
    return out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    pool = Pool(8, 2, 8)
    seqs = [Sequence(pool), Sequence(pool)]
    for s, n in zip(seqs, (3, 6)):
        for _ in range(n):
            s.append(rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    print(paged_decode(pool, seqs, rng.normal(size=(2, 4, 8))).shape)
