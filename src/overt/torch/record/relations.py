"""Which key stands in which relation to a query: just before it, or after the last place where its token stood."""

from __future__ import annotations

import numpy as np

# So few tokens are looked up one by one.
_FEW = 8


def previous(B: int, T: int, base: int | None, S: int) -> np.ndarray:
    """The key before each query's own, (B, T), −1 where there is none; query t stands at key base + t."""
    if base is None:
        return np.full((B, T), -1)
    keys = np.arange(base - 1, base - 1 + T)
    keys[(keys < 0) | (keys >= S)] = -1
    return keys[None].repeat(B, 0)


def following(ids: np.ndarray, T: int) -> np.ndarray:
    """For each of the last T of the tokens (B, N): the place after the last earlier one like it, (B, T), −1 for none.

    Where that is the token's own place there is nothing to be led to.
    """
    B, N = ids.shape
    found = np.full((B, N), -1)
    for b, row in enumerate(ids):
        if T < _FEW:
            for t in range(N - T, N):
                before = np.flatnonzero(row[:t] == row[t])
                found[b, t] = before[-1] if before.size else -1
        else:
            order = row.argsort(kind="stable")
            ranked = row[order]
            again = ranked[1:] == ranked[:-1]
            found[b, order[1:][again]] = order[:-1][again]
    after = np.where(found >= 0, found + 1, -1)
    after[after == np.arange(N)] = -1
    return after[:, N - T :]
