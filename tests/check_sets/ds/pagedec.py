"""Reference for the paged decode kernel.  Slow on purpose; the CUDA tests compare with this."""
import numpy as np


def gather(pool, pages, n):
    """First n tokens of a sequence whose pages are listed in ``pages``."""
    page_size = pool.shape[1]
    need = -(-n // page_size)
    return pool[pages[:need]].reshape(need * page_size, *pool.shape[2:])[:n]


def paged_decode(q, k_pool, v_pool, block_table, context_len, scale=None):
    """One new token per sequence.

    q            (B, H, d)
    k_pool       (P, S, G, d)   P pages of S tokens; what a page holds beyond the
    v_pool       (P, S, G, d)   context of its sequence is garbage
    block_table  (B, M) int     page of logical block m of sequence b; entries behind
                                the last used block are -1
    context_len  (B,) int       tokens to attend to (the new token's own key is already
                                in the pool and counted); 0 for an idle slot
    scale        default 1/sqrt(d)
    returns      (B, H, d) float32; idle slots are zero

    H is a multiple of G and query head h uses kv head h // (H // G).
    """
    B, H, d = q.shape
    G = k_pool.shape[2]
    scale = 1.0 / np.sqrt(d) if scale is None else scale
    out = np.zeros((B, H, d), np.float32)
    for b in range(B):
        n = int(context_len[b])
        if n == 0:
            continue
        k = gather(k_pool, block_table[b], n).astype(np.float32)
        v = gather(v_pool, block_table[b], n).astype(np.float32)
        for h in range(H):
            g = h // (H // G)
            s = k[:, g] @ q[b, h].astype(np.float32) * scale
            w = np.exp(s - s.max())
            out[b, h] = (w / w.sum()) @ v[:, g]
    return out
