"""Bins of an axis, and which bins of a picture hold a cell that may be seen."""

from __future__ import annotations

import numpy as np


def bins(length: int, count: int) -> np.ndarray:
    """Bins (count, 2) start ≤ i < end of an axis, by the rule of adaptive pooling."""
    edges = np.arange(count + 1) * length
    return np.stack([edges[:-1] // count, -(-edges[1:] // count)], axis=-1)


def spanned(first: np.ndarray, last: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(rows, columns) of bins (…, 2): whether a query of the one may see a key of the other, by spans of keys (T,)."""
    seen = np.zeros((len(rows), len(columns)), bool)
    for r, (top, bottom) in enumerate(rows):
        low, high = first[top:bottom, None], last[top:bottom, None]
        seen[r] = ((low < columns[:, 1]) & (high > columns[:, 0]) & (low < high)).any(axis=0)
    return seen
