"""Masks that leave each query one run of keys: by distance, by length, by sequence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overt.errors import ArgumentError, ShapeError
from overt.grid import (
    FAR,
    Array,
    Cells,
    Packing,
    Shape,
    brief,
    broadcasts,
    check_leading,
    host,
    integers,
    is_elsewhere,
    spread,
    whole,
)
from overt.masks.mask import Mask


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys from ``left`` before to ``right`` after the query's position; a side that is None has no end."""

    left: int | None
    right: int | None
    offset: Array | None

    def __repr__(self) -> str:
        offset = "" if self.offset is None else f"offset={brief(self.offset)}"
        if (self.left, self.right) == (None, 0):
            return f"causal({offset})"
        return f"window({self.left}, {self.right}{offset and ', ' + offset})"

    def visible(self, cells: Cells) -> np.ndarray:
        distance = cells.s - cells.position(self.offset)
        if self.left is None:
            return distance <= (2 * FAR if self.right is None else self.right)
        before = distance >= -self.left
        return before if self.right is None else before & (distance <= self.right)

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        position = rows.position(self.offset)
        first = position * 0 if self.left is None else position - self.left
        last = position * 0 + rows.shape.S if self.right is None else position + self.right + 1
        return first, last

    def check(self, shape: Shape) -> None:
        if self.offset is not None:
            check_leading("offsets", tuple(self.offset.shape), shape.batch)


@dataclass(frozen=True, eq=False)
class Spans(Mask):
    """Keys first ≤ s < last of each query, of arrays that broadcast to (B, H, T)."""

    first: np.ndarray
    last: np.ndarray

    def __repr__(self) -> str:
        return _in_words(self.first, self.last) or f"spans(arrays {self.first.shape}, {self.last.shape})"

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        full = rows.shape.B, rows.shape.H, rows.shape.T
        first, last = (rows.pick(np.broadcast_to(x, full), rows.b, rows.h, rows.t) for x in (self.first, self.last))
        return first, last

    def visible(self, cells: Cells) -> np.ndarray:
        first, last = self.span(cells)
        return (first <= cells.s) & (cells.s < last)


def _in_words(first: np.ndarray, last: np.ndarray) -> str | None:
    """The mask with a name that spans are, for what somebody gave as numbers may be one; None if they are none."""
    first, last = np.broadcast_arrays(*(x.reshape((1,) * (3 - x.ndim) + x.shape) for x in (first, last)))
    sees = first < last
    if not last.shape[-1] or not sees.any(-1).all() or (first != first[:, :1]).any() or (last != last[:, :1]).any():
        return None
    first, last, sees = first[:, 0], last[:, 0], sees[:, 0]
    # Keys before the first one that anybody sees, and after the last one, are padding of a row of the batch.
    start = np.where(sees, first, last.max()).min(-1, keepdims=True)
    end = np.where(sees, last, 0).max(-1, keepdims=True)
    own, name = np.arange(last.shape[-1]), ""
    some = np.argwhere(sees & (last < end))
    if len(some):
        row, t = some[0]
        offset = int(last[row, t] - 1 - t)
        own = own + offset
        left = int((own - first)[sees].max())
        said = f"offset={offset}" if offset else ""
        near = np.maximum(own - left, start)
        if (last == np.minimum(own + 1, end))[sees].all():
            if (first == start)[sees].all():
                name = f"causal({said})"
            elif (first == near)[sees].all():
                name = f"window({left}, 0{said and ', ' + said})"
        # Who sees nothing stands before all that anybody sees.
        if not name or (sees != (own >= start)).any():
            return None
    elif not sees.all() or (first != start).any():
        return None
    terms = [name, f"~padding({brief(start[:, 0])})" if start.any() else ""]
    terms.append(f"padding({brief(end[:, 0])})" if (end != end[0]).any() or not any(terms) else "")
    return " & ".join(filter(None, terms))


@dataclass(frozen=True, eq=False)
class _Prefix(Mask):
    lengths: Array
    causal: Window

    def __repr__(self) -> str:
        offset = "" if self.causal.offset is None else f", offset={brief(self.causal.offset)}"
        return f"prefix({brief(self.lengths)}{offset})"

    def visible(self, cells: Cells) -> np.ndarray:
        return (cells.s < cells.begin() + cells.length(self.lengths)) | self.causal.visible(cells)

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        first, last = self.causal.span(rows)
        return first, rows.xp.maximum(last, rows.begin() + rows.length(self.lengths))

    def check(self, shape: Shape) -> None:
        _check_lengths("prefix lengths", self.lengths, shape)
        self.causal.check(shape)


@dataclass(frozen=True, eq=False)
class _Padding(Mask):
    lengths: Array

    def __repr__(self) -> str:
        return f"padding({brief(self.lengths)})"

    def visible(self, cells: Cells) -> np.ndarray:
        return cells.s < cells.begin() + cells.length(self.lengths)

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        last = rows.begin() + rows.length(self.lengths)
        return last * 0, last

    def check(self, shape: Shape) -> None:
        _check_lengths("padding lengths", self.lengths, shape)


