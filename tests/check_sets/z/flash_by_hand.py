"""FlashAttention forward pass, written out by hand (lecture notes, GPU programming, week 9).

Algorithm 1 of Dao et al. with the loops over query blocks outside, so that O is written
once: this is the order of FlashAttention-2.
"""
import numpy as np


def blocks(n, size):
    for s in range(0, n, size):
        yield s, min(s + size, n)


def flash_head(Q, K, V, Br, Bc, scale, causal):
    """Q (N, d), K (M, d), V (M, dv) of one head -> O (N, dv), L (N,)

    causal: query i sees the keys 0 .. i + M - N.
    """
    N, M = Q.shape[0], K.shape[0]
    O = np.zeros((N, V.shape[1]), dtype=np.float64)
    L = np.zeros(N)
    for i0, i1 in blocks(N, Br):
        Qi = Q[i0:i1].astype(np.float64)
        m = np.full(i1 - i0, -np.inf)
        l = np.zeros(i1 - i0)
        acc = np.zeros((i1 - i0, V.shape[1]))
        for j0, j1 in blocks(M, Bc):
            if causal and j0 > i1 - 1 + M - N:
                break
            S = scale * (Qi @ K[j0:j1].T)
            if causal:
                qi = np.arange(i0, i1)[:, None] + (M - N)
                S = np.where(np.arange(j0, j1)[None, :] <= qi, S, -np.inf)
            m_new = np.maximum(m, S.max(axis=1))
            P = np.exp(S - m_new[:, None])
            alpha = np.exp(m - m_new)
            l = alpha * l + P.sum(axis=1)
            acc = acc + P @ V[j0:j1]
            m = m_new
        O[i0:i1] = acc / l[:, None]
        L[i0:i1] = m + np.log(l)
    return O, L


def flash_attention(q, k, v, block_q=4, block_k=4, causal=False, scale=None, return_lse=False):
    """q (B, H, N, d), k (B, H, M, d), v (B, H, M, dv), M >= N if causal.

    Same result as softmax(q k^T * scale) v; scale is 1 / sqrt(d) if not given.
    """
    B, H, N, d = q.shape
    if scale is None:
        scale = 1.0 / np.sqrt(d)
    out = np.empty((B, H, N, v.shape[-1]), dtype=q.dtype)
    lse = np.empty((B, H, N))
    for b in range(B):
        for h in range(H):
            o, s = flash_head(q[b, h], k[b, h], v[b, h], block_q, block_k, scale, causal)
            out[b, h], lse[b, h] = o, s
    if return_lse:
        return out, lse
    return out


def memory_traffic(N, d, Br, Bc, itemsize=2):
    """Bytes read and written in HBM, for the exercise on page 12."""
    Tr = -(-N // Br)
    reads = N * d + Tr * 2 * N * d
    return (reads + N * d + N) * itemsize
