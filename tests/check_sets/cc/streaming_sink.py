"""Blockwise attention with a learned sink, for long contexts on CPU.

The keys are read block by block with a running maximum and a running sum, so the
whole score matrix is never held.  Every head has one extra logit, the
*sink*, which takes part in the normalisation but has no value: the weights on the keys
therefore sum to less than one.  This is the gpt-oss convention.
"""
from __future__ import annotations

import numpy as np


def _allowed(rows, cols, window):
    ok = cols[None, :] <= rows[:, None]
    if window is not None:
        ok &= cols[None, :] > rows[:, None] - window
    return ok


def attend(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    sinks: np.ndarray,
    *,
    window: int | None = None,
    block: int = 4,
) -> np.ndarray:
    """Causal attention, the last query aligned with the last key.

    Parameters
    ----------
    q : (Tq, H, D)
    k, v : (Tk, G, D), H a multiple of G; head h uses group h // (H // G)
    sinks : (H,)
    window : number of keys seen, counting the token itself; None for all
    """
    tq, heads, d = q.shape
    tk, groups, _ = k.shape
    rep = heads // groups
    qg = q.reshape(tq, groups, rep, d)
    rows = np.arange(tk - tq, tk)

    # the sink opens the sum: it is as if one key had been read already
    top = np.broadcast_to(sinks.reshape(groups, rep, 1), (groups, rep, tq)).astype(q.dtype)
    total = np.ones_like(top)
    acc = np.zeros((groups, rep, tq, d), dtype=q.dtype)

    for lo in range(0, tk, block):
        hi = min(lo + block, tk)
        s = np.einsum("tgrd,sgd->grts", qg, k[lo:hi]) / np.sqrt(d)
        s = np.where(_allowed(rows, np.arange(lo, hi), window), s, -np.inf)
        new_top = np.maximum(top, s.max(axis=-1))
        shrink = np.exp(top - new_top)
        p = np.exp(s - new_top[..., None])
        total = total * shrink + p.sum(axis=-1)
        acc = acc * shrink[..., None] + np.einsum("grts,sgd->grtd", p, v[lo:hi])
        top = new_top

    out = acc / total[..., None]
    return out.transpose(2, 0, 1, 3).reshape(tq, heads, d)


if __name__ == "__main__":
    r = np.random.default_rng(0)
    y = attend(r.normal(size=(3, 4, 8)), r.normal(size=(10, 2, 8)),
               r.normal(size=(10, 2, 8)), np.zeros(4), window=5)
    print(y.shape)
