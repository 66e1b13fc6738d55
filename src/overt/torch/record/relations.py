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
    before = previous(B, T, base, S)
    # What stands before the first key that anybody sees is padding.
    before[before < np.broadcast_to(link.start, B)[:, None]] = -1
    both = [before]
    if base is not None and chain.ids is not None:
        after = following(chain.ids, T)
        # Places among all queries become places among this call's keys.
        keys = after + base - link.row
        both.append(np.where((after >= 0) & (keys >= 0) & (keys < S), keys, -1))
    found = np.stack(both).astype(np.int32)
    if chain.ids is link.ids:
        current.relations[alike] = found
    return found


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
