"""Exact attention that never holds the whole score matrix: key blocks with a running maximum and a running sum."""
import numpy as np


def blockwise_attention(q, k, v, key_len=None, causal=False, block=4, return_lse=False):
    """
    q        (..., n, d)
    k        (..., m, d)
    v        (..., m, e)
    key_len  (...,) integers, how many of the m keys are real; all when None
    causal   the last query is aligned with the last key
    """
    q, k, v = (np.asarray(t, dtype=np.float64) for t in (q, k, v))
    n, d = q.shape[-2:]
    m, e = v.shape[-2:]
    lead = q.shape[:-2]
    rows = np.arange(n)[:, None] + (m - n)

    top = np.full(lead + (n, 1), -np.inf)
    mass = np.zeros(lead + (n, 1))
    acc = np.zeros(lead + (n, e))
    for start in range(0, m, block):
        stop = min(start + block, m)
        s = q @ np.swapaxes(k[..., start:stop, :], -1, -2) / np.sqrt(d)
        cols = np.arange(start, stop)
        if causal:
            s = np.where(cols[None, :] <= rows, s, -np.inf)
        if key_len is not None:
            real = cols < np.asarray(key_len)[..., None]
            s = np.where(real[..., None, :], s, -np.inf)

        new_top = np.maximum(top, s.max(axis=-1, keepdims=True))
        anchor = np.where(np.isneginf(new_top), 0.0, new_top)   # nothing seen so far
        p = np.exp(s - anchor)
        shrink = np.exp(top - anchor)
        mass = mass * shrink + p.sum(axis=-1, keepdims=True)
        acc = acc * shrink + p @ v[..., start:stop, :]
        top = new_top

    safe = np.where(mass == 0.0, 1.0, mass)
    out = acc / safe
    if not return_lse:
        return out
    with np.errstate(divide="ignore"):
        return out, (np.where(np.isneginf(top), 0.0, top) + np.log(mass))[..., 0]


def merge(out_a, lse_a, out_b, lse_b):
    """Joins the results over two disjoint sets of keys."""
    lse = np.logaddexp(lse_a, lse_b)
    return out_a * np.exp(lse_a - lse)[..., None] + out_b * np.exp(lse_b - lse)[..., None], lse


if __name__ == "__main__":
    g = np.random.default_rng(0)
    q, k, v = g.normal(size=(2, 3, 6, 8)), g.normal(size=(2, 3, 11, 8)), g.normal(size=(2, 3, 11, 5))
    whole = blockwise_attention(q, k, v)
    left = blockwise_attention(q, k[..., :7, :], v[..., :7, :], return_lse=True)
    right = blockwise_attention(q, k[..., 7:, :], v[..., 7:, :], return_lse=True)
    print(np.abs(merge(*left, *right)[0] - whole).max())
    print(blockwise_attention(q, k, v, key_len=np.full((2, 3), 9), causal=True).shape)
