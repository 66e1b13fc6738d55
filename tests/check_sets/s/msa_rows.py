"""Tied row attention over a multiple sequence alignment (Rao et al. 2021).

All R sequences of the alignment share one attention map over the L columns: the
logits are summed over rows.  The sum has R times the variance, hence the scale
of the paper, 1/sqrt(R * d), and not 1/sqrt(d).
"""
from dataclasses import dataclass

import numpy as np


@dataclass
class RowWeights:
    wq: np.ndarray  # (C, H, d)
    wk: np.ndarray
    wv: np.ndarray
    wo: np.ndarray  # (H, d, C)


def tied_row_attention(msa, w, gaps_at_end=None):
    """msa (R, L, C); gaps_at_end (L,) True on columns that are only padding.

    Returns the update (R, L, C) and the map (H, L, L).
    """
    R = msa.shape[0]
    d = w.wq.shape[-1]
    q = np.einsum("rlc,chd->rlhd", msa, w.wq)
    k = np.einsum("rlc,chd->rlhd", msa, w.wk)
    v = np.einsum("rlc,chd->rlhd", msa, w.wv)

    logits = np.einsum("rihd,rjhd->hij", q, k) / np.sqrt(R * d)
    if gaps_at_end is not None:
        logits = np.where(gaps_at_end[None, None, :], -np.inf, logits)

    logits = logits - logits.max(axis=-1, keepdims=True)
    amap = np.exp(logits)
    amap = amap / amap.sum(axis=-1, keepdims=True)

    ctx = np.einsum("hij,rjhd->rihd", amap, v)
    return np.einsum("rihd,hdc->ric", ctx, w.wo), amap
