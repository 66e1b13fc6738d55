"""Decode attention with the keys spread over several workers.

Every worker returns its normalised partial output and the log-sum-exp of its
scores; the merge must give what one worker with all the keys would give.
"""
import numpy as np

LOG2E = 1.4426950408889634


def worker(q, k, v):
    """q (H, d), k/v (n, H, d) with n >= 1 -> out (H, d), lse (H,)"""
    s = np.einsum("hd,nhd->hn", q, k) / np.sqrt(q.shape[-1])
    m = s.max(axis=1)
    p = np.exp2((s - m[:, None]) * LOG2E)
    l = p.sum(axis=1)
    out = np.einsum("hn,nhd->hd", p / l[:, None], v)
    lse = m * LOG2E + np.log2(l)
    return out, lse


def merge(parts):
    outs = np.stack([o for o, _ in parts])
    lses = np.stack([z for _, z in parts])
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return (w[..., None] * outs).sum(axis=0)


def split_kv(q, k, v, n_workers=4):
    ks = np.array_split(k, n_workers)
    vs = np.array_split(v, n_workers)
    return merge([worker(q, a, b) for a, b in zip(ks, vs) if len(a)])
