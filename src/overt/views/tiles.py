"""Cells, pictures and statistics of a view, on demand: what the notebook's page asks Python for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from overt import reference
from overt.attended import engine
from overt.errors import ArgumentError
from overt.grid import host, whole
from overt.problem import Problem
from overt.views.labels import Labelled
from overt.views.pooling import bins, spanned
from overt.views.subject import Subject

MASKED = -1
# Cells that are sent at once.
_SENT = 1 << 24
_BINS = 4096
# Queries and keys of a tile that pairs are taken from.
_SIDE = 64


class Tiles:
    """Answers messages of the page, which are dicts of JSON, with arrays.

    Every message has ``what``, ``part``, ``row``, ``heads``, ``t`` and ``s``: the queries t[0] ≤ t < t[1] and the keys
    s[0] ≤ s < s[1] of some heads of a row of the batch.  Masked cells are −1.

    "cells": (T, S) weights, with ``how`` "mean" or "max" for more heads than one.
    "picture": (rows, columns) largest weights of all these heads, pooled.
    "scan": the same of one head, where ``t`` is a slice of all queries: the bins (rows, columns) of the whole matrix as
    far as the slice fills them, the attention (S,) that it gives, the entropy (T,) of its queries, how many of them may
    look at each key (S,) and at how many keys each may look (T,).
    "pairs": the weight (T,) of each query on one key of its own, of ``keys`` (T,), −1 where that is −1.
    "score": the score that the softmax takes and the log-sum-exp, of the first cell.
    """

    def __init__(self, view: Subject) -> None:
        self._view = view
        self._lse = cache(_lse)
        self._spans = cache(Labelled.spans)

    def answer(self, message: object) -> list[np.ndarray]:
        """The arrays that a message asks for.  Raises ArgumentError for a message that makes no sense."""
        kinds: dict[str, Callable[..., list[np.ndarray]]] = {
            "cells": self._cells,
            "picture": self._picture,
            "scan": self._scan,
            "pairs": self._pairs,
            "score": self._score,
        }
        what = message.get("what") if isinstance(message, Mapping) else None
        if not isinstance(message, Mapping) or not isinstance(what, str) or what not in kinds:
            raise ArgumentError(f"a message asks for one of {', '.join(kinds)}, not {message!r:.80}")
        parts = self._view.parts
        label = parts[_index(message, "part", len(parts))]
        shape = label.problem.shape
        b = _index(message, "row", shape.B)
        heads = message.get("heads")
        if not isinstance(heads, list) or not heads:
            raise ArgumentError(f"heads must be a list of heads, not {heads!r:.80}")
        heads = [_index({"head": h}, "head", shape.H) for h in heads]
        t, s = _range(message, "t", shape.T), _range(message, "s", shape.S)
        return kinds[what](label, b, heads, t, s, message)

    def _cells(
        self, label: Labelled, b: int, heads: list[int], t: range, s: range, message: Mapping[str, Any]
    ) -> list[np.ndarray]:
        if len(t) * len(s) > _SENT:
            raise ArgumentError(f"{len(t)} × {len(s)} cells are too many to be sent at once: ask for a picture")
        how = message.get("how", "mean")
        if how not in ("mean", "max", "one"):
            raise ArgumentError(f'how must be "mean" or "max", not {how!r:.80}')
        found = np.zeros((len(t), len(s)), label.problem.accumulate)
        seen = np.zeros(found.shape, bool)
        for h in heads:
            part, lse = self._part(label, b, h, t, s)
            weights = host("weights", engine(label.problem).weights(part, lse))[0, 0]
            weights = weights[:, s.start - part.s.start : s.stop - part.s.start]
            found = np.maximum(found, weights) if how == "max" else found + weights
            window = part.part(s=s)
            visible = True if part.mask is None else part.mask.visible(window.cells)
            seen |= np.broadcast_to(visible, (1, 1, *seen.shape))[0, 0]
        if how != "max":
            found /= len(heads)
        return [np.where(seen, found, found.dtype.type(MASKED))]

    def _picture(
        self, label: Labelled, b: int, heads: list[int], t: range, s: range, message: Mapping[str, Any]
    ) -> list[np.ndarray]:
        rows, columns = (_count(message, name, len(axis)) for name, axis in (("rows", t), ("columns", s)))
        found = np.full((rows, columns), MASKED, np.float32)
        for h in heads:
            found = np.maximum(found, self._pooled(label, b, h, t, s, bins(len(t), rows), bins(len(s), columns)))
        return [found]

    def _scan(
        self, label: Labelled, b: int, heads: list[int], t: range, s: range, message: Mapping[str, Any]
    ) -> list[np.ndarray]:
        shape = label.problem.shape
        rows, columns = (_count(message, name, size) for name, size in (("rows", shape.T), ("columns", shape.S)))
        s = range(shape.S)
        part, lse = self._part(label, b, heads[0], t, s)
        received, entropy = (host("statistics", x)[0, 0] for x in engine(label.problem).statistics(part, lse))
        rows_of = np.clip(bins(shape.T, rows) - t.start, 0, len(t))
        filled = np.flatnonzero(rows_of[:, 0] < rows_of[:, 1])
        largest = np.full((rows, columns), MASKED, np.float32)
        largest[filled] = self._pooled(label, b, heads[0], t, s, rows_of[filled], bins(shape.S, columns))
        return [largest, received, entropy, *self._counts(label, b, heads[0], t)]

    def _counts(self, label: Labelled, b: int, h: int, t: range) -> list[np.ndarray]:
        """How many of some queries may look at each key (S,), and at how many keys each of them may look."""
        shape, mask = label.problem.shape, label.problem.mask
        plan = None if mask is None else mask.plan(shape.T, shape.S, shape.batch, shape.H)
        seers, seen = np.zeros(shape.S, np.int32), np.zeros(len(t), np.int32)
        if plan is not None and plan.rest is not None:
            for i, query in enumerate(t):
                visible = label.visible(b, h, query)[0]
                seers += visible
                seen[i] = visible.sum()
            return [seers, seen]
        first, last = (
            np.broadcast_to(edge, (shape.B, shape.H, shape.T))[b, h, t.start : t.stop] for edge in self._spans(label)
        )
        seen = np.maximum(last - first, 0).astype(np.int32)
        edges = np.zeros(shape.S + 1, np.int32)
        np.add.at(edges, first[seen > 0], 1)
        np.add.at(edges, last[seen > 0], -1)
        return [np.cumsum(edges[:-1], dtype=np.int32), seen]

    def _pairs(
        self, label: Labelled, b: int, heads: list[int], t: range, s: range, message: Mapping[str, Any]
    ) -> list[np.ndarray]:
        keys, S = message.get("keys"), label.problem.shape.S
        if not isinstance(keys, list) or len(keys) != len(t):
            raise ArgumentError(f"keys must be a list of a key for each of {len(t)} queries, not {keys!r:.80}")
        wrong = next((key for key in keys if type(key) is not int or not -1 <= key < S), None)
        if wrong is not None:
            raise ArgumentError(f"there is no key {wrong!r:.80}: give −1…{S - 1}")
        chosen = np.array(keys, np.int64)
        found = np.full(len(t), MASKED, label.problem.accumulate)
        # Pairs near each other come from one tile, so that no more is computed than the square of its side.
        order = np.lexsort((np.arange(len(t)) // _SIDE, chosen // _SIDE))
        order = order[chosen[order] >= 0]
        tile = chosen[order] // _SIDE * -(-len(t) // _SIDE) + order // _SIDE
        for rows in np.split(order, np.flatnonzero(np.diff(tile)) + 1):
            if not len(rows):
                continue
            queries = range(t.start + int(rows.min()), t.start + int(rows.max()) + 1)
            window = range(int(chosen[rows].min()), int(chosen[rows].max()) + 1)
            cells = self._cells(label, b, heads[:1], queries, window, {})[0]
            found[rows] = cells[rows + t.start - queries.start, chosen[rows] - window.start]
        return [found]

    def _score(
        self, label: Labelled, b: int, heads: list[int], t: range, s: range, message: Mapping[str, Any]
    ) -> list[np.ndarray]:
        part, lse = self._part(label, b, heads[0], t[:1], s[:1])
        steps = reference.steps(part)
        last = next(i for i, step in enumerate(steps) if step.name == "lse") - 1
        return [np.array([host("scores", steps[last].array).item(), lse.item()], np.float64)]

    def _pooled(
        self, label: Labelled, b: int, h: int, t: range, s: range, rows: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """(rows, columns) largest weights of bins of a window, MASKED where no query of a bin may see a key of it."""
        part, lse = self._part(label, b, h, t, s)
        bins = columns + (s.start - part.s.start)
        found = host("picture", engine(label.problem).pooled(part, lse, rows, bins, "max"))[0, 0]
        shape = label.problem.shape
        first, last = (
            np.broadcast_to(edge, (shape.B, shape.H, shape.T))[b, h, t.start : t.stop] - s.start
            for edge in self._spans(label)
        )
        return np.where(spanned(first, last, rows, columns), found, np.float32(MASKED))

    def _part(self, label: Labelled, b: int, h: int, t: range, s: range) -> tuple[Problem, np.ndarray]:
        """The problem of these rows of one head and of at least these keys, and the log-sums of the rows."""
        lse = self._lse(label)[b : b + 1, h : h + 1, t.start : t.stop].copy()
        # Rows of large sums are summed up anew, and so want all of their keys.
        if reference.is_large(np, lse):
            s = range(label.problem.shape.S)
        return label.problem.part(range(b, b + 1), range(h, h + 1), t, s), lse


def _lse(label: Labelled) -> np.ndarray:
    shape = label.problem.shape
    return host("lse", label.seen.lse).reshape(shape.B, shape.H, shape.T)


def _index(message: Mapping[str, Any], name: str, count: int) -> int:
    if not 0 <= whole(name, message.get(name)) < count:
        raise ArgumentError(f"there is no {name} {message[name]}: give 0…{count - 1}")
    return int(message[name])


def _count(message: Mapping[str, Any], name: str, length: int) -> int:
    if not 1 <= whole(name, message.get(name)) <= min(length, _BINS):
        raise ArgumentError(f"{name} is {message[name]}: give 1…{min(length, _BINS)}")
    return int(message[name])


def _range(message: Mapping[str, Any], name: str, length: int) -> range:
    edges = message.get(name)
    if not isinstance(edges, list) or len(edges) != 2:
        raise ArgumentError(f"{name} must be a list of two positions, not {edges!r:.80}")
    start, end = (whole(name, edge) for edge in edges)
    if not 0 <= start < end <= length:
        raise ArgumentError(f"{name} goes from {start} to {end}: give 0 ≤ start < end ≤ {length}")
    return range(start, end)
