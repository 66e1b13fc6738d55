"""Which cells of the (…, H, T, S) score matrix are meant: what masks, biases and dropout are asked about."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from overt.errors import ArgumentError, DtypeError, ShapeError

Array = Any
"""An array of any library that follows the array API standard."""


@dataclass(frozen=True, eq=False)
class Shape:
    """Sizes of a whole score matrix: leading axes ``batch``, query heads H, queries T, keys S."""

    batch: tuple[int, ...]
    H: int
    T: int
    S: int

    @property
    def B(self) -> int:
        """Number of batch rows, all leading axes together."""
        return prod(self.batch)

    def per_batch(self, values: np.ndarray) -> np.ndarray:
        """Broadcast values (…) to the leading axes and flatten them: (B,)."""
        return np.broadcast_to(values, self.batch).reshape(self.B)

    def cells(self) -> Cells:
        """All cells, as index arrays that broadcast to (B, H, T, S)."""
        b, h, t, s = (np.arange(n) for n in (self.B, self.H, self.T, self.S))
        return Cells(self, b[:, None, None, None], h[:, None, None], t[:, None], s)


@dataclass(frozen=True, eq=False)
class Cells:
    """Integer index arrays that broadcast together; ``b`` counts batch rows in C order over all leading axes."""

    shape: Shape
    b: np.ndarray
    h: np.ndarray
    t: np.ndarray
    s: np.ndarray

    def position(self, offset: np.ndarray | None) -> np.ndarray:
        """Key position at which each query stands: t + offset, by default aligned to the end (t + S − T)."""
        if offset is None:
            return self.t + (self.shape.S - self.shape.T)
        return self.t + self.shape.per_batch(offset)[self.b]

    def of(self, array: np.ndarray) -> np.ndarray:
        """Values of an array that broadcasts to (…, H, T, S), at these cells."""
        axes = (*np.unravel_index(self.b, self.shape.batch or (1,)), self.h, self.t, self.s)
        axes = axes[len(axes) - array.ndim :] if array.ndim else ()
        return array[tuple(i if n > 1 else np.zeros_like(i) for i, n in zip(axes, array.shape, strict=True))]


def integers(name: str, values: Array) -> np.ndarray:
    """Values that must be whole numbers, as a host array of int64."""
    array = host(values)
    if array.dtype.kind not in "iu":
        raise DtypeError(f"{name} must be integers, not {array.dtype}: convert them with .astype(int)")
    return array.astype(np.int64, copy=False)


def host(values: Array) -> np.ndarray:
    """A small array of any library, on the host."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def whole(name: str, value: Any) -> int:
    """A count: one whole number, at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentError(f"{name} must be a whole number, not {value!r}")
    if value < 0:
        raise ArgumentError(f"{name} must be at least 0, not {value}")
    return int(value)


def check_leading(name: str, got: tuple[int, ...], batch: tuple[int, ...]) -> None:
    """Raise unless ``got`` broadcasts to the leading axes."""
    try:
        if np.broadcast_shapes(got, batch) == batch:
            return
    except ValueError:
        pass
    hint = "one per batch row" if batch else "a single one, or give the inputs a batch axis: q[None]"
    raise ShapeError(f"{name} have leading shape {got}, but the inputs have batch axes {batch}: give {hint}")
