"""Reference for a paged-KV decode kernel, in NumPy, used by our unit tests.

The pool is a stack of fixed-size pages shared by all requests.  Request b owns the
pages block_table[b, 0], block_table[b, 1], ... in order; its token t lives in page
block_table[b, t // page_size], row t % page_size.  Rows beyond seq_lens[b] hold stale
data from other requests and must never be read.
"""
import numpy as np


def gather_pages(pool, table_row, length):
    """pool (n_pages, page_size, Hkv, d) -> (length, Hkv, d) in token order."""
    page_size = pool.shape[1]
    n = -(-length // page_size)                 # ceil
    rows = pool[table_row[:n]]
    return rows.reshape(n * page_size, *pool.shape[2:])[:length]


def append_token(pool, table_row, position, item):
    """Write `item` (Hkv, d) as token `position` of a request (pool is changed)."""
    page_size = pool.shape[1]
    pool[table_row[position // page_size], position % page_size] = item


def paged_decode(q, k_pool, v_pool, block_table, seq_lens, sm_scale=None):
    """One new query per request against its paged cache.

    q            (B, H, d)
    k_pool       (n_pages, page_size, Hkv, d), v_pool likewise
    block_table  (B, max_pages) int, unused entries may be -1
    seq_lens     (B,) int >= 1, tokens in the cache, the current one included
    sm_scale     defaults to 1/sqrt(d)
    returns      (B, H, d); query head h belongs to kv head h // (H // Hkv)
    """
    B, H, d = q.shape
    Hkv = k_pool.shape[2]
    g = H // Hkv
    sm_scale = d ** -0.5 if sm_scale is None else sm_scale
    out = np.empty((B, H, v_pool.shape[-1]), dtype=q.dtype)
    for b in range(B):
        keys = gather_pages(k_pool, block_table[b], int(seq_lens[b]))
        vals = gather_pages(v_pool, block_table[b], int(seq_lens[b]))
        for n in range(Hkv):
            qs = q[b, n * g:(n + 1) * g].astype(np.float64)
            s = qs @ keys[:, n].T.astype(np.float64) * sm_scale      # (g, length)
            s -= s.max(axis=1, keepdims=True)
            w = np.exp(s)
            w /= w.sum(axis=1, keepdims=True)
            out[b, n * g:(n + 1) * g] = w @ vals[:, n]
    return out
