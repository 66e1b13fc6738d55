"""A reading aid for the PagedAttention paper: the decode kernel in NumPy, slowly.

Physical blocks lie in one pool shared by all requests.  Request r owns the blocks
block_table[r, 0], block_table[r, 1], ... in logical order, and has context_len[r] tokens,
the newest one (whose query we hold) included.  Entries of the table beyond the last used
block are -1.
"""
import numpy as np


def paged_attention(query, k_pool, v_pool, block_table, context_len, scale=None):
    """One decode step.

    query:       (R, H, d)           one token per request
    k_pool:      (N, block, Hkv, d)  H is a multiple of Hkv; query heads g*G .. g*G+G-1
    v_pool:      (N, block, Hkv, d)  (G = H // Hkv) share KV head g
    block_table: (R, max_blocks) int
    context_len: (R,) int, each at least 1
    scale:       default 1 / sqrt(d)
    Returns (R, H, d).
    """
    R, H, d = query.shape
    block = k_pool.shape[1]
    Hkv = k_pool.shape[2]
    if scale is None:
        scale = d ** -0.5
    out = np.empty((R, H, v_pool.shape[-1]), dtype=query.dtype)
    for r in range(R):
        n = int(context_len[r])
        q = query[r].reshape(Hkv, H // Hkv, d)
        m = np.full((Hkv, H // Hkv, 1), -np.inf)
        den = np.zeros((Hkv, H // Hkv, 1))
        num = np.zeros((Hkv, H // Hkv, v_pool.shape[-1]))
        for logical in range(-(-n // block)):
            phys = block_table[r, logical]
            here = min(block, n - logical * block)
            k = k_pool[phys, :here]
            v = v_pool[phys, :here]
            s = np.einsum("ghd,tgd->ght", q, k) * scale
            m_new = np.maximum(m, s.max(axis=-1, keepdims=True))
            shrink = np.exp(m - m_new)
            p = np.exp(s - m_new)
            den = den * shrink + p.sum(axis=-1, keepdims=True)
            num = num * shrink + np.einsum("ght,tgd->ghd", p, v)
            m = m_new
        out[r] = (num / den).reshape(H, -1)
    return out
