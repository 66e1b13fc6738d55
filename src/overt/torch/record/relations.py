"""Which key stands in which relation to a query: just before it, or after the last place where its token stood."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from overt.torch.record.chain import Chain
    from overt.torch.record.keeping import Link
    from overt.torch.record.watch import Pass

# So few tokens are looked up one by one.
_FEW = 8


def relations(link: Link, chain: Chain, current: Pass) -> np.ndarray:
    """The key before each query's own, and, where tokens are known, that after the last query with the same one.

    int32 (1 or 2, B, T), −1 for none.
    """
    B, T, S, base = link.batch, link.T, link.S, chain.base(link)
    # The layers of a pass that begins read the same tokens, from the same places.
    alike = B, T, S, base, link.row, link.start.tobytes(), id(chain.ids)
    if chain.ids is link.ids and alike in current.relations:
        return current.relations[alike]
    found = np.full((1 if base is None or chain.ids is None else 2, B, T), -1, np.int32)
    if base is not None:
        found[0] = previous(T, base, S)
        # What stands before the first key that anybody sees is padding.
        if link.start.any():
            found[0][found[0] < link.start[:, None]] = -1
        if chain.ids is not None:
            after, shift = following(chain.ids, T), base - link.row
            # Places among all queries become places among this call's keys.
            if shift or chain.ids.shape[1] > S:
                after = np.where((after >= 0) & (after + shift >= 0) & (after + shift < S), after + shift, -1)
            found[1] = after
    if chain.ids is link.ids:
        current.relations[alike] = found
    return found


def previous(T: int, base: int | None, S: int) -> np.ndarray:
    """The key before each query's own, (T,), −1 where there is none; query t stands at key base + t."""
    keys = np.full(T, -1)
    if base is not None:
        first = max(1 - base, 0)
        end = max(min(S + 1 - base, T), first)
        keys[first:end] = np.arange(base - 1 + first, base - 1 + end)
    return keys


def following(ids: np.ndarray, T: int) -> np.ndarray:
    """For each of the last T of the tokens (B, N): the place after the last earlier one like it, (B, T), −1 for none.

    Where that is the token's own place there is nothing to be led to.
    """
    B, N = ids.shape
    after = np.full((B, N), -1)
    for b, row in enumerate(ids):
        if T < _FEW:
            for t in range(N - T, N):
                before = np.flatnonzero(row[:t] == row[t])
                after[b, t] = before[-1] + 1 if before.size and before[-1] + 1 < t else -1
        else:
            order = row.argsort(kind="stable")
            ranked, here, there = row[order], order[1:], order[:-1] + 1
            after[b, here] = np.where((ranked[1:] == ranked[:-1]) & (there < here), there, -1)
    return after[:, N - T :]
