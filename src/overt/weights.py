"""The matrix of attention weights that is never made whole unless somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any, Generic

import numpy as np

from overt.grid import ArrayT, Cells, dtype_name, host
from overt.problem import Problem

# Cells picked one by one are computed this many at a time.
_CELLS = 1 << 14


class Weights(Generic[ArrayT]):
    """Weights (…, H, T, S) before dropout, float32 (float64 for float64 inputs), computed when indexed.

    Indexing follows NumPy.  Integers and slices compute the tile that they name and nothing else; index arrays compute
    the cells that they pick, one by one.  ``numpy.asarray(weights)`` makes the whole matrix.
    """

    def __init__(self, problem: Problem, lse: np.ndarray, tile: Callable[[Problem, np.ndarray], np.ndarray]) -> None:
        self._problem, self._lse, self._tile = problem, lse, tile

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, H, T, S), or (T, S) where the inputs had no heads."""
        return *self._problem.outer, self._problem.shape.T, self._problem.shape.S

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype:
        """float32, or float64 for float64 inputs."""
        return np.dtype("float64" if dtype_name(self._problem.q) == "float64" else "float32")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Weights(shape={self.shape}, dtype={self.dtype}): index it to compute cells"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the weights are computed on demand and cannot be viewed without a copy")
        return self[...].astype(dtype or self.dtype, copy=False)

    def __getitem__(self, index: Any) -> ArrayT:
        parts = index if isinstance(index, tuple) else (index,)
        if all(part is None or part is Ellipsis or _is_basic(part) for part in parts):
            return self._basic(parts)
        return self._picked(index)

    def _basic(self, parts: tuple[Any, ...]) -> Any:
        """A tile named by integers and slices."""
        # NumPy itself says what the index means, on an array that has the shape and no memory.
        hollow = np.broadcast_to(np.empty((), np.bool_), self.shape)
        result_shape = hollow[parts].shape
        named = sum(part is not None and part is not Ellipsis for part in parts)
        at = next((i for i, part in enumerate(parts) if part is Ellipsis), len(parts))
        full = (*parts[:at], *[slice(None)] * (self.ndim - named), *parts[at + 1 :])
        axes = [part for part in full if part is not None]
        ranges = [_named(part, n) for part, n in zip(axes, self.shape, strict=True)]
        flips = tuple(slice(None, None, -1 if r.step < 0 else 1) for r in ranges)
        ranges = [r[::-1] if r.step < 0 else r for r in ranges]
        return self._tiles(ranges)[flips].reshape(result_shape)[()]

    def _tiles(self, ranges: list[range]) -> np.ndarray:
        """The product of ranges with positive steps, one head at a time."""
        *outer, t, s = ranges
        result = np.empty(tuple(map(len, ranges)), self.dtype)
        sizes = self.shape[:-2]
        for place in product(*(range(len(r)) for r in outer)):
            flat = int(np.ravel_multi_index([r[i] for r, i in zip(outer, place, strict=True)], sizes)) if sizes else 0
            b, h = divmod(flat, self._problem.shape.H)
            part = self._problem.part(range(b, b + 1), range(h, h + 1), t, s)
            lse = self._lse[b : b + 1, h : h + 1, t.start : t.start + len(t) * t.step : t.step]
            lse = lse.copy() if self._problem.xp is np else lse
            result[place] = host("weights", self._tile(part, lse))[0, 0]
        return result

    def _picked(self, index: Any) -> Any:
        """Cells named by index arrays."""
        if self._problem.xp is not np:
            return self[...][index]
        axes = np.ogrid[tuple(slice(n) for n in self.shape)]
        chosen = [np.broadcast_to(axis, self.shape)[index] for axis in axes]
        flat = [np.asarray(axis).reshape(-1) for axis in chosen]
        result = np.empty(flat[0].size, self.dtype)
        for start in range(0, result.size, _CELLS):
            *outer, t, s = (axis[start : start + _CELLS] for axis in flat)
            heads = np.ravel_multi_index(outer, self.shape[:-2]) if outer else np.zeros_like(t)
            b, h = np.divmod(heads, self._problem.shape.H)
            result[start : start + _CELLS] = self._cells(b, h, t, s)
        return result.reshape(np.shape(chosen[0]))[()]

    def _cells(self, b: np.ndarray, h: np.ndarray, t: np.ndarray, s: np.ndarray) -> np.ndarray:
        problem, wide = self._problem, self.dtype
        per_key = problem.shape.H // max(problem.k.shape[1], 1)
        cells = Cells(problem.shape, b, h, t, s)
        with np.errstate(invalid="ignore", over="ignore"):
            scores = problem.score.pairs(
                np, problem.q[b, h, t].astype(wide), problem.k[b, h // per_key, s].astype(wide)
            )
            if problem.softcap is not None:
                scores = problem.softcap * np.tanh(scores / problem.softcap)
            if problem.bias is not None:
                scores = scores + problem.bias.at(cells)
            visible = scores > -np.inf if problem.mask is None else problem.mask.visible(cells) & (scores != -np.inf)
            lse = self._lse[b, h, t]
            return np.where(visible, np.exp(scores - np.where(lse == -np.inf, 0, lse)), 0)


def _is_basic(part: Any) -> bool:
    return isinstance(part, slice | int | np.integer) and not isinstance(part, bool)


def _named(part: slice | int, n: int) -> range:
    if isinstance(part, slice):
        return range(n)[part]
    place = range(n)[part]
    return range(place, place + 1)
