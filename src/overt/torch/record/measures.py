"""What people measure of heads: sinks, entropy, the previous token, induction, special tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from overt.errors import ArgumentError, DtypeError, RecordingError, ShapeError
from overt.grid import integers, shown
from overt.torch.record.call import called
from overt.torch.record.entries import Recorded
from overt.torch.record.relations import following, previous

# Gu et al. 2024 (arXiv:2410.10781) call a key a sink of a head that gives it more than this share of its attention.
SINK = 0.3


@dataclass(frozen=True, eq=False)
class Measures:
    """Each measure of each head of one attention, (H,), the mean over batch rows; NaN where it has no meaning.

    first: share of the first key that anybody sees.  sinks: how many keys get a share above 0.3.
    entropy: mean over its bound, the logarithm of how many keys a query sees.
    previous: mean weight of the key before the query's own.
    induction: mean weight of the key after the last one with the query's token (Olsson et al. 2022, arXiv:2209.11895).
    special: share of the special tokens.
    """

    name: str
    first: np.ndarray
    sinks: np.ndarray
    entropy: np.ndarray
    previous: np.ndarray
    induction: np.ndarray
    special: np.ndarray

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON knows it."""
        kinds = "first", "sinks", "entropy", "previous", "induction", "special"
        return {kind: [None if np.isnan(x) else round(float(x), 6) for x in getattr(self, kind)] for kind in kinds}


def measures(seen: Recorded, ids: Any = None, special: Collection[int] = ()) -> Measures:
    """All measures of one attention.

    ids: tokens (B, T) or (T,) of the queries, where the recording does not know them.  special: ids of special tokens.
    """
    B, H, T, S = seen.problem.shape.full
    tokens = seen.ids if ids is None else integers("ids", ids)
    if tokens is not None and ids is not None:
        try:
            tokens = np.broadcast_to(tokens, (B, T))
        except ValueError:
            raise ShapeError(f"ids have shape {tokens.shape}, but {seen.name} has {B} × {T} queries") from None
    nothing = np.full((B, H), np.nan)
    received = shares(seen)
    own = np.arange(T) + (seen.base or 0)
    among = nothing
    asked: Any = special
    if isinstance(asked, str) or not isinstance(asked, Collection):
        raise DtypeError(f"special must be the ids of some tokens, not {shown(special)}")
    if len(special):
        integers("special", list(special))
    if tokens is not None and len(special) and seen.base is not None:
        marked = np.zeros((B, S), bool)
        marked[:, own[own < S]] = np.isin(tokens, list(special))[:, own < S]
        among = (received * marked[:, None]).sum(-1)
    with np.errstate(invalid="ignore"):
        return Measures(
            seen.name,
            first(seen).mean(0),
            (received > SINK).sum(-1).mean(0),
            entropy(seen).mean(0),
            _mean(_previous(seen)),
            nothing[0] if tokens is None or seen.base is None else _mean(_induction(seen, tokens, ids is not None)),
            among.mean(0),
        )


def shares(seen: Recorded) -> np.ndarray:
    """Share (B, H, S) of all attention that each key receives."""
    return np.asarray(seen.received()) / np.maximum(seen.rows, 1)[..., None]


def first(seen: Recorded) -> np.ndarray:
    """Share (B, H) of all attention that the first key that anybody sees receives."""
    received = shares(seen)
    B = len(received)
    return received[np.arange(B), :, np.broadcast_to(seen.start, B)]


def entropy(seen: Recorded) -> np.ndarray:
    """Mean entropy (B, H) of the rows over its bound, the logarithm of how many keys a row sees; NaN without any."""
    counts = seen.counts
    bound = np.where(counts > 1, np.log(np.maximum(counts, 2)), np.nan)
    return nanmean(np.asarray(seen.entropy()) / bound)


def mass(seen: Recorded, keys: Any, queries: Any) -> np.ndarray:
    """Share (B, H) of the attention of some queries, by default of all, that some keys receive."""
    S, T = seen.problem.shape.S, seen.problem.shape.T
    chosen, name = np.zeros(S, bool), called(seen.name)
    chosen[_named(keys, S, f"keys of {name}")] = True
    if queries is None:
        return shares(seen)[..., chosen].sum(-1)
    rows = _named(queries, T, f"queries of {name}")
    places = np.flatnonzero(chosen)
    total = np.zeros(seen.rows.shape)
    for t in rows:
        row = np.asarray(seen.weights[:, :, int(t)])
        total += row[..., places].sum(-1)
    return total / max(len(rows), 1)


def _named(places: Any, N: int, what: str) -> np.ndarray:
    """A slice or indices as places among N; an error where there is no such place."""
    try:
        found = np.arange(N)[places].reshape(-1)
    except (IndexError, TypeError, ValueError):
        found = None
    if found is None or (isinstance(places, slice) and not len(found)):
        raise ArgumentError(f"{places!r} names no {what}, which has {N}: give a slice or indices")
    return found


def cells(seen: Recorded, keys: np.ndarray) -> np.ndarray:
    """Weight (B, H, T) of one key for each query: keys (B, T), −1 for none; NaN for none and for a blind query."""
    B, H, T, _ = seen.problem.shape.full
    b, h, t = np.ogrid[:B, :H, :T]
    found = seen.weights[b, h, t, np.broadcast_to(np.maximum(keys, 0)[:, None], (B, H, T))]
    blind = np.asarray(seen.lse) == -np.inf
    return np.where((keys[:, None] < 0) | blind, np.nan, found)


def _previous(seen: Recorded) -> np.ndarray:
    if seen.kept is not None and (known := seen.kept("previous")) is not None:
        return known
    B, _, T, S = seen.problem.shape.full
    keys = previous(T, seen.base, S)
    # What stands before the first key that anybody sees is padding.
    keys = np.where(keys < np.broadcast_to(seen.start, B)[:, None], -1, keys)
    return cells(seen, keys)


def _induction(seen: Recorded, ids: np.ndarray, others: bool) -> np.ndarray:
    B, H, T, S = seen.problem.shape.full
    if seen.kept is not None:
        if others:
            raise RecordingError(f'{seen.name}: induction for other ids needs cells: record with keep="qk"')
        known = seen.kept("induction")
        return np.full((B, H, T), np.nan) if known is None else known
    after = following(ids, T)
    keys = np.where(after >= 0, after + (seen.base or 0), -1)
    return cells(seen, np.where(keys < S, keys, -1))


def nanmean(x: np.ndarray) -> np.ndarray:
    """Mean over the last axis of what is finite; NaN where nothing is."""
    some = np.isfinite(x)
    count = some.sum(-1)
    return np.where(count, np.where(some, x, 0).sum(-1) / np.maximum(count, 1), np.nan)


def _mean(x: np.ndarray) -> np.ndarray:
    """Mean (H,) over batch rows and queries of (B, H, T)."""
    return nanmean(np.moveaxis(x, 1, 0).reshape(x.shape[1], -1))
