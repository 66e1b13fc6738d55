"""Which key stands in which relation to a query: just before it, or after the last place where its token stood."""

from __future__ import annotations

import numpy as np


def previous(B: int, T: int, base: int | None, S: int) -> np.ndarray:
    """The key before each query's own, (B, T), −1 where there is none; query t stands at key base + t."""
    if base is None:
        return np.full((B, T), -1)
    keys = np.arange(T) + base - 1
    return np.broadcast_to(np.where((keys >= 0) & (keys < S), keys, -1), (B, T)).copy()


def following(ids: np.ndarray, T: int) -> np.ndarray:
    """For each of the last T of the tokens (B, N): the place after the last earlier one like it, (B, T), −1 for none.

    Where that is the token's own place there is nothing to be led to.
    """
    B, N = ids.shape
    found = np.full((B, N), -1)
    if T * N < 1 << 16:
        for b, row in enumerate(ids):
            for t in range(N - T, N):
                before = np.flatnonzero(row[:t] == row[t])
                found[b, t] = before[-1] if before.size else -1
    else:
        order = np.argsort(ids, axis=1, kind="stable")
        ranked = np.take_along_axis(ids, order, 1)
        earlier = np.where(ranked[:, 1:] == ranked[:, :-1], order[:, :-1], -1)
        np.put_along_axis(found, order[:, 1:], earlier, 1)
    after = np.where(found >= 0, found + 1, -1)
    after[after == np.arange(N)] = -1
    return after[:, N - T :]