@dataclass(frozen=True, eq=False)
class _Documents(Mask):
    """Ids of the queries, by default those of the keys at which they stand, and ids of the keys."""

    queries: Array | None
    keys: Array

    def __repr__(self) -> str:
        both = [self.keys] if self.queries is None else [self.queries, self.keys]
        return f"documents({', '.join(map(brief, both))})"

    def visible(self, cells: Cells) -> np.ndarray:
        if not cells.shape.S:
            return cells.s < 0
        own, known = self._own(cells)
        return (own == cells.pick(self._rows(self.keys, cells.shape), cells.b, cells.s)) & known

    def hides(self, cells: Cells) -> bool:
        own, known = np.broadcast_arrays(*self._own(cells))
        keys = cells.pick(self._rows(self.keys, cells.shape), cells.b, cells.s)
        return not any(np.isin(ids[there], at).any() for ids, there, at in zip(own, known, keys, strict=True))

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray] | None:
        if rows.xp is not np:
            # How many runs there are would be a number to be read back.
            return None
        S, keys = rows.shape.S, self._rows(self.keys, rows.shape)
        if not keys.size:
            return np.zeros(1, np.int64), np.zeros(1, np.int64)
        begins = np.ones(keys.shape, dtype=bool)
        begins[:, 1:] = keys[:, 1:] != keys[:, :-1]
        b, first = np.nonzero(begins)
        last = np.append(first[1:], 0)
        last = np.where(last == 0, S, last)
        names, rank = np.unique(keys[b, first], return_inverse=True)
        run = b * names.size + rank
        order = np.argsort(run)
        first, last, run = first[order], last[order], run[order]
        if (run[1:] == run[:-1]).any():
            return None
        own, known = self._own(rows)
        rank = np.minimum(np.searchsorted(names, own), names.size - 1)
        wanted = rows.b * names.size + rank
        at = np.minimum(np.searchsorted(run, wanted), run.size - 1)
        found = known & (names[rank] == own) & (run[at] == wanted)
        return np.where(found, first[at], 0), np.where(found, last[at], 0)

    def check(self, shape: Shape) -> None:
        for ids, count, letter, one in ((self.queries, shape.T, "q", "query"), (self.keys, shape.S, "k", "key")):
            if ids is None:
                continue
            if ids.shape[-1] != count:
                raise ShapeError(
                    f"document ids name {ids.shape[-1]} positions but {letter} has {count}: give one id per {one}"
                )
            check_leading("document ids", tuple(ids.shape[:-1]), shape.batch)

    def _own(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """The id of each query, and whether it has one."""
        if self.queries is not None:
            return cells.pick(self._rows(self.queries, cells.shape), cells.b, cells.t), cells.t >= 0
        position = cells.position(None)
        inside = position.clip(0, cells.shape.S - 1)
        # What stands before the first key of its sequence stands at none.
        return cells.pick(self._rows(self.keys, cells.shape), cells.b, inside), position >= cells.begin()

    @staticmethod
    def _rows(ids: Array, shape: Shape) -> Array:
        return spread(ids, (*shape.batch, ids.shape[-1])).reshape(shape.B, ids.shape[-1])


@dataclass(frozen=True, eq=False)
class _Packed(Mask):
    inside: Packing

    def __repr__(self) -> str:
        both = (
            [self.inside.queries]
            if self.inside.queries is self.inside.keys
            else [self.inside.queries, self.inside.keys]
        )
        return f"packed({', '.join(map(brief, both))})"

    @property
    def packing(self) -> Packing:
        return self.inside

    def visible(self, cells: Cells) -> np.ndarray:
        first, last = self.span(cells)
        return (first <= cells.s) & (cells.s < last)

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        sequence = rows.sequence()
        return rows.pick(self.inside.keys, sequence), rows.pick(self.inside.keys, sequence + 1)

    def check(self, shape: Shape) -> None:
        for name, edges, count, letter, axis in (
            ("cu_seqlens of queries", self.inside.queries, shape.T, "q", "T"),
            ("cu_seqlens of keys", self.inside.keys, shape.S, "k", "S"),
        ):
            if edges[-1] != count:
                raise ShapeError(
                    f"{name} end at {edges[-1]}, but {letter} has {count} positions (axis -2, {axis}): the last one is "
                    "the sum of all lengths"
                )


_CAUSAL = Window(None, 0, None)


def causal(offset: int | Array | None = None) -> Window:
    """Keys at or before the query's own position.

    The last query stands at the last key (t + S − T), which is right with a cache and equal when T = S;
    ``offset=0`` aligns to the top left, and one offset per batch row (…,) is allowed.
    """
    return _CAUSAL if offset is None else Window(None, 0, as_offset(offset))


def window(left: int | None, right: int | None, offset: int | Array | None = None) -> Mask:
    """Keys from ``left`` before to ``right`` after the query's position, itself included and not counted.

    A side without an end is None, or any number beyond all lengths, such as ``sys.maxsize``.
    """
    before, after = (
        None if side is None else min(whole(name, side, most=None), FAR)
        for name, side in (("window left", left), ("window right", right))
    )
    if offset is None and (before, after) == (None, 0):
        return _CAUSAL
    return Window(before, after, as_offset(offset))


def padding(lengths: Array) -> Mask:
    """Keys before each batch row's length: lengths (B,) or the leading axes' shape, each 0…S.

    In packed sequences, lengths are one per sequence (N,) or (…, N).
    """
    return _Padding(integers("padding lengths", lengths))


def prefix(lengths: Array, offset: int | Array | None = None) -> Mask:
    """Keys before each batch row's prefix length, for every query; after it causal (prefix language models).

    In packed sequences, lengths are one per sequence (N,) or (…, N).
    """
    return _Prefix(integers("prefix lengths", lengths), causal(offset))


def documents(ids: Array, key_ids: Array | None = None) -> Mask:
    """Keys of the query's own document.

    ids (S,) or (…, S), one per key position, of which each query has that of its own position; or, with ``key_ids``
    (S,) or (…, S), those of the queries, (T,) or (…, T).
    """
    names = ("document ids",) if key_ids is None else ("document ids", "document key_ids")
    arrays = [integers(name, given) for name, given in zip(names, (ids, key_ids), strict=False)]
    for array in arrays:
        if array.ndim == 0:
            raise ShapeError("document ids are a single number: give one id per key, shape (S,) or (…, S)")
    return _Documents(None if key_ids is None else arrays[0], arrays[-1])


def packed(cu_seqlens: Array, cu_seqlens_k: Array | None = None) -> Mask:
    """Keys of the query's own sequence, where sequences lie one behind the other along T and S.

    cu_seqlens: (N + 1,), where each of N sequences begins and the last one ends: 0, n₀, n₀ + n₁, …, T, for queries and
    keys alike; or for queries alone, with ``cu_seqlens_k`` (N + 1,) for keys.

    Beside it positions count in each sequence: in ``packed(cu_seqlens) & causal()``, as in ``window`` and in the biases
    ``alibi`` and ``relative``, the last query of each sequence stands at its last key, ``offset=0`` puts its first
    query at its first key, and the lengths of ``padding`` and ``prefix`` are one per sequence.  What costs nothing
    stays so: time grows with Σ Tᵢ Sᵢ, memory with T + S.  Arrays (T, H, D) are given as ``q.swapaxes(0, 1)``, a view.
    The numbers are checked and kept on the host, since they say how long the arrays must be: from a device they are
    read back once, when the mask is made.
    """
    queries = _edges("cu_seqlens", cu_seqlens)
    keys = queries if cu_seqlens_k is None else _edges("cu_seqlens_k", cu_seqlens_k)
    if len(queries) != len(keys):
        raise ShapeError(
            f"cu_seqlens name {len(queries) - 1} sequences but cu_seqlens_k {len(keys) - 1}: give the same number"
        )
    return _Packed(Packing(queries, keys))


def _edges(name: str, values: Array) -> np.ndarray:
    # They say how long the arrays are to be.
    edges = integers(name, host(name, values) if is_elsewhere(values) else values)
    if edges.ndim != 1 or not edges.size:
        raise ShapeError(f"{name} have shape {edges.shape}: give (N + 1,) numbers for N sequences")
    if edges[0] != 0 or (np.diff(edges) < 0).any():
        raise ArgumentError(f"{name} must begin with 0 and never fall, not {brief(edges)}: give cumulative lengths")
    return edges


def as_offset(offset: int | Array | None) -> Array | None:
    """What ``offset=`` accepts: None, a whole number, or one per batch row."""
    if isinstance(offset, int) and not isinstance(offset, bool):
        # Beyond all lengths Python's integers know no end.
        offset = min(max(offset, -FAR), FAR)
    return None if offset is None else integers("offset", offset).clip(-FAR, FAR)


def _check_lengths(name: str, lengths: Array, shape: Shape) -> None:
    if shape.packing is not None:
        sizes = np.diff(shape.packing.keys)
        if not broadcasts(tuple(lengths.shape), (*shape.batch, sizes.size)):
            raise ShapeError(
                f"{name} have shape {tuple(lengths.shape)}, but there are {sizes.size} packed sequences: give one each"
            )
        if not is_elsewhere(lengths) and ((lengths < 0).any() or (lengths > sizes).any()):
            raise ArgumentError(f"{name} must be at least 0 and at most the number of keys of their packed sequence")
        return
    check_leading(name, tuple(lengths.shape), shape.batch)
    # Of a device that would be a number to be read back; there what is beyond is as good as the end.
    if not is_elsewhere(lengths) and lengths.size and (lengths.min() < 0 or lengths.max() > shape.S):
        raise ArgumentError(
            f"{name} must lie in 0…{shape.S} (k has {shape.S} positions), not {lengths.min()}…{lengths.max()}"
        )
