"""Who may look at whom: masks are values that compose with ``&``, ``|`` and ``~``.

True means *may attend*.  A mask says what it keeps in two ways.  ``visible`` answers for any cells, and is the
definition.  ``plan`` lowers the mask to one span of keys per query, first ≤ s < last, and names what a span cannot say.
Kernels know spans and bits, and never hear the word "causal".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import (
    FAR,
    Array,
    Cells,
    Packing,
    Shape,
    brief,
    broadcasts,
    check_leading,
    dtype_name,
    host,
    integers,
    kind,
    uncalled,
    whole,
)


class Plan(NamedTuple):
    """Keys first ≤ s < last per query, each broadcastable to (B, H, T); inside them ``rest``, if any, still decides."""

    first: np.ndarray
    last: np.ndarray
    rest: Mask | None


class Mask:
    """A set of cells of the score matrix.  Subclasses say ``visible``, and ``span`` where they are one."""

    def visible(self, cells: Cells) -> np.ndarray:
        """True where the query may attend to the key; broadcasts to the cells."""
        raise NotImplementedError

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray] | None:
        """First and past-the-last visible key of each query, if the mask is such a span; need not be clipped."""
        return None

    def check(self, shape: Shape) -> None:
        """Raise if the mask does not fit a score matrix of this shape."""

    @property
    def packing(self) -> Packing | None:
        """The sequences in which positions are counted, if a part of the mask names any."""
        return None

    def plan(self, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> Plan:
        """Lower to spans, and to what spans do not say."""
        return self.lowered(Shape(batch, heads, T, S, self.packing).cells())

    def lowered(self, cells: Cells) -> Plan:
        """The plan of some queries alone, those of these cells, for all of the keys."""
        none = np.zeros(1, np.int64)
        return self._plan(Cells(cells.shape, cells.b[..., 0], cells.h[..., 0], cells.t[..., 0], none))

    def dense(self, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> np.ndarray:
        """The mask as a boolean array (…, H, T, S)."""
        shape = Shape(batch, heads, T, S, self.packing)
        self.check(shape)
        visible = np.broadcast_to(self.visible(shape.cells()), (shape.B, heads, T, S))
        return visible.reshape(*batch, heads, T, S)

    def _plan(self, rows: Cells) -> Plan:
        span, S = self.span(rows), rows.shape.S
        if span is None:
            return Plan(np.zeros((1, 1, 1), np.int64), np.full((1, 1, 1), S), self)
        first, last = (np.clip(edge, 0, S) for edge in span)
        return Plan(
            first.reshape((1,) * (3 - first.ndim) + first.shape),
            last.reshape((1,) * (3 - last.ndim) + last.shape),
            None,
        )

    def __and__(self, other: Mask) -> Mask:
        return _Both(self, _mask(other))

    def __or__(self, other: Mask) -> Mask:
        return _Either(self, _mask(other))

    def __rand__(self, other: object) -> Mask:
        return _mask(other) & self

    def __ror__(self, other: object) -> Mask:
        return _mask(other) | self

    def __invert__(self) -> Mask:
        return _Not(self)

    def __bool__(self) -> bool:
        raise DtypeError("a mask is neither true nor false: combine masks with &, | and ~, not with and, or and not")

    # NumPy arrays leave & and | to the mask, which refuses them in words.
    __array_ufunc__ = None


def _mask(other: object) -> Mask:
    if not isinstance(other, Mask):
        raise DtypeError(f"a mask combines with masks, not with {kind(other)}: wrap arrays in overt.keep(array)")
    return other


@dataclass(frozen=True, eq=False)
class _Pair(Mask):
    left: Mask
    right: Mask

    def __post_init__(self) -> None:
        left, right = self.left.packing, self.right.packing
        if left is not None and right is not None and left != right:
            raise ArgumentError("two masks of packed sequences differ in where these begin: give one cu_seqlens")

    @property
    def packing(self) -> Packing | None:
        return self.right.packing if self.left.packing is None else self.left.packing

    def check(self, shape: Shape) -> None:
        self.left.check(shape)
        self.right.check(shape)


class _Both(_Pair):
    def __repr__(self) -> str:
        return f"({self.left!r} & {self.right!r})"

    def visible(self, cells: Cells) -> np.ndarray:
        return self.left.visible(cells) & self.right.visible(cells)

    def _plan(self, rows: Cells) -> Plan:
        a, b = self.left._plan(rows), self.right._plan(rows)
        rest = a.rest & b.rest if a.rest is not None and b.rest is not None else (b.rest if a.rest is None else a.rest)
        return Plan(np.maximum(a.first, b.first), np.minimum(a.last, b.last), rest)


class _Either(_Pair):
    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"

    def visible(self, cells: Cells) -> np.ndarray:
        return self.left.visible(cells) | self.right.visible(cells)

    def _plan(self, rows: Cells) -> Plan:
        a, b = self.left._plan(rows), self.right._plan(rows)
        # An empty span must not stretch the hull, so it borrows the other's edges.
        no_a, no_b = a.first >= a.last, b.first >= b.last
        first = np.where(no_a, b.first, np.where(no_b, a.first, np.minimum(a.first, b.first)))
        last = np.where(no_a, b.last, np.where(no_b, a.last, np.maximum(a.last, b.last)))
        joined = no_a | no_b | ((a.first <= b.last) & (b.first <= a.last))
        exact = a.rest is None and b.rest is None and bool(np.all(joined))
        return Plan(first, last, None if exact else self)


@dataclass(frozen=True, eq=False)
class _Not(Mask):
    inner: Mask

    def __repr__(self) -> str:
        return f"~{self.inner!r}"

    @property
    def packing(self) -> Packing | None:
        return self.inner.packing

    def visible(self, cells: Cells) -> np.ndarray:
        return ~self.inner.visible(cells)

    def check(self, shape: Shape) -> None:
        self.inner.check(shape)

    def _plan(self, rows: Cells) -> Plan:
        plan, S = self.inner._plan(rows), rows.shape.S
        empty = plan.first >= plan.last
        at_start, at_end = empty | (plan.first <= 0), empty | (plan.last >= S)
        if plan.rest is None and bool(np.all(at_start | at_end)):
            # What is left of a span that touches one end is again a span.
            first = np.where(empty, 0, np.where(at_start, plan.last, 0))
            last = np.where(empty | at_start, S, plan.first)
            return Plan(first, last, None)
        return super()._plan(rows)


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys from ``left`` before to ``right`` after the query's position; a side that is None has no end."""

    left: int | None
    right: int | None
    offset: np.ndarray | None

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
        first = np.zeros_like(position) if self.left is None else position - self.left
        last = np.full_like(position, rows.shape.S) if self.right is None else position + self.right + 1
        return first, last

    def check(self, shape: Shape) -> None:
        if self.offset is not None:
            check_leading("offsets", self.offset.shape, shape.batch)


