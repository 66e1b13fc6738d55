"""Split-KV decoding over a paged cache, CPU reference of our serving kernel.

One query token per request. Every worker handles one partition of the pages and
returns its partial output together with a log-sum-exp; `combine` reduces them.
All kernels use exp2, with log2(e) folded into the softmax scale.
"""
import numpy as np

LOG2E = 1.4426950408889634


class PagedCache:
    """pages (n_pages, page_size, n_kv_heads, d)"""

    def __init__(self, n_pages, page_size, n_kv, d):
        self.k = np.zeros((n_pages, page_size, n_kv, d), np.float32)
        self.v = np.zeros((n_pages, page_size, n_kv, d), np.float32)
        self.page_size = page_size
        self.free = list(range(n_pages))[::-1]

    def store(self, keys, values):
        """keys (T, n_kv, d) -> block table (list of page ids)"""
        table = []
        for s in range(0, len(keys), self.page_size):
            p = self.free.pop()
            n = min(self.page_size, len(keys) - s)
            self.k[p, :n], self.v[p, :n] = keys[s:s + n], values[s:s + n]
            table.append(p)
        return table


def partition_kernel(q, k, v, n_valid, sm_scale):
    """q (H, d), k/v (n, n_kv, d) -> o (H, d), lse (H,)"""
    group = q.shape[0] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = np.einsum('hd,nhd->hn', q, k) * (sm_scale * LOG2E)
    s[:, n_valid:] = -np.inf
    m = s.max(-1)
    p = np.exp2(s - m[:, None])
    l = p.sum(-1)
    o = np.einsum('hn,nhd->hd', p, v) / l[:, None]
    return o, m + np.log2(l)


def combine(outs, lses):
    """outs (P, H, d), lses (P, H)"""
    outs, lses = np.stack(outs), np.stack(lses)
    m = lses.max(0)
    w = np.exp(lses - m)
    w /= w.sum(0)
    return (w[..., None] * outs).sum(0)


def paged_decode(q, cache, block_tables, context_lens, pages_per_partition=2, sm_scale=None):
    """
    q              (B, H, d)
    block_tables   list of B lists of page ids
    context_lens   B ints, tokens in the cache of every request (at least 1)
    returns        (B, H, d)
    """
    if sm_scale is None:
        sm_scale = q.shape[-1] ** -0.5
    ps = cache.page_size
    result = np.empty(q.shape, np.float32)
    for b, (table, T) in enumerate(zip(block_tables, context_lens)):
        table = table[:-(-T // ps)]
        outs, lses = [], []
        for p0 in range(0, len(table), pages_per_partition):
            pages = table[p0:p0 + pages_per_partition]
            k = cache.k[pages].reshape(-1, *cache.k.shape[2:])
            v = cache.v[pages].reshape(-1, *cache.v.shape[2:])
            o, lse = partition_kernel(q[b], k, v, min(T - p0 * ps, len(k)), sm_scale)
            outs.append(o)
            lses.append(lse)
        result[b] = combine(outs, lses)
    return result
