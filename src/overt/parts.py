"""Attention in blocks of queries and keys, each with its place in the whole, and what joins their results.

This is what attention on more than one machine, or on more than fits into memory, consists of.  A block is a
``Problem`` that holds a part of the arrays; masks and biases know its place in the whole score matrix.  Partial results
merge by their log-sum-exp, and what is asked about weights is asked in a second pass, of blocks and that of whole rows.

Blocks are computed in the dtype of accumulation, so that rounding to half types happens once, at the end.  Their lse
is float64, since weights are computed from it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from overt import kernels
from overt.attention import merge
from overt.biases import Bias
from overt.grid import Array, Cells, Shape, widened
from overt.masks import Mask
from overt.problem import Problem, within

Pair = tuple[np.ndarray, np.ndarray]
Piece = tuple[int, int, np.ndarray]
# Cells of whole matrices of which functions are asked which blocks they hide, and how many of a block at a time.
_CELLS, _SOME = 1 << 32, 1 << 20
# Behind all keys.
_FAR = 1 << 40
# Numbers of outputs that are merged at a time.
_MERGED = 1 << 15


class Place(NamedTuple):
    """Batch rows, heads, queries and keys of a block, counted in the whole."""

    b: range
    h: range
    t: range
    s: range


def asked(q: np.ndarray, k: np.ndarray, v: np.ndarray, **options: Any) -> Problem:
    """What is asked of whole arrays, every check done, without the arrays: ``hollow`` ones will do."""
    problem = Problem.of(q, k, v, **options)
    empty = np.empty((0, 0, 0, 0), problem.q.dtype)
    return replace(problem, q=empty, k=empty, v=empty)


def hollow(x: Array) -> np.ndarray:
    """An array of the shape and dtype of another, and of no memory."""
    return np.broadcast_to(np.empty((), x.dtype), x.shape)


def block(
    asked: Problem,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    place: Place,
    *,
    mask: np.ndarray | None = None,
    biases: Sequence[np.ndarray] = (),
) -> Problem:
    """A block of the whole, from its rows of q (B, H, T, D) and keys and values (B, G, S, …).

    Sinks, which join every row once, belong to what ``blind`` says of the row.
    mask, biases: what is added to those of the whole, of just these cells, broadcastable to (B, H, T, S).
    """
    wide = np.dtype(asked.accumulate)
    q, k, v = (widened(x, wide) if x.dtype != wide else x for x in (q, k, v))
    problem = replace(asked, q=q, k=k, v=v, sinks=None, **place._asdict())
    if mask is not None:
        own = HeldMask(mask, place)
        problem = replace(problem, mask=own if problem.mask is None else problem.mask & own)
    for bias in biases:
        added = HeldBias(bias, place)
        problem = replace(problem, bias=added if problem.bias is None else problem.bias + added)
    return problem


@dataclass(frozen=True, eq=False)
class HeldMask(Mask):
    """Booleans of one block of a larger matrix, of which nothing else is known."""

    array: np.ndarray
    place: Place

    def visible(self, cells: Cells) -> np.ndarray:
        return self.array[_inside(self.array, self.place, cells)]


@dataclass(frozen=True, eq=False)
class HeldBias(Bias):
    """Numbers of one block of a larger matrix, of which nothing else is known."""

    parameter: np.ndarray
    place: Place

    def at(self, cells: Cells) -> np.ndarray:
        return self.parameter[_inside(self.parameter, self.place, cells)]

    def view(self, shape: Shape, dtype: np.dtype, t: range | None = None, s: range | None = None) -> None:
        return None

    def pull(self, gradient: np.ndarray, cells: Cells, into: np.ndarray) -> None:
        shared = tuple(axis for axis, n in enumerate(into.shape) if n == 1)
        at = _inside(into, self.place, cells)
        into[at] += gradient.sum(axis=shared, dtype=into.dtype).reshape(np.broadcast_shapes(*(i.shape for i in at)))


def _inside(array: np.ndarray, place: Place, cells: Cells) -> tuple[np.ndarray, ...]:
    axes = zip((cells.b, cells.h, cells.t, cells.s), place, array.shape, strict=True)
    return tuple(i - part.start if n != 1 else np.zeros(1, np.int64) for i, part, n in axes)


def meeting(asked: Problem, place: Place, keys: Sequence[range]) -> list[Place]:
    """Of the queries of a place and each of these ranges of keys, those that see some and those that some see.

    They are the least ranges with all of these, empty where nothing is seen, of masks that are spans of keys per query.
    Others say of each pair whether they hide it, by what they are made of; what that leaves open, such as a function,
    is worked out until a cell is seen, in whole matrices of at most 2³² cells.
    """
    mask = asked.mask
    rows = len(place.b) * len(place.h) * len(place.t)
    none = place._replace(t=place.t[:0], s=range(0))
    if mask is None or not rows:
        return [place._replace(s=s) if rows and s else none for s in keys]
    first, last, rest = mask.lowered(replace(asked, **place._asdict()).cells)
    first, last = (np.broadcast_to(edge, [len(part) for part in place[:3]]) for edge in (first, last))
    first, last = first.reshape(-1, len(place.t)), last.reshape(-1, len(place.t))
    found = []
    for s in keys:
        some = (first < last) & (first < s.stop) & (last > s.start) if s else np.zeros(first.shape, bool)
        t = np.flatnonzero(some.any(axis=0))
        if not t.size:
            found.append(none)
            continue
        seen = range(max(s.start, int(first[some].min())), min(s.stop, int(last[some].max())))
        found.append(place._replace(t=place.t[int(t[0]) : int(t[-1]) + 1], s=seen))
    return found if rest is None else [part if part.t and _sees(asked, mask, part) else none for part in found]


def _sees(asked: Problem, mask: Mask, place: Place) -> bool:
    """Whether a mask leaves any cell of a place."""
    cells = replace(asked, **place._asdict()).cells
    if mask.hides(cells):
        return False
    if prod(asked.shape.full) > _CELLS:
        return True
    # Mostly some of the first few rows see something.
    step = max(_SOME // (len(place.b) * len(place.h) * len(place.s)), 1)
    rows = (replace(cells, t=cells.t[i : i + step]) for i in range(0, len(place.t), step))
    return any(bool(np.any(mask.visible(some))) for some in rows)


def forward(problem: Problem) -> Pair:
    """Output (B, H, T, E) of a block, in the dtype of accumulation, and its lse (B, H, T), float64."""
    output, value, rest = kernels.forward_in_full(problem)
    lse = value.astype(np.float64)
    return output, np.where(np.isfinite(lse), lse + rest, lse)


def blind(asked: Problem, place: Place, E: int) -> Pair:
    """The same of queries before they see any key: zeros, and of the lse what the sinks are."""
    full = len(place.b), len(place.h), len(place.t)
    sinks = np.array(-np.inf) if asked.sinks is None else asked.sinks[within(place.h, asked.h)][:, None]
    return np.zeros((*full, E), asked.accumulate), np.broadcast_to(sinks, full).astype(np.float64)


def joined(parts: Sequence[Pair]) -> Pair:
    """Output and lse over the keys of all these parts."""
    return parts[0] if len(parts) == 1 else merge(parts)


class Sum:
    """Output (B, H, T, E) and lse (B, H, T), float64, of so many queries of these heads over all keys that were added.

    It is ``merge`` of one part after another, in place: rounded once, by whoever reads it.
    """

    def __init__(self, asked: Problem, b: range, h: range, T: int, E: int) -> None:
        output, self.lse = blind(asked, Place(b, h, range(T), range(0)), E)
        self.output = output.astype(np.float64)

    def add(self, rows: slice, part: Pair) -> None:
        """Keys that only these rows see."""
        # As many at a time as stay near the processor.
        step = max(_MERGED // max(self.output[:, :, :1].size, 1), 1)
        for start in range(rows.start, rows.stop, step):
            some = slice(start, min(start + step, rows.stop))
            own = slice(some.start - rows.start, some.stop - rows.start)
            self._add(self.output[:, :, some], self.lse[:, :, some], part[0][:, :, own], part[1][:, :, own])

    @staticmethod
    def _add(output: np.ndarray, lse: np.ndarray, y: np.ndarray, more: np.ndarray) -> None:
        with np.errstate(invalid="ignore"):
            both = np.logaddexp(lse, more)
            top = np.where(both == -np.inf, 0, both)
            before, now = np.exp(lse - top)[..., None], np.exp(more - top)[..., None]
            # What has no weight says nothing, whatever it is.
            if (before == 0).any():
                output[...] = np.where(before == 0, 0, output)
            if (now == 0).any():
                y = np.where(now == 0, 0, y)
            output *= before
            output += y * now
        lse[...] = both


def gradient(
    problem: Problem,
    output: np.ndarray,
    lse: np.ndarray,
    dy: np.ndarray,
    dlse: np.ndarray | None,
    *,
    constant: bool = False,
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """What a block adds to the gradients of q, k and v (B, H, T, …), and by name to those of parameters.

    Output, lse and the gradients of these are of the block's queries, over all keys.  The terms of the bias are named
    "bias 0", …, and the parameters of the score "score weight", …; a ``constant`` bias gets none.
    """
    found = kernels.gradient(problem, output, lse, dy, dlse, constant=constant)
    terms = found.bias if isinstance(found.bias, tuple) else () if found.bias is None else (found.bias,)
    named = {f"bias {i}": x for i, x in enumerate(terms)} | {f"score {name}": x for name, x in found.score.items()}
    return [found.q, found.k, found.v], named


def gradient_of_sinks(
    sinks: np.ndarray, output: np.ndarray, lse: np.ndarray, dy: np.ndarray, dlse: np.ndarray | None
) -> np.ndarray:
    """What some queries add to the gradient of the sinks (H,) of their heads."""
    # A sink takes exp(sink − lse) of a row, which pulls on it as the weights of keys do; one of −∞ takes nothing.
    shut = (sinks == -np.inf)[:, None]
    taken = np.where(shut, 0, np.exp(np.where(shut, 0, sinks[:, None]) - lse))
    pulled = -(output * dy).sum(axis=-1) + (0 if dlse is None else dlse)
    return (taken * pulled).sum(axis=(0, 2))


def statistics(problem: Problem, lse: np.ndarray) -> Pair:
    """What a block adds to received (B, H, S) and entropy (B, H, T), of the lse of whole rows."""
    return kernels.statistics(problem, lse)


def weights(problem: Problem, lse: np.ndarray) -> np.ndarray:
    """The weights (B, H, T, S) of a block."""
    return kernels.weights(problem, lse)


def top(problem: Problem, lse: np.ndarray, count: int) -> Pair:
    """Indices in the whole, and weights, of the at most so many heaviest keys of a block."""
    indices, weights = kernels.top(problem, lse, min(count, len(problem.s)))
    return indices + problem.s.start, weights


def heaviest(parts: Sequence[Pair], count: int) -> Pair:
    """At most so many of all these, the heaviest; ties to the lower index."""
    indices, weights = (np.concatenate([part[i] for part in parts], axis=-1) for i in (0, 1))
    order = np.lexsort((indices, -weights), axis=-1)[..., :count]
    return np.take_along_axis(indices, order, -1), np.take_along_axis(weights, order, -1)


def filled(part: Pair, count: int) -> Pair:
    """Exactly so many: behind the keys that have weight the first of all others, whose weight is 0."""
    lacking = [(0, 0)] * (part[0].ndim - 1) + [(0, count - part[0].shape[-1])]
    indices, weights = (np.pad(x, lacking) for x in part)
    none = weights == 0
    if none.any():
        known = np.sort(np.where(none, _FAR, indices), axis=-1)
        # Number n of those that are missing has as many known ones before it as are at most n after those before them.
        n = np.arange(count)
        missing = n + sum(known[..., m : m + 1] - m <= n for m in range(count))
        rank = np.maximum(np.cumsum(none, axis=-1) - 1, 0)
        indices = np.where(none, np.take_along_axis(missing, rank, -1), indices)
    return indices, weights


def pooled(problem: Problem, lse: np.ndarray, rows: np.ndarray, columns: np.ndarray, pool: str) -> Piece:
    """What a block adds to a picture of bins (R, 2) and (C, 2): where, and the largest weights or their sums."""
    first, last, own = [], [], []
    for bins, part in ((rows, problem.t), (columns, problem.s)):
        inside = np.flatnonzero((bins[:, 0] < part.stop) & (bins[:, 1] > part.start))
        first.append(int(inside[0]))
        last.append(int(inside[-1]) + 1)
        own.append(np.clip(bins[first[-1] : last[-1]], part.start, part.stop) - part.start)
    picture = kernels.pooled(problem, lse, own[0], own[1], pool)
    if pool == "mean":
        picture = picture * (np.diff(own[0]) * np.diff(own[1])[:, 0])
    return first[0], first[1], picture


def pictured(
    pieces: Sequence[Piece], rows: np.ndarray, columns: np.ndarray, pool: str, heads: tuple[int, int], dtype: Any
) -> np.ndarray:
    """The picture (B, H, R, C) of all pieces; what no block shows is 0."""
    picture = np.zeros((*heads, len(rows), len(columns)), dtype)
    for r, c, piece in pieces:
        there = picture[:, :, r : r + piece.shape[2], c : c + piece.shape[3]]
        there[...] = np.maximum(there, piece) if pool == "max" else there + piece
    return picture if pool == "max" else (picture / (np.diff(rows) * np.diff(columns)[:, 0])).astype(dtype)