@dataclass(frozen=True, eq=False)
class Spans(Mask):
    """Keys first ≤ s < last of each query, of arrays that broadcast to (B, H, T)."""

    first: np.ndarray
    last: np.ndarray

    def __repr__(self) -> str:
        return f"spans(arrays {self.first.shape}, {self.last.shape})"

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        full = rows.shape.B, rows.shape.H, rows.shape.T
        first, last = (rows.pick(np.broadcast_to(x, full), rows.b, rows.h, rows.t) for x in (self.first, self.last))
        return first, last

    def visible(self, cells: Cells) -> np.ndarray:
        first, last = self.span(cells)
        return (first <= cells.s) & (cells.s < last)


@dataclass(frozen=True, eq=False)
class _Prefix(Mask):
    lengths: np.ndarray
    causal: Window

    def __repr__(self) -> str:
        offset = "" if self.causal.offset is None else f", offset={brief(self.causal.offset)}"
        return f"prefix({brief(self.lengths)}{offset})"

    def visible(self, cells: Cells) -> np.ndarray:
        return (cells.s < cells.begin() + cells.length(self.lengths)) | self.causal.visible(cells)

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        first, last = self.causal.span(rows)
        return first, np.maximum(last, rows.begin() + rows.length(self.lengths))

    def check(self, shape: Shape) -> None:
        _check_lengths("prefix lengths", self.lengths, shape)
        self.causal.check(shape)


