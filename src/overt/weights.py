"""The matrix of attention weights that is never made whole unless somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any, Generic

import numpy as np

from overt.errors import ArgumentError
from overt.grid import Array, ArrayT, Cells, dtype_name, host, plain, widened
from overt.problem import Problem
from overt.reference import LARGE, is_large

# Cells picked one by one are computed this many at a time.
_CELLS = 1 << 14
# Whole rows that are computed for some of their keys are worked on so many cells at a time.
_WINDOW = 1 << 20
# Cells of all heads that are computed in one call: beyond, each head by itself takes less memory and no longer.
_TOGETHER = 1 << 16
# Room for an lse that some other kernel has rounded coarsely.
_MOST = 1.05


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
    def dtype(self) -> Any:
        """float32, or float64 for float64 inputs."""
        return self._wide

    @property
    def _wide(self) -> np.dtype:
        return np.dtype("float64" if dtype_name(self._problem.q) == "float64" else "float32")

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Weights(shape={self.shape}, dtype={self.dtype}): index it to compute cells"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("the weights are computed on demand and cannot be viewed without a copy")
        return host("weights", self[...]).astype(dtype or self._wide, copy=False)

    def __getitem__(self, index: Any) -> ArrayT:
        parts = index if isinstance(index, tuple) else (index,)
        basic = all(part is None or part is Ellipsis or _is_basic(part) for part in parts)
        return self._problem.handed(self._basic(parts) if basic else self._picked(index))

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
        backwards = tuple(axis for axis, r in enumerate(ranges) if r.step < 0)
        tiles = self._tiles([r[::-1] if r.step < 0 else r for r in ranges])
        if backwards:
            # Not every library knows negative steps.
            tiles = (np if isinstance(tiles, np.ndarray) else self._problem.xp).flip(tiles, axis=backwards)
        return tiles.reshape(result_shape)[()]

    def _tiles(self, ranges: list[range]) -> np.ndarray:
        """The product of ranges with positive steps: few cells of all heads at once, others one head at a time."""
        *outer, t, s = ranges
        shape = tuple(map(len, ranges))
        problem = self._problem
        if shape[:-2] == self.shape[:-2] and 0 < prod(shape) <= _TOGETHER:
            lse = self._lse[:, :, t.start : t.start + len(t) * t.step : t.step]
            if len(s) == problem.shape.S or not is_large(problem.xp, lse):
                return self._at_once(problem.part(t=t, s=s), lse).reshape(shape).astype(self._wide, copy=False)
        result = np.empty(shape, self._wide)
        for place in product(*(range(len(r)) for r in outer)):
            result[place] = self._tile_of([r[i] for r, i in zip(outer, place, strict=True)], t, s)
        return result

    def _tile_of(self, outer: list[int], t: range, s: range) -> np.ndarray:
        """The weights (T, S) of some rows and keys of one head."""
        part, lse = self._part(outer, t, s)
        S = self._problem.shape.S
        if is_large(self._problem.xp, lse) and len(s) < S:
            # Such rows are summed up anew, and so want all of their keys: some rows at a time.
            step = max(_WINDOW // S, 1)
            parts = (self._tile_of(outer, t[i : i + step], range(S)) for i in range(0, len(t), step))
            return np.concatenate([whole[:, s.start : s.stop : s.step] for whole in parts])
        return self._at_once(part, lse)[0, 0]

    def _at_once(self, part: Problem, lse: Array) -> np.ndarray:
        """All weights (B, H, T, S) of a part."""
        lse = lse.copy() if part.xp is np else lse
        return sound(host("weights", self._tile(part, lse)))

    def _part(self, outer: list[int], t: range, s: range) -> tuple[Problem, Array]:
        """The problem of some rows and keys of one head, and their lse."""
        sizes = self.shape[:-2]
        flat = int(np.ravel_multi_index(outer, sizes)) if sizes else 0
        b, h = divmod(flat, self._problem.shape.H)
        part = self._problem.part(range(b, b + 1), range(h, h + 1), t, s)
        return part, self._lse[b : b + 1, h : h + 1, t.start : t.start + len(t) * t.step : t.step]

    def _picked(self, index: Any) -> Any:
        """Cells named by index arrays."""
        for part in index if isinstance(index, tuple) else (index,):
            plain("an index", part)
        if self._problem.xp is not np:
            return self[...][index]
        shape, parts = self._chosen(index)
        result = [self._cells(cells) for cells in parts]
        return np.concatenate(result, dtype=self._wide, casting="same_kind").reshape(shape)[()]

    def _chosen(self, index: Any) -> tuple[tuple[int, ...], Iterator[Cells]]:
        """Shape of what an index picks, and its cells, some at a time."""
        axes = np.ogrid[tuple(slice(n) for n in self.shape)]
        chosen = [np.broadcast_to(axis, self.shape)[index] for axis in axes]
        flat = [np.asarray(axis).reshape(-1) for axis in chosen]
        return np.shape(chosen[0]), self._some(flat)

    def _some(self, flat: list[np.ndarray]) -> Iterator[Cells]:
        for start in range(0, max(flat[0].size, 1), _CELLS):
            *outer, t, s = (axis[start : start + _CELLS] for axis in flat)
            heads = np.ravel_multi_index(outer, self.shape[:-2]) if outer else np.zeros_like(t)
            yield Cells(self._problem.shape, *np.divmod(heads, self._problem.shape.H), t, s)

    def _cells(self, cells: Cells) -> np.ndarray:
        problem, wide = self._problem, self._wide
        per_key = problem.shape.H // max(problem.k.shape[1], 1)
        b, h, t, s = cells.b, cells.h, cells.t, cells.s
        with np.errstate(invalid="ignore", over="ignore"):
            q, k = widened(problem.q[b, h, t], wide), widened(problem.k[b, h // per_key, s], wide)
            # As in the kernels, subnormal numbers count as 0.
            q, k = (np.where(np.abs(x) < np.finfo(wide).tiny, 0, x) for x in (q, k))
            scores = problem.score.pairs(np, q, k)
            if problem.softcap is not None:
                scores = problem.softcap * np.tanh(scores / problem.softcap)
            for term in () if problem.bias is None else problem.bias.terms:
                scores = scores + term.at(cells)
            visible = scores > -np.inf if problem.mask is None else problem.mask.visible(cells) & (scores != -np.inf)
            lse = self._lse[b, h, t]
            found = np.where(visible, np.exp(scores - np.where(lse == -np.inf, 0, lse)), 0)
        self._take_whole_rows(found, cells, np.isfinite(lse) & (np.abs(lse) > LARGE))
        return sound(found)

    def _take_whole_rows(self, found: np.ndarray, cells: Cells, large: np.ndarray) -> None:
        """Cells of rows whose lse says too little, from the row."""
        heads, t, s = (
            np.broadcast_to(x, found.shape)[large]
            for x in (cells.b * self._problem.shape.H + cells.h, cells.t, cells.s)
        )
        rows, row = np.unique(np.stack([heads, t]), axis=1, return_inverse=True)
        weights = np.empty(s.shape, found.dtype)
        for i, (head, query) in enumerate(rows.T):
            of_row = row.reshape(-1) == i
            outer = [int(x) for x in np.unravel_index(head, self.shape[:-2])] if self.shape[:-2] else []
            weights[of_row] = self._tile_of(outer, range(query, query + 1), range(self._problem.shape.S))[0, s[of_row]]
        found[large] = weights


def sound(weights: np.ndarray) -> np.ndarray:
    """Weights as they should be, none beyond 1.  Others come of inputs that have changed, or of a wrong lse."""
    if weights.size and weights.max() > _MOST:
        raise ArgumentError(
            f"weights come out at {weights.max():.3g}, beyond 1: q, k, the mask or the bias have changed since "
            "attention was computed, or the lse given with it belongs to other scores; copy what changes"
        )
    return weights


def _is_basic(part: Any) -> bool:
    return isinstance(part, slice | int | np.integer) and not isinstance(part, bool)


def _named(part: slice | int, n: int) -> range:
    if isinstance(part, slice):
        return range(n)[part]
    place = range(n)[part]
    return range(place, place + 1)
