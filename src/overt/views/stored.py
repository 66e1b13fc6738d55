"""Attention as plain arrays: what a file holds so that any cell can be computed again, exactly.

All scores but the additive one are stored as the dot product of transformed queries and keys, and the additive one as
tanh of a sum of projected ones, so that a reader needs two formulas.  The log-sum-exp is computed in float64 from the
numbers as they are stored: whatever precision they are kept in, the cells are exact for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from overt import parts, reference
from overt.attended import engine
from overt.biases import Alibi, Dense
from overt.errors import ArgumentError
from overt.grid import Cells, Shape, host
from overt.kernels.pieces import by_rows
from overt.parts import Place
from overt.problem import Problem
from overt.scores import Additive, Product, Projected, scaled_dot
from overt.views.labels import Labelled
from overt.views.pooling import bins

# A mask that is no span per query is stored bit by bit, up to this many cells.
_BITS = 1 << 28
_BLOCK = 1 << 22
# Beyond this an lse in float64 is rounded so much that weights show it.
_LARGE = 1 << 20
# Numbers of q and k beyond which they are widened some at a time, and how many at a time then.
_FEW, _ROWS = 1 << 21, 1 << 20
# Cells of a head whose log-sums nobody should wait for twice.
_LONG = 1 << 35
# Cells after which one hears how much is left.
_SOON = 1 << 31


@dataclass(frozen=True, eq=False)
class Stored:
    """One labelled attention: q (B, H, T, A) and k (B, G, S, A) in the dtype they are kept in, and what they need.

    ``additive`` is v (A,) of the additive score, None for a dot product times ``scale``.
    """

    label: Labelled
    q: np.ndarray
    k: np.ndarray
    scale: float
    additive: np.ndarray | None

    @staticmethod
    def of(label: Labelled, precision: str) -> Stored:
        """Transform q and k as the score does, and round them to ``precision``."""
        problem = label.problem
        score, q, k = problem.score, problem.q, problem.k
        if not isinstance(score, Product | Additive):
            raise ArgumentError(f"a file cannot hold the score {type(score).__name__}: use one of overt's own scores")
        wide = problem.accumulate if score.identity else np.float64

        def factors(q: np.ndarray, k: np.ndarray) -> tuple[Any, Any, float]:
            return score.factors(np, q.astype(wide, copy=False), k.astype(wide, copy=False))

        with np.errstate(invalid="ignore", over="ignore"):
            scale = float(factors(q[:0], k[:0])[2])
            # Some rows at a time, since the numbers on the way have twice the digits.
            left = by_rows(lambda x: _rounded("q", factors(x, k[:0])[0], precision), q)
            right = by_rows(lambda x: _rounded("k", factors(q[:0], x)[1], precision), k)
        v = host("v", score.v).astype(np.float64) if isinstance(score, Additive) else None
        return Stored(label, np.ascontiguousarray(left), np.ascontiguousarray(right), scale, v)

    @cached_property
    def lse(self) -> np.ndarray:
        """(B, H, T) in float64, or of long texts as it was given; −∞ where nothing is seen."""
        if not self.q.shape[-1] and self.label.problem.sinks is None:
            # Given weights are a bias that nothing rounds, and their rows may sum to less than 1.
            return host("lse", self.label.seen.lse).reshape(self.q.shape[:3]).astype(np.float64)
        given, shape = self.label.problem, self.shape
        if shape.T * shape.S > _LONG and given.score.identity and self.q.dtype == given.q.dtype:
            lse = host("lse", self.label.seen.lse)
            # Of numbers that nothing rounds it is known, as well as their dtype knows it.
            if not reference.is_large(np, lse):
                return lse.reshape(self.q.shape[:3])
        if not self._long:
            exact = self._problem(np.float64)
            return engine(exact).forward(exact)[1]
        return self._exact_lse()

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray | None]:
        """What makes a weight of a score, exp(score − maximum − rest): rest and maximum, each (B, H, T) in float64.

        Rest is the lse and there is no maximum, but where some lse is so large that no number near it is near enough:
        there they are those of the row's scores, and 0 of all other rows.
        """
        rest, maximum = self.lse.copy(), np.zeros(self.lse.shape)
        large = np.isfinite(rest) & (np.abs(rest) > _LARGE)
        if not large.any():
            return rest, None
        exact, step = self._problem(np.float64), max(1, _BLOCK // self.shape.S)
        for b, h in np.argwhere(large.any(axis=-1)):
            first, last = np.flatnonzero(large[b, h])[[0, -1]]
            for start in range(first, last + 1, step):
                rows = np.flatnonzero(large[b, h, start : min(start + step, last + 1)]) + start
                t = range(start, min(start + step, last + 1))
                steps = reference.steps(exact.part(range(b, b + 1), range(h, h + 1), t))
                scores = host("scores", next(a for a, b in pairwise(steps) if b.name == "lse").array)[
                    0, 0, rows - start
                ]
                sink = -np.inf if exact.sinks is None else float(exact.sinks[h])
                most = np.maximum(scores.max(axis=-1), sink)
                maximum[b, h, rows] = most
                with np.errstate(over="ignore"):
                    summed = np.exp(scores - most[:, None]).sum(axis=-1) + np.exp(sink - most)
                rest[b, h, rows] = np.log(summed)
        return rest, maximum

    @property
    def shape(self) -> Shape:
        """The sizes of the whole score matrix."""
        return self.label.problem.shape

    def overview(
        self, most: int, advance: Callable[[int], None] | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Largest weights (B, H, ≤ most, ≤ most), received (B, H, S) and entropy (B, H, T), in float32.

        advance: told how many more cells are done, every second or so.
        """
        # What is beyond float32 is left in float64.
        large = np.abs(self.lse, where=np.isfinite(self.lse), out=np.zeros_like(self.lse)).max() >= 1e38
        # And what is long as it is, if that will do.
        rough = self._problem(np.float64 if large else self.q.dtype if self._long else np.float32)
        dtype = rough.accumulate
        lse = self.lse.astype(dtype)
        (B, H, T), S = lse.shape, self.shape.S
        rows, columns = (bins(length, min(most, length)) for length in (T, S))
        received, entropy, pieces = np.zeros((B, H, S), dtype), np.empty((B, H, T), dtype), []
        cells = self.label.cells()
        # Some rows at a time, of so many cells together.
        starts = np.unique(np.cumsum(cells) // _SOON, return_index=True)[1]
        for start, stop in pairwise([*starts.tolist(), T]):
            t = range(start, stop)
            own = slice(t.start, t.stop)
            part, part_lse = rough.part(t=t), np.ascontiguousarray(lse[:, :, own])
            some, entropy[:, :, own] = parts.statistics(part, part_lse)
            received += some
            pieces.append(parts.pooled(part, part_lse, rows, columns, "max"))
            if advance is not None:
                advance(int(cells[own].sum()))
        picture = parts.pictured(pieces, rows, columns, "max", (B, H), dtype)
        if large:
            return picture, received, entropy
        return picture, received.astype(np.float32, copy=False), entropy.astype(np.float32, copy=False)

    def spans(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """First and past-the-last key of each query, (B or 1, H or 1, T or 1), and bits where these do not suffice."""
        shape, mask = self.shape, self.label.problem.mask
        if mask is None:
            return np.zeros((1, 1, 1), np.int32), np.full((1, 1, 1), shape.S, np.int32), None
        plan = mask.plan(shape.T, shape.S, shape.batch, shape.H)
        first, last = (np.ascontiguousarray(edge, np.int32) for edge in (plan.first, plan.last))
        if plan.rest is None:
            return first, last, None
        own = np.broadcast_shapes(plan.rest.visible(self._cells(slice(0, 1))).shape, (1, 1, 1, 1))
        B, H = own[:2]
        if B * H * shape.T * shape.S > _BITS:
            raise ArgumentError(
                f"the mask {mask!r} is no span of keys per query, and {B * H} × {shape.T} × {shape.S} bits of it are "
                "more than a file should hold: show a shorter piece"
            )
        bits = np.zeros((B, H, shape.T, -(-shape.S // 8)), np.uint8)
        step = max(1, _BLOCK // max(1, B * H * shape.S))
        for start in range(0, shape.T, step):
            rows = slice(start, min(start + step, shape.T))
            visible = np.broadcast_to(plan.rest.visible(self._cells(rows)), (B, H, rows.stop - start, shape.S))
            bits[:, :, rows] = np.packbits(visible, axis=-1, bitorder="little")
        return first, last, bits

    def bias(self) -> tuple[str, np.ndarray, np.ndarray | None] | None:
        """The bias as its kind, its numbers and, for ALiBi, the position of query 0 in each batch row.

        "alibi": slopes (H,); "distance": a table (B or 1, H, T + S − 1) of key − query from −(T − 1);
        "dense": an array of as many axes as (B, H, T, S), those of length 1 repeated.
        """
        bias, shape = self.label.problem.bias, self.shape
        if bias is None:
            return None
        if isinstance(bias, Alibi) and shape.packing is None:
            offset = np.full(shape.B, shape.S - shape.T) if bias.offset is None else shape.per_batch(bias.offset)
            return "alibi", np.asarray(bias.parameter, np.float64), offset
        if isinstance(bias, Dense):
            array = np.asarray(bias.parameter)
            array = array.reshape((1,) * (len(shape.full) - array.ndim) + array.shape)
            if prod(array.shape[:-3]) != 1:
                array = np.broadcast_to(array, (*shape.batch, *array.shape[-3:])).reshape(shape.B, *array.shape[-3:])
            return "dense", array.reshape(-1, *array.shape[-3:]), None
        view = bias.view(shape, np.dtype(np.float64))
        if view is not None:
            return "distance", np.concatenate([view[:, :, :0:-1, 0], view[:, :, 0, :]], axis=-1), None
        own = np.broadcast_shapes((1, 1, 1, 1), *(term.at(self._cells(slice(0, 1))).shape for term in bias.terms))
        if own[0] * own[1] * shape.T * shape.S > _BITS >> 6:
            raise ArgumentError(
                f"the bias {bias!r} is no table of distances, and {own[0] * own[1]} × {shape.T} × {shape.S} numbers of "
                "it are more than a file should hold: show a shorter piece"
            )
        return "dense", np.broadcast_to(bias.at(shape.cells()), (*own[:2], shape.T, shape.S)), None

    def _cells(self, rows: slice) -> Cells:
        shape = self.shape
        b, h, s = (np.arange(n) for n in (shape.B, shape.H, shape.S))
        return Cells(shape, b[:, None, None, None], h[:, None, None], np.arange(shape.T)[rows, None], s)

    @property
    def _long(self) -> bool:
        return self.q.size + self.k.size > _FEW

    def _problem(self, dtype: Any) -> Problem:
        q, k = self.q.astype(dtype, copy=False), self.k.astype(dtype, copy=False)
        score = scaled_dot(self.scale) if self.additive is None else Projected(self.additive)
        v = np.empty((*k.shape[:3], 0), dtype)
        return replace(self.label.problem, q=q, k=k, v=v, score=score, dropout=None)

    def _exact_lse(self) -> np.ndarray:
        """The log-sums, of some queries and some keys of a head at a time."""
        given, none = self._problem(self.q.dtype), np.empty((0, 0, 0, 0))
        asked = replace(given, q=none, k=none, v=none)
        G, A = self.k.shape[1], max(self.q.shape[-1], 1)
        each, keys = len(given.h) // G, max(_ROWS // A, 1)
        lse = np.empty(self.q.shape[:3])
        for b, g in np.ndindex(self.q.shape[0], G):
            heads = range(g * each, (g + 1) * each)
            for start in range(0, len(given.t), max(keys // each, 1)):
                t = given.t[start : start + max(keys // each, 1)]
                place = Place(range(b, b + 1), heads, t, given.s)
                some = parts.blind(asked, place, 0)[1].copy()
                some_keys = [given.s[s : s + keys] for s in range(0, len(given.s), keys)]
                for block in parts.meeting(asked, place, some_keys):
                    if not block.t:
                        continue
                    part = given.part(*block)
                    more = parts.forward(parts.block(asked, part.q, part.k, part.v, block))[1]
                    own = some[:, :, block.t.start - t.start : block.t.stop - t.start]
                    own[...] = np.logaddexp(own, more)
                lse[b, heads.start : heads.stop, t.start : t.stop] = some[0]
        return lse


def _rounded(name: str, x: np.ndarray, precision: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(x, precision)
    if (np.isinf(rounded) & np.isfinite(x)).any():
        raise ArgumentError(f'{name} holds numbers too large for {precision}: give precision="float32" or "float64"')
    return rounded
