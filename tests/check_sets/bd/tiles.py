"""Didactic re-implementation of a tiled attention forward pass in NumPy.

No matrix of size Lq x Lk is ever formed.  For each tile of queries we walk over
the tiles of keys and keep three running quantities per row:
    m   the largest score so far
    s   sum of exp(score - m)
    o   sum of exp(score - m) * value
"""
import argparse
import time

import numpy as np


def tile_ranges(n, size):
    for lo in range(0, n, size):
        yield lo, min(lo + size, n)


def tiled_attention(q, k, v, *, causal=False, tile_q=16, tile_k=24, return_lse=False):
    """q [..., Lq, d], k [..., Lk, d], v [..., Lk, e] -> [..., Lq, e].

    causal=True aligns the last query with the last key (so Lq < Lk is a
    decode with history).  Rows that see no key give zeros and lse = -inf.
    """
    lq, lk, d = q.shape[-2], k.shape[-2], q.shape[-1]
    shift = lk - lq
    out = np.zeros(q.shape[:-1] + (v.shape[-1],), dtype=np.float64)
    lse = np.full(q.shape[:-1], -np.inf)

    for q0, q1 in tile_ranges(lq, tile_q):
        qt = q[..., q0:q1, :].astype(np.float64) / np.sqrt(d)
        m = np.full(qt.shape[:-1], -np.inf)
        s = np.zeros(qt.shape[:-1])
        o = np.zeros(qt.shape[:-1] + (v.shape[-1],))
        for k0, k1 in tile_ranges(lk, tile_k):
            if causal and k0 > q1 - 1 + shift:
                break
            x = qt @ np.swapaxes(k[..., k0:k1, :], -1, -2)
            if causal:
                rows = np.arange(q0, q1)[:, None] + shift
                x = np.where(np.arange(k0, k1)[None, :] <= rows, x, -np.inf)
            m_new = np.maximum(m, x.max(-1))
            safe = np.where(np.isfinite(m_new), m_new, 0.0)
            e = np.exp(x - safe[..., None])
            r = np.exp(m - safe)
            s = s * r + e.sum(-1)
            o = o * r[..., None] + e @ v[..., k0:k1, :]
            m = m_new
        seen = s > 0
        denom = np.where(seen, s, 1.0)
        out[..., q0:q1, :] = o / denom[..., None]
        lse[..., q0:q1] = np.where(seen, np.where(np.isfinite(m), m, 0.0) + np.log(denom), -np.inf)

    out = out.astype(v.dtype)
    return (out, lse) if return_lse else out


def bench(n, d, heads, seed=0):
    g = np.random.default_rng(seed)
    q, k, v = (g.standard_normal((heads, n, d), dtype=np.float32) for _ in range(3))
    t = time.perf_counter()
    tiled_attention(q, k, v, causal=True, tile_q=64, tile_k=64)
    return time.perf_counter() - t


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=256)
    a = ap.parse_args()
    print(f"{bench(a.n, 32, 4) * 1e3:.1f} ms")