@dataclass(frozen=True, eq=False)
class _Padding(Mask):
    lengths: np.ndarray

    def __repr__(self) -> str:
        return f"padding({brief(self.lengths)})"

    def visible(self, cells: Cells) -> np.ndarray:
        return cells.s < cells.begin() + cells.length(self.lengths)

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        last = rows.begin() + rows.length(self.lengths)
        return np.zeros_like(last), last

    def check(self, shape: Shape) -> None:
        _check_lengths("padding lengths", self.lengths, shape)


@dataclass(frozen=True, eq=False)
class _Documents(Mask):
    """Ids of the queries, by default those of the keys at which they stand, and ids of the keys."""

    queries: np.ndarray | None
    keys: np.ndarray

    def __repr__(self) -> str:
        both = [self.keys] if self.queries is None else [self.queries, self.keys]
        return f"documents({', '.join(map(brief, both))})"

    def visible(self, cells: Cells) -> np.ndarray:
        if not cells.shape.S:
            return np.zeros(1, dtype=bool)
        own, known = self._own(cells)
        return (own == cells.pick(self._rows(self.keys, cells.shape), cells.b, cells.s)) & known

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray] | None:
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
            check_leading("document ids", ids.shape[:-1], shape.batch)

    def _own(self, cells: Cells) -> tuple[np.ndarray, np.ndarray]:
        """The id of each query, and whether it has one."""
        if self.queries is not None:
            return cells.pick(self._rows(self.queries, cells.shape), cells.b, cells.t), cells.t >= 0
        position = cells.position(None)
        inside = position.clip(0, cells.shape.S - 1)
        # What stands before the first key of its sequence stands at none.
        return cells.pick(self._rows(self.keys, cells.shape), cells.b, inside), position >= cells.begin()

    @staticmethod
    def _rows(ids: np.ndarray, shape: Shape) -> np.ndarray:
        return np.broadcast_to(ids, (*shape.batch, ids.shape[-1])).reshape(shape.B, ids.shape[-1])


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


@dataclass(frozen=True, eq=False)
class Keep(Mask):
    """A boolean array, True where the query may attend; the one mask that is bits already."""

    array: np.ndarray

    def __repr__(self) -> str:
        return f"keep({brief(self.array)})"

    def visible(self, cells: Cells) -> np.ndarray:
        return cells.of(self.array)

    def check(self, shape: Shape) -> None:
        if not broadcasts(self.array.shape, shape.full):
            raise ShapeError(
                f"mask has shape {self.array.shape}, which does not broadcast to (…, H, T, S) = {shape.full}: "
                "a (B, S) padding mask needs two more axes, mask[:, None, None, :]"
            )


