"""Reference of the tiled kernel, line by line as the CUDA side does it (NumPy, float32).

Layout: q (M, d), k (N, d), v (N, dv).  One head.  causal aligns the last query with the last key.
"""
import numpy as np

TILE_M = 4
TILE_N = 3


def _tile_range(n, step):
    for a in range(0, n, step):
        yield a, min(n, a + step)


def tiled_attention(q, k, v, causal=False, tile_m=TILE_M, tile_n=TILE_N, scale=None):
    M, d = q.shape
    N = k.shape[0]
    if v.shape[0] != N:
        raise ValueError("k and v differ in length")
    scale = d ** -0.5 if scale is None else scale
    shift = N - M
    out = np.empty((M, v.shape[1]), dtype=np.float32)
    lse = np.empty((M,), dtype=np.float32)

    for m0, m1 in _tile_range(M, tile_m):
        qi = q[m0:m1].astype(np.float32) * scale
        row_max = np.full((m1 - m0, 1), -np.inf, np.float32)
        row_sum = np.zeros((m1 - m0, 1), np.float32)
        acc = np.zeros((m1 - m0, v.shape[1]), np.float32)
        for n0, n1 in _tile_range(N, tile_n):
            if causal and n0 > m1 - 1 + shift:
                break
            s = qi @ k[n0:n1].T.astype(np.float32)
            if causal:
                hidden = np.arange(n0, n1)[None, :] > np.arange(m0, m1)[:, None] + shift
                s[hidden] = -np.inf
            new_max = np.maximum(row_max, s.max(1, keepdims=True))
            safe = np.where(np.isneginf(new_max), np.float32(0), new_max)
            p = np.exp(s - safe)
            fix = np.exp(row_max - safe)
            row_sum = row_sum * fix + p.sum(1, keepdims=True)
            acc = acc * fix + p @ v[n0:n1].astype(np.float32)
            row_max = new_max
        empty = row_sum == 0
        out[m0:m1] = acc / np.where(empty, 1, row_sum)
        with np.errstate(divide="ignore"):
            lse[m0:m1] = (row_max + np.log(row_sum))[:, 0]
    return out, lse


def flops(M, N, d, dv, causal=False):
    full = 2 * M * N * (d + dv)
    return full // 2 if causal else full


def tile_count(M, N, tile_m=TILE_M, tile_n=TILE_N):
    return -(-M // tile_m) * -(-N // tile_n)
