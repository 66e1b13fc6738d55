"""What a mask is, and masks made of masks, of arrays and of functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import (
    Array,
    Cells,
    Packing,
    Shape,
    brief,
    broadcasts,
    check_layout,
    dtype_name,
    host,
    is_elsewhere,
    kind,
    uncalled,
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

    def hides(self, cells: Cells) -> bool:
        """Whether nothing of some queries and a run of keys is visible, as far as that shows without each cell."""
        span = self.span(cells.rows())
        if span is None:
            return False
        first, last = span
        return not bool(np.any((first < last) & (first <= cells.s.max()) & (last > cells.s.min())))

    def check(self, shape: Shape) -> None:
        """Raise if the mask does not fit a score matrix of this shape."""

    @property
    def packing(self) -> Packing | None:
        """The sequences in which positions are counted, if a part of the mask names any."""
        return None

    def plan(self, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> Plan:
        """Lower to spans, and to what spans do not say."""
        return self.on_host().lowered(Shape(batch, heads, T, S, self.packing).cells())

    def lowered(self, cells: Cells) -> Plan:
        """The plan of some queries alone, those of these cells, for all of the keys."""
        return self._plan(cells.rows())

    @property
    def is_elsewhere(self) -> bool:
        """Whether it holds tensors that lie on a device."""
        return any(x.is_elsewhere if isinstance(x, Mask) else is_elsewhere(x) for x in self._held().values())

    def on_host(self) -> Mask:
        """The same with NumPy's arrays in the place of tensors that lie on a device."""
        if not self.is_elsewhere:
            return self
        moved = {
            name: x.on_host() if isinstance(x, Mask) else host("mask", x) if is_elsewhere(x) else x
            for name, x in self._held().items()
        }
        return replace(self, **moved)  # type: ignore[type-var]  # all that hold something are dataclasses

    def _held(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} if is_dataclass(self) else {}

    def dense(self, T: int, S: int, batch: tuple[int, ...] = (), heads: int = 1) -> np.ndarray:
        """The mask as a boolean array (…, H, T, S)."""
        shape = Shape(batch, heads, T, S, self.packing)
        self.check(shape)
        visible = np.broadcast_to(self.on_host().visible(shape.cells()), (shape.B, heads, T, S))
        return visible.reshape(*batch, heads, T, S)

    def _plan(self, rows: Cells) -> Plan:
        span, S = self.span(rows), rows.shape.S
        if span is None:
            return self._unlowered(rows)
        first, last = (edge.clip(0, S) for edge in span)
        return Plan(
            first.reshape((1,) * (3 - first.ndim) + first.shape),
            last.reshape((1,) * (3 - last.ndim) + last.shape),
            None,
        )

    def _unlowered(self, rows: Cells) -> Plan:
        """All keys, of which the mask itself says which."""
        none = rows.b[:1] * 0
        return Plan(none, none + rows.shape.S, self)

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

    def hides(self, cells: Cells) -> bool:
        return self.left.hides(cells) or self.right.hides(cells)

    def _plan(self, rows: Cells) -> Plan:
        a, b = self.left._plan(rows), self.right._plan(rows)
        rest = a.rest & b.rest if a.rest is not None and b.rest is not None else (b.rest if a.rest is None else a.rest)
        xp = rows.xp
        return Plan(xp.maximum(a.first, b.first), xp.minimum(a.last, b.last), rest)


class _Either(_Pair):
    def __repr__(self) -> str:
        return f"({self.left!r} | {self.right!r})"

    def visible(self, cells: Cells) -> np.ndarray:
        return self.left.visible(cells) | self.right.visible(cells)

    def hides(self, cells: Cells) -> bool:
        return self.left.hides(cells) and self.right.hides(cells)

    def _plan(self, rows: Cells) -> Plan:
        if rows.xp is not np:
            # Whether there is a gap would be a number to be read back.
            return self._unlowered(rows)
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
        if rows.xp is not np:
            return self._unlowered(rows)
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
class Keep(Mask):
    """A boolean array, True where the query may attend; the one mask that is bits already."""

    array: Array

    def __repr__(self) -> str:
        return f"keep({brief(self.array)})"

    def visible(self, cells: Cells) -> np.ndarray:
        return cells.of(self.array)

    def hides(self, cells: Cells) -> bool:
        return not bool(self.visible(cells).any())

    def check(self, shape: Shape) -> None:
        if not broadcasts(tuple(self.array.shape), shape.full):
            raise ShapeError(
                f"mask has shape {tuple(self.array.shape)}, which does not broadcast to (…, H, T, S) = {shape.full}: "
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


def _boolean(array: object) -> Array:
    if uncalled(array):
        raise DtypeError(f"mask must be None, an overt mask or a boolean array, not {kind(array)}")
    check_layout("mask", array)
    # The caller's own array is asked first, as with integers.
    known = hasattr(array, "dtype") and dtype_name(array) == "bool"
    if known and is_elsewhere(array):
        # Others may change it.
        return array.detach().clone()  # type: ignore[attr-defined]
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