@dataclass(frozen=True, eq=False)
class _Where(Mask):
    predicate: Callable[..., Array]

    def __repr__(self) -> str:
        return f"where({getattr(self.predicate, '__name__', self.predicate)})"

    def visible(self, cells: Cells) -> np.ndarray:
        keep = cells.ask(self.predicate)
        if dtype_name(keep) != "bool":
            raise DtypeError(
                f"the predicate of overt.where must return booleans, not {dtype_name(keep)}: compare, e.g. s <= t"
            )
        full = np.broadcast_shapes(cells.b.shape, cells.h.shape, cells.t.shape, cells.s.shape)
        if not broadcasts(keep.shape, full):
            raise ShapeError(f"the predicate of overt.where returned shape {keep.shape} for cells {full}")
        return keep


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
    """
    queries = _edges("cu_seqlens", cu_seqlens)
    keys = queries if cu_seqlens_k is None else _edges("cu_seqlens_k", cu_seqlens_k)
    if len(queries) != len(keys):
        raise ShapeError(
            f"cu_seqlens name {len(queries) - 1} sequences but cu_seqlens_k {len(keys) - 1}: give the same number"
        )
    return _Packed(Packing(queries, keys))


def keep(array: Array) -> Mask:
    """Cells where a boolean array that broadcasts to (…, H, T, S) is True."""
    return Keep(_boolean(array))


def where(predicate: Callable[..., Array]) -> Mask:
    """Cells where ``predicate(b, h, t, s)`` is True; it gets integer index arrays that broadcast together."""
    if not callable(predicate):
        raise DtypeError(f"overt.where takes a function of (b, h, t, s), not {kind(predicate)}")
    return _Where(predicate)


def as_mask(mask: object) -> Mask | None:
    """What ``mask=`` accepts: None, a Mask, or a boolean array."""
    return mask if mask is None or isinstance(mask, Mask) else Keep(_boolean(mask))


def _edges(name: str, values: Array) -> np.ndarray:
    edges = integers(name, values)
    if edges.ndim != 1 or not edges.size:
        raise ShapeError(f"{name} have shape {edges.shape}: give (N + 1,) numbers for N sequences")
    if edges[0] != 0 or (np.diff(edges) < 0).any():
        raise ArgumentError(f"{name} must begin with 0 and never fall, not {brief(edges)}: give cumulative lengths")
    return edges


def _boolean(array: object) -> np.ndarray:
    if uncalled(array):
        raise DtypeError(f"mask must be None, an overt mask or a boolean array, not {kind(array)}")
    # The caller's own array is asked first, as with integers.
    known = hasattr(array, "dtype") and dtype_name(array) == "bool"
    bits = host("mask", array)
    if known or bits.dtype == bool:
        return bits
    if bits.dtype.kind in "fc" or bits.dtype.name == "bfloat16":
        raise DtypeError(
            f"mask has dtype {bits.dtype}: masks are boolean, True = may attend; an additive mask goes to bias="
        )
    if bits.dtype.kind in "iu":
        raise DtypeError(
            f"mask has dtype {bits.dtype}: masks are boolean, True = may attend; write mask == 1 if your ones mean keep"
        )
    raise DtypeError(
        f"mask must be None, an overt mask or a boolean array, not {kind(array)} of {bits.dtype}; "
        "what is added to the scores goes to bias="
    )


def as_offset(offset: int | Array | None) -> np.ndarray | None:
    """What ``offset=`` accepts: None, a whole number, or one per batch row."""
    if isinstance(offset, int) and not isinstance(offset, bool):
        # Beyond all lengths Python's integers know no end.
        offset = min(max(offset, -FAR), FAR)
    return None if offset is None else np.clip(integers("offset", offset), -FAR, FAR)


def _check_lengths(name: str, lengths: np.ndarray, shape: Shape) -> None:
    if shape.packing is not None:
        sizes = np.diff(shape.packing.keys)
        if not broadcasts(lengths.shape, (*shape.batch, sizes.size)):
            raise ShapeError(
                f"{name} have shape {lengths.shape}, but there are {sizes.size} packed sequences: give one each"
            )
        if (lengths < 0).any() or (lengths > sizes).any():
            raise ArgumentError(f"{name} must be at least 0 and at most the number of keys of their packed sequence")
        return
    check_leading(name, lengths.shape, shape.batch)
    if lengths.size and (lengths.min() < 0 or lengths.max() > shape.S):
        raise ArgumentError(
            f"{name} must lie in 0…{shape.S} (k has {shape.S} positions), not {lengths.min()}…{lengths.max()}"
        )
