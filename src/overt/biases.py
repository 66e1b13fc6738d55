"""What is added to the scores after the softcap and before the mask.

A bias that depends only on the distance from query to key is a strided view of one short table per head,
so that it costs T + S numbers and no kernel needs to know it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from math import log
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.lib.stride_tricks import as_strided

from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import (
    Array,
    Cells,
    Shape,
    brief,
    broadcasts,
    check_layout,
    check_leading,
    dtype_name,
    host,
    is_elsewhere,
    is_float,
    picked,
    plain,
    uncalled,
    whole,
)
from overt.masks import Mask, as_offset


class Bias:
    """Numbers added to the scores.  Biases and arrays add up: ``alibi(slopes) + array``.

    Its ``parameter`` is what ``gradient`` returns a gradient for; that of a sum is a tuple, in the order of the terms.
    """

    parameter: Any

    @property
    def terms(self) -> tuple[Bias, ...]:
        """What a sum is the sum of, in order; any other bias is the one term of itself."""
        return (self,)

    def on_host(self) -> Bias:
        """The same with parameters that are NumPy arrays."""
        return self if isinstance(self.parameter, np.ndarray) else self.exchanged(host("bias", self.parameter))

    def exchanged(self, parameter: Any) -> Bias:
        """The same with another parameter."""
        return replace(self, parameter=parameter)  # type: ignore[type-var]  # all are dataclasses

    def zeros(self) -> Any:
        """Room for a gradient: zeros like the parameter, float64."""
        return np.zeros(self.parameter.shape)

    def check(self, shape: Shape) -> None:
        """Raise if the bias does not fit a score matrix of this shape."""

    def at(self, cells: Cells) -> np.ndarray:
        """The bias at these cells, broadcastable to them."""
        raise NotImplementedError

    def view(self, shape: Shape, dtype: np.dtype, t: range | None = None, s: range | None = None) -> np.ndarray | None:
        """The bias of all, or some, queries and keys as a (B, H, T, S) view that needs no more memory than the bias.

        None where there is none.
        """
        raise NotImplementedError

    def pull(self, gradient: np.ndarray, cells: Cells, into: Any) -> None:
        """Add to ``into``, from ``zeros``, its share of the gradient of the scores at these cells."""
        raise NotImplementedError

    def __add__(self, other: object) -> Bias:
        return Sum((*self.terms, *_term(other).terms))

    def __radd__(self, other: object) -> Bias:
        return Sum((*_term(other).terms, *self.terms))

    # NumPy arrays leave + to the bias.
    __array_ufunc__ = None


@dataclass(frozen=True, eq=False)
class Dense(Bias):
    """An array that broadcasts to (…, H, T, S)."""

    parameter: Array

    def __repr__(self) -> str:
        return brief(self.parameter)

    def check(self, shape: Shape) -> None:
        if not broadcasts(self.parameter.shape, shape.full):
            raise ShapeError(
                f"bias has shape {tuple(self.parameter.shape)}: it does not broadcast to (…, H, T, S) = {shape.full}: "
                "give each missing axis the size 1"
            )

    def at(self, cells: Cells) -> np.ndarray:
        return cells.of(self.parameter)

    def view(self, shape: Shape, dtype: np.dtype, t: range | None = None, s: range | None = None) -> np.ndarray | None:
        part = np.broadcast_to(self.parameter, shape.full)[..., _steps(t), _steps(s)]
        # Only what is stored is converted, not what it is broadcast to.
        stored = tuple(slice(1) if step == 0 else slice(None) for step in part.strides)
        held = part[stored].astype(dtype, copy=False)
        size = (shape.B, shape.H, *part.shape[-2:])
        try:
            return np.broadcast_to(held, part.shape).reshape(size, copy=False)
        except ValueError:
            return None

    def pull(self, gradient: np.ndarray, cells: Cells, into: np.ndarray) -> None:
        batch = cells.shape.batch
        into = into.reshape((1,) * (len(batch) + 3 - into.ndim) + into.shape)
        *leading, H, T, S = into.shape
        broadcast = tuple(axis for axis, n in ((1, H), (2, T), (3, S)) if n == 1)
        gradient = gradient.sum(axis=broadcast, keepdims=True, dtype=into.dtype)
        index = np.ix_(*(i.reshape(-1) if n != 1 else [0] for i, n in ((cells.h, H), (cells.t, T), (cells.s, S))))
        # Batch rows may share their numbers, cells of one row do not.
        for row, b in zip(gradient, cells.b.reshape(-1), strict=True):
            at = np.unravel_index(b, batch) if batch else ()
            into[tuple(i if n > 1 else 0 for i, n in zip(at, leading, strict=True))][index] += row


@dataclass(frozen=True, eq=False)
class Sum(Bias):
    """Biases added up."""

    parts: tuple[Bias, ...]

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))

    @property
    def parameter(self) -> tuple[Array, ...]:
        return tuple(part.parameter for part in self.parts)

    @property
    def terms(self) -> tuple[Bias, ...]:
        return self.parts

    def on_host(self) -> Bias:
        return Sum(tuple(part.on_host() for part in self.parts))

    def exchanged(self, parameter: Any) -> Bias:
        return Sum(tuple(part.exchanged(own) for part, own in zip(self.parts, parameter, strict=True)))

    def zeros(self) -> tuple[np.ndarray, ...]:
        return tuple(part.zeros() for part in self.parts)

    def check(self, shape: Shape) -> None:
        for part in self.parts:
            part.check(shape)

    def at(self, cells: Cells) -> Array:
        return added((part.at(cells) for part in self.parts), np.dtype(np.float64))

    def view(self, shape: Shape, dtype: np.dtype, t: range | None = None, s: range | None = None) -> np.ndarray | None:
        tables = [part.table(shape, t, s) if isinstance(part, Distance) else None for part in self.parts]
        known = [table for table in tables if table is not None]
        return _slide(added(known, dtype), shape, dtype, t, s) if len(known) == len(tables) else None

    def pull(self, gradient: np.ndarray, cells: Cells, into: tuple[np.ndarray, ...]) -> None:
        for part, own in zip(self.parts, into, strict=True):
            part.pull(gradient, cells, own)


def added(numbers: Iterable[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """What several biases add up to, in the dtype of scores or in a wider one of theirs: narrower ones would round."""
    return reduce(operator.add, numbers, np.zeros((), dtype))


class Distance(Bias):
    """A bias b(h, distance) of the distance from the query's position to the key."""

    heads: int
    offset: np.ndarray | None
    name: str

    def of_distance(self, distance: np.ndarray, h: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def check(self, shape: Shape) -> None:
        if self.heads != shape.H:
            raise ShapeError(f"{self.name} for {self.heads} heads, but q has {shape.H} heads: give one per query head")
        if self.offset is not None:
            check_leading("offsets", self.offset.shape, shape.batch)

    def at(self, cells: Cells) -> np.ndarray:
        return self.of_distance(cells.s - cells.position(self.offset), cells.h)

    def table(self, shape: Shape, t: range | None = None, s: range | None = None) -> np.ndarray | None:
        """(B or 1, H, T + S − 1) the bias at each distance of key from query, from that of key 0 and query T − 1 on.

        Of some queries and keys, likewise from the first key and the last query on.
        None where queries do not stand at equal steps.
        """
        t, s = range(shape.T) if t is None else t, range(shape.S) if s is None else s
        if shape.packing is not None:
            held = np.diff(shape.packing.queries) > 0
            shifts = np.unique(shape.packing.shift(aligned=self.offset is None)[held])
            if shifts.size > 1:
                return None
        else:
            shifts = np.array([shape.S - shape.T if self.offset is None else 0])
        start = shifts + (0 if self.offset is None else shape.per_batch(self.offset))
        distance = np.arange(s.start - t.stop + 1, s.stop - t.start) - start[:, None, None]
        return self.of_distance(distance, np.arange(shape.H)[:, None])

    def view(self, shape: Shape, dtype: np.dtype, t: range | None = None, s: range | None = None) -> np.ndarray | None:
        table = self.table(shape, t, s)
        return None if table is None else _slide(table, shape, dtype, t, s)


def _slide(table: np.ndarray, shape: Shape, dtype: np.dtype, t: range | None, s: range | None) -> np.ndarray:
    """A table of distances as a view (B, H, T, S): one query further is one entry less."""
    t, s = range(shape.T) if t is None else t, range(shape.S) if s is None else s
    if 0 in (shape.B, shape.H, len(t), len(s)):
        return np.zeros((shape.B, shape.H, len(t), len(s)), dtype)
    table = np.ascontiguousarray(table, dtype)
    b, h, j = table.strides
    strides = b if len(table) > 1 else 0, h, -j, j
    T, S = t.stop - t.start, s.stop - s.start
    return as_strided(table[..., T - 1 :], (shape.B, shape.H, T, S), strides, writeable=False)[
        :, :, :: t.step, :: s.step
    ]


def _steps(part: range | None) -> slice:
    """A part of an axis, with positive steps."""
    return slice(None) if part is None else slice(part.start, part.stop, part.step)


@dataclass(frozen=True, eq=False)
class Alibi(Distance):
    """−slope · |distance|."""

    parameter: Array
    offset: np.ndarray | None
    name = "alibi has slopes"

    def __repr__(self) -> str:
        return f"alibi({brief(self.parameter)}{_at(self.offset)})"

    @property
    def heads(self) -> int:  # type: ignore[override]
        return int(self.parameter.shape[0])

    def of_distance(self, distance: np.ndarray, h: np.ndarray) -> np.ndarray:
        slopes = picked(self.parameter, (h,))
        if isinstance(slopes, np.ndarray):
            return -slopes * np.abs(distance)
        # Other libraries multiply by whole numbers in the dtype of the slopes, or not at all.
        xp = array_namespace(slopes)
        wide = xp.float64 if dtype_name(slopes) == "float64" else xp.float32
        return -xp.astype(slopes, wide) * xp.asarray(np.abs(distance), dtype=wide, device=device(slopes))

    def pull(self, gradient: np.ndarray, cells: Cells, into: np.ndarray) -> None:
        distance = np.abs(cells.s - cells.position(self.offset))
        np.add.at(into, cells.h.reshape(-1), -(gradient * distance).sum(axis=(0, 2, 3)))


@dataclass(frozen=True, eq=False)
class Relative(Distance):
    """table[bucket(distance), head], of a table (buckets, H)."""

    parameter: Array
    offset: np.ndarray | None
    bidirectional: bool
    max_distance: int
    name = "relative bias has a table"

    def __repr__(self) -> str:
        options = f", bidirectional={self.bidirectional}, max_distance={self.max_distance}"
        return f"relative({brief(self.parameter)}{options}{_at(self.offset)})"

    @property
    def heads(self) -> int:  # type: ignore[override]
        return int(self.parameter.shape[1])

    def of_distance(self, distance: np.ndarray, h: np.ndarray) -> np.ndarray:
        return picked(self.parameter, (self.bucket(distance), h))

    def bucket(self, distance: np.ndarray) -> np.ndarray:
        """Row of the table for each distance: exact for near keys, logarithmic up to ``max_distance``."""
        if distance.size:
            low, high = int(distance.min()), int(distance.max())
            # T · S distances are T + S different ones.
            if distance.size > high - low + 1:
                return self._bucket(np.arange(low, high + 1))[distance - low]
        return self._bucket(distance)

    def _bucket(self, distance: np.ndarray) -> np.ndarray:
        buckets = self.parameter.shape[0]
        start = np.zeros_like(distance)
        if self.bidirectional:
            buckets //= 2
            start = np.where(distance > 0, buckets, 0)
            distance = np.abs(distance)
        else:
            distance = np.maximum(-distance, 0)
        exact = buckets // 2
        # Single precision decides at the edges, as in T5.  NumPy's own logarithm of float32 is not always the nearest.
        ratio = np.maximum(distance, 1).astype(np.float32) / exact
        far = np.log(ratio.astype(np.float64)).astype(np.float32) / np.float32(log(self.max_distance / exact))
        far = exact + (far * (buckets - exact)).astype(np.int64)
        return start + np.where(distance < exact, distance, np.minimum(far, buckets - 1))

    def pull(self, gradient: np.ndarray, cells: Cells, into: np.ndarray) -> None:
        bucket = self.bucket(cells.s - cells.position(self.offset))
        if len(bucket) < len(gradient):
            gradient = gradient.sum(axis=0, keepdims=True)
        for row, row_bucket in zip(
            gradient, np.broadcast_to(bucket, (len(gradient), 1, *gradient.shape[2:])), strict=True
        ):
            for head, h in zip(row, cells.h.reshape(-1), strict=True):
                into[:, h] += np.bincount(row_bucket.reshape(-1), weights=head.reshape(-1), minlength=len(into))


def alibi(slopes: Array, offset: int | Array | None = None) -> Bias:
    """−slope · |distance| between query position and key; slopes (H,).

    Press et al. 2022 (arXiv:2108.12409), which is causal; without a causal mask the penalty is the same to both sides.
    Slopes stay on their device; an offset is kept on the host, where distances are counted, and read back from a device
    once, when the bias is made.
    """
    values = _floats("alibi slopes", slopes)
    if values.ndim != 1:
        raise ShapeError(f"alibi slopes have shape {values.shape}: give one number per query head, shape (H,)")
    return Alibi(values, _offset(offset))


def relative(
    table: Array, *, bidirectional: bool = True, max_distance: int = 128, offset: int | Array | None = None
) -> Bias:
    """Learned bias by bucket of distance: table (buckets, H), as T5 stores it.

    Raffel et al. 2020 (arXiv:1910.10683).  Encoders are ``bidirectional``; decoders put all buckets behind the query.
    The table stays on its device; of an offset ``alibi`` tells.
    """
    values = _floats("the relative table", table)
    least = 4 if bidirectional else 2
    if values.ndim != 2 or values.shape[0] < least:
        raise ShapeError(
            f"the relative table has shape {values.shape}: give (buckets, H) with at least {least} buckets"
        )
    exact = values.shape[0] // (4 if bidirectional else 2)
    if whole("max_distance", max_distance) <= exact:
        raise ArgumentError(f"max_distance must be more than {exact}, the distances with a bucket of their own")
    return Relative(values, _offset(offset), bidirectional, max_distance)


def _offset(offset: int | Array | None) -> np.ndarray | None:
    """An offset on the host, where tables of distances begin."""
    return as_offset(host("offset", offset) if is_elsewhere(offset) else offset)


def as_bias(bias: object, *, on_host: bool) -> Bias | None:
    """What ``bias=`` accepts: None, a Bias, or an array of floats.

    On the host the parameters become NumPy arrays; elsewhere they stay what they are, so that gradients reach them.
    """
    if bias is None:
        return None
    if isinstance(bias, Mask):
        raise DtypeError("bias got a mask: give it to mask=")
    known = _term(bias)
    return known.on_host() if on_host else known


def _term(bias: object) -> Bias:
    return bias if isinstance(bias, Bias) else Dense(_floats("bias", bias))


def _at(offset: np.ndarray | None) -> str:
    return "" if offset is None else f", offset={brief(offset)}"


def _floats(name: str, values: object) -> Array:
    check_layout(name, values)
    known = hasattr(values, "dtype") and hasattr(values, "shape") and not uncalled(values)
    array = plain(name, values) if known else host(name, values)
    if not is_float(array):
        hint = "a boolean mask goes to mask=" if "bool" in dtype_name(array) else "convert with .astype(numpy.float32)"
        raise DtypeError(f"{name} must be floats, not {dtype_name(array)}: {hint}")
    return array
