"""Reference (numpy) for our split-KV decode kernels.

The long cache is cut into pieces, every piece gives a partial output and its log-sum-exp,
and a second pass merges them.  Like the kernel, exp2 is used with the scale folded into
log2(e).
"""
import numpy as np

LOG2E = 1.4426950408889634


def partial_attention(q, k, v, sm_scale, n_valid=None):
    """One piece.  q (H, D); k, v (S, H, D); n_valid: keys in use (>= 1).

    Returns out (H, D) normalised within the piece, and lse (H,).
    """
    if n_valid is None:
        n_valid = k.shape[0]
    k, v = k[:n_valid], v[:n_valid]
    qk = np.einsum("hd,shd->hs", q, k) * (sm_scale * LOG2E)
    m = qk.max(axis=1)
    p = np.exp2(qk - m[:, None])
    l = p.sum(axis=1)
    out = np.einsum("hs,shd->hd", p, v) / l[:, None]
    return out, m + np.log2(l)


def merge_states(outs, lses):
    """outs (P, H, D), lses (P, H): outputs of P pieces with their log-sum-exp -> (H, D), (H,)"""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    z = w.sum(axis=0)
    out = (outs * (w / z)[:, :, None]).sum(axis=0)
    return out, top + np.log(z)


def split_sizes(total, n_split, page):
    """piece borders, multiples of the page size"""
    pages = -(-total // page)
    per = -(-pages // n_split) * page
    return list(range(0, total, per)) + [total]


def decode(q, k_cache, v_cache, seq_len, n_split=4, page=4, sm_scale=None):
    """softmax(q k^T * sm_scale) v over the first seq_len rows of the cache.

    q (B, H, D); k_cache, v_cache (B, S, Hkv, D), Hkv divides H; seq_len (B,).
    Returns (B, H, D).
    """
    B, H, D = q.shape
    rep = H // k_cache.shape[2]
    if sm_scale is None:
        sm_scale = 1.0 / np.sqrt(D)
    result = np.empty_like(q)
    for b in range(B):
        n = int(seq_len[b])
        kb = np.repeat(k_cache[b], rep, axis=1)
        vb = np.repeat(v_cache[b], rep, axis=1)
        borders = split_sizes(n, n_split, page)
        parts = [
            partial_attention(q[b], kb[s:e], vb[s:e], sm_scale)
            for s, e in zip(borders[:-1], borders[1:])
        ]
        outs = np.stack([o for o, _ in parts])
        lses = np.stack([l for _, l in parts])
        result[b], _ = merge_states(outs, lses)
    return result
