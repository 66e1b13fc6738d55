"""Toy re-implementation of paged attention (one decode step, NumPy) for my blog.

k_pool / v_pool: (num_pages, page_size, kv_heads, head_dim).
block_table[b]: page numbers of sequence b in order; -1 = unused.
seq_len[b]: number of valid tokens, the current one included; the rest of the last
page holds garbage.
"""
import numpy as np

PAGE = 4


class PagePool:
    def __init__(self, pages, kv_heads, dim):
        self.k = np.full((pages, PAGE, kv_heads, dim), 7.7)
        self.v = np.full((pages, PAGE, kv_heads, dim), 7.7)
        self.free = list(range(pages))[::-1]

    def take(self):
        return self.free.pop()


class Engine:
    def __init__(self, pages=16, heads=4, kv_heads=2, dim=8):
        self.pool = PagePool(pages, kv_heads, dim)
        self.h, self.kh, self.d = heads, kv_heads, dim
        self.table, self.length = {}, {}

    def push(self, rid, k, v):
        n = self.length.get(rid, 0)
        pages = self.table.setdefault(rid, [])
        if n % PAGE == 0:
            pages.append(self.pool.take())
        self.pool.k[pages[n // PAGE], n % PAGE] = k
        self.pool.v[pages[n // PAGE], n % PAGE] = v
        self.length[rid] = n + 1

    def decode(self, rids, q):
        """q (B, heads, dim) -> (B, heads, dim). Push the current token first."""
        width = max(len(self.table[r]) for r in rids)
        bt = np.full((len(rids), width), -1)
        for i, r in enumerate(rids):
            bt[i, : len(self.table[r])] = self.table[r]
        return paged_attention(q, self.pool.k, self.pool.v, bt, np.array([self.length[r] for r in rids]))


def paged_attention(q, k_pool, v_pool, block_table, seq_len):
    B, H, D = q.shape
    K = k_pool.shape[2]
    out = np.empty_like(q)
    for b in range(B):
        m, l, acc = np.full(H, -np.inf), np.zeros(H), np.zeros((H, D))
        for j, page in enumerate(block_table[b]):
            n = min(PAGE, seq_len[b] - j * PAGE)
            if page < 0 or n <= 0:
                break
            kk = np.repeat(k_pool[page, :n], H // K, axis=1)   # n, H, D
            vv = np.repeat(v_pool[page, :n], H // K, axis=1)
            s = np.einsum("hd,nhd->hn", q[b], kk) / np.sqrt(D)
            m2 = np.maximum(m, s.max(1))
            c = np.exp(m - m2)
            p = np.exp(s - m2[:, None])
            l = l * c + p.sum(1)
            acc = acc * c[:, None] + np.einsum("hn,nhd->hd", p, vv)
            m = m2
        out[b] = acc / l[:, None]
    return out
