"""The open result of attention of Dask arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import product
from typing import Any, Literal

import dask.array as da
import numpy as np

from overt import parts
from overt.attended import bins
from overt.dask.chunks import Chunks, Row, Sizes, place_of, places
from overt.dask.layer import Key, Layer, block
from overt.errors import ArgumentError
from overt.grid import shown, whole
from overt.parts import Pair
from overt.problem import Problem
from overt.reference import Gradient


class Attended:
    """Attention of Dask arrays; everything that it gives is a Dask array, not yet computed.

    Statistics and gradients are a second pass over the pairs of chunks, by the lse of whole rows: computed together, by
    ``dask.compute(seen.output, seen.received(), …)``, they share what they have in common.
    """

    def __init__(self, chunks: Chunks) -> None:
        self._chunks = chunks

    def __repr__(self) -> str:
        pairs = sum(len(self._chunks.pairs(row)) for row in self._chunks.rows())
        return f"Attended({self._chunks.asked!r}, {pairs} of {len(self._chunks)} pairs of chunks)"

    @cached_property
    def _found(self) -> Layer:
        """The key of output and lse of each chunk of queries, merged."""
        chunks = self._chunks
        layer = Layer(chunks, "attend")
        for row in chunks.rows():
            keys = [layer.put("pair", (*row, j), block, parts.forward, *chunks.task(row, j)) for j in chunks.pairs(row)]
            if not keys or chunks.asked.sinks is not None:
                place = places(chunks.place(*row, 0))
                keys.append(layer.put("blind", row, _blind, chunks.asked_key, place, chunks.E))
            layer.tree("merged", row, keys, parts.joined)
        return layer

    @cached_property
    def _statistics(self) -> Layer:
        """The key of what each pair of chunks adds to received and entropy."""
        return self._second("statistics", parts.statistics)

    def _second(self, name: str, function: Callable[..., Any], *more: Any) -> Layer:
        """What a function finds of each pair of chunks, by the lse of its rows."""
        layer = Layer(self._chunks, name, self._found, *more)
        for row, j, _ in self._each(layer):
            found = self._found.key("merged", row)
            layer.put("pair", (*row, j), block, _of_lse, *self._chunks.task(row, j), function, found, *more)
        return layer

    def _each(self, layer: Layer) -> Iterator[tuple[Row, int, Key]]:
        """Every pair of chunks, and the key that a layer has for it."""
        for row in self._chunks.rows():
            for j in self._chunks.pairs(row):
                yield row, j, layer.key("pair", (*row, j))

    def _rows(self, kind: str, before: Layer, name: str, item: int, more: Sizes, dtype: np.dtype) -> da.Array:
        """The array of what tasks have found as this item for each chunk of queries."""
        chunks = self._chunks
        layer = Layer(chunks, kind, before)
        for row in chunks.rows():
            layer.put("", (*row, *(0 for _ in more)), layer.item, before.key(name, row), item, dtype)
        return chunks.outward(layer.array((*chunks.sizes[:3], *more), dtype))

    @property
    def output(self) -> da.Array:
        """(…, H, T, E) in the dtype of q."""
        return self._rows("output", self._found, "merged", 0, ((self._chunks.E,),), self._chunks.dtype)

    @property
    def lse(self) -> da.Array:
        """(…, H, T) natural log-sum-exp of the masked scores, sinks included; −∞ where nothing is seen."""
        return self._rows("lse", self._found, "merged", 1, (), self._chunks.wide)

    @property
    def weights(self) -> da.Array:
        """(…, H, T, S) in chunks of pairs: ``seen.weights[0, 3, 100:110]`` computes the chunks that it touches."""
        chunks, pairs = self._chunks, self._second("weights", parts.weights)
        layer = Layer(chunks, "whole-weights", pairs)
        seen = {(*row, j): key for row, j, key in self._each(pairs)}
        for number in product(*(range(len(axis)) for axis in chunks.sizes)):
            if number in seen:
                layer.put("", number, layer.item, [seen[number]], 0, chunks.wide)
            else:
                layer.put("", number, np.zeros, [len(part) for part in chunks.place(*number)], chunks.wide)
        return chunks.outward(layer.array(chunks.sizes, chunks.wide))

    def received(self) -> da.Array:
        """(…, H, S) attention that each key receives: the column sums of the weights."""
        chunks, pairs = self._chunks, self._statistics
        B, H, _, S = chunks.sizes
        adding = ((key, (b, h, j)) for (b, h, _), j, key in self._each(pairs))
        return chunks.outward(Layer(chunks, "received", pairs).sums(adding, 0, (B, H, S), chunks.wide))

    def entropy(self) -> da.Array:
        """(…, H, T) entropy −Σ w ln w of each row of weights, in nats; what a sink takes is not counted."""
        chunks, pairs = self._chunks, self._statistics
        adding = ((key, row) for row, _, key in self._each(pairs))
        return chunks.outward(Layer(chunks, "entropy", pairs).sums(adding, 1, chunks.sizes[:3], chunks.wide))

    def top(self, k: int) -> tuple[da.Array, da.Array]:
        """Indices and weights, each (…, H, T, k), of the k heaviest keys, largest first, ties to the lower index."""
        chunks = self._chunks
        if not 1 <= whole("k", k) <= chunks.asked.shape.S:
            raise ArgumentError(f"top(k) wants 1 ≤ k ≤ S = {chunks.asked.shape.S}, not {shown(k)}")
        pairs = self._second("top", parts.top, k)
        found = Layer(chunks, "heaviest", pairs)
        for row in chunks.rows():
            keys = [pairs.key("pair", (*row, j)) for j in chunks.pairs(row)]
            rows = [len(r) for r in chunks.place(*row, 0)[:3]]
            keys.append(found.put("none", row, _none, rows, chunks.wide))
            found.tree("some", row, keys, partial(parts.heaviest, count=k))
            found.put("all", row, parts.filled, found.key("some", row), k)
        wide = np.dtype(np.int64), chunks.wide
        indices, weights = (self._rows(f"top-{i}", found, "all", i, ((k,),), wide[i]) for i in (0, 1))
        return indices, weights

    def map(self, rows: int, columns: int, pool: Literal["max", "mean"] = "max") -> da.Array:
        """(…, H, rows, columns) picture of the whole matrix, by the rule of ``overt.Attended.map``."""
        chunks = self._chunks
        own = bins(chunks.asked.shape, rows, columns, pool)
        pairs = self._second("map", parts.pooled, *own, pool)
        layer = Layer(chunks, "picture", pairs)
        B, H, T, _ = chunks.sizes
        for b, h in product(range(len(B)), range(len(H))):
            keys = [pairs.key("pair", (b, h, i, j)) for i in range(len(T)) for j in chunks.pairs((b, h, i))]
            layer.put("", (b, h, 0, 0), parts.pictured, keys, *own, pool, [B[b], H[h]], chunks.wide)
        return chunks.outward(layer.array((B, H, (rows,), (columns,)), chunks.wide))

    def gradient(self, dy: da.Array, dlse: da.Array | None = None) -> Gradient[da.Array]:
        """Vector-Jacobian product with dy (…, H, T, E) and dlse (…, H, T), as of ``overt.Attended.gradient``, lazy.

        q, k, v and bias are Dask arrays shaped like their inputs, and so are ``sinks`` and those in ``score``, where
        there are any.  Gradients of a bias that is an array are chunked like the score matrix.
        """
        chunks = self._chunks
        asked, wide = chunks.asked, chunks.wide
        B, H, T, S = chunks.sizes
        slopes = [chunks.inward("dy", dy, "output", self.output, (B, H, T, (chunks.E,)))]
        if dlse is not None:
            slopes.append(chunks.inward("dlse", dlse, "lse", self.lse, (B, H, T)))
        pairs = Layer(chunks, "gradient", self._found, *slopes)

        def of_row(row: Row) -> list[Any]:
            """Output and lse of a chunk of queries, and the gradients of these."""
            numbers = (*row, 0), row
            own = [(x.name, *number) for x, number in zip(slopes, numbers, strict=False)]
            return [self._found.key("merged", row), *own, *[None] * (2 - len(own))]

        for row in chunks.rows():
            for j in chunks.pairs(row):
                pairs.put("pair", (*row, j), block, _gradient, *chunks.task(row, j), *of_row(row))

        def summed(
            name: str | int, sizes: Sizes, number: Callable[[Row, int], tuple[int, ...]], dtype: np.dtype = wide
        ) -> da.Array:
            adding = ((key, number(row, j)) for row, j, key in self._each(pairs))
            return Layer(chunks, f"gradient-of-{name}", pairs).sums(adding, name, sizes, dtype)

        widths = [(x.shape[3],) for x in chunks.arrays]
        keys = B, chunks.by_key, S
        found = [
            summed("q", (B, H, T, widths[0]), lambda row, j: (*row, 0)),
            *(summed(x, (*keys, width), self._of_keys) for x, width in zip("kv", widths[1:], strict=True)),
        ]
        dq, dk, dv = (
            chunks.unbroadcast(x, shape).astype(chunks.dtype) for x, shape in zip(found, asked.given, strict=True)
        )
        named: dict[str, da.Array] = {}
        for name, like in _parameters(asked, [width for (width,) in widths]).items():
            whole = tuple((n,) for n in like.shape)
            named[name] = summed(name, whole, _whole(like.ndim), like.dtype)
        biases = dict.fromkeys(sorted(chunks.biases, key=lambda name: int(name.split()[1])))
        dbias: list[da.Array] = []
        for name in biases:
            place = f"bias {chunks.biases.index(name)}"
            if name in chunks.held:
                held = chunks.held[name]
                x = summed(place, held.chunks, partial(chunks.number, name), np.dtype(float))
                x = chunks.unbroadcast(x, chunks.given[name].shape) if held.shape[0] > 1 else x
                x = x.reshape(chunks.given[name].shape)
            else:
                x = named.pop(place)
            dbias.append(x.astype(wide))
        score = {name.removeprefix("score "): x for name, x in named.items()}
        dsinks = self._of_sinks(of_row, slopes) if asked.sinks is not None else None
        return Gradient(dq, dk, dv, tuple(dbias) if len(dbias) > 1 else (*dbias, None)[0], dsinks, score)

    def _of_keys(self, row: Row, j: int) -> tuple[int, ...]:
        """Number of the chunk of keys of a pair."""
        return row[0], self._chunks.heads[row[1]], j, 0

    def _of_sinks(self, of_row: Callable[[Row], list[Any]], slopes: list[da.Array]) -> da.Array:
        chunks = self._chunks
        layer = Layer(chunks, "gradient-of-sinks", self._found, *slopes)
        adding = []
        for row in chunks.rows():
            place = places(chunks.place(*row, 0))
            adding.append((layer.put("row", row, _sinks, chunks.asked_key, place, *of_row(row)), (row[1],)))
        return layer.sums(adding, 0, (chunks.sizes[1],), chunks.wide)


def _whole(axes: int) -> Callable[[Row, int], tuple[int, ...]]:
    """The number of the one chunk that an array has, for every pair."""
    return lambda row, j: (0,) * axes


def _blind(asked: Problem, place: list[list[int]], E: int) -> Pair:
    return parts.blind(asked, place_of(place), E)


def _none(rows: list[int], dtype: np.dtype) -> Pair:
    """No keys of so many queries."""
    return np.zeros((*rows, 0), np.int64), np.zeros((*rows, 0), dtype)


def _of_lse(problem: Problem, function: Callable[..., Any], merged: Pair, *more: Any) -> Any:
    return function(problem, merged[1], *more)


def _gradient(problem: Problem, merged: Pair, dy: np.ndarray, dlse: np.ndarray | None) -> dict[str, np.ndarray]:
    """What a pair of chunks adds to gradients, by name."""
    arrays, named = parts.gradient(problem, *merged, dy.astype(problem.accumulate, copy=False), dlse)
    return dict(zip("qkv", arrays, strict=True)) | named


def _sinks(
    asked: Problem, place: list[list[int]], merged: Pair, dy: np.ndarray, dlse: np.ndarray | None
) -> list[np.ndarray]:
    assert asked.sinks is not None
    own = asked.sinks[place[1][0] : place[1][1]]
    return [parts.gradient_of_sinks(own, *merged, dy.astype(asked.accumulate, copy=False), dlse)]


def _parameters(asked: Problem, widths: list[int]) -> dict[str, np.ndarray]:
    """What the gradients of parameters of the score and of the terms of the bias that have a structure look like."""
    place = parts.Place(asked.b[:0], asked.h, asked.t[:0], asked.s[:0])
    Dq, Dk, E = widths
    q, k, v = (np.zeros((0, len(asked.h), 0, width), asked.accumulate) for width in (Dq, Dk, E))
    problem = parts.block(asked, q, k, v, place)
    nothing = np.zeros(q.shape[:3], asked.accumulate)
    return parts.gradient(problem, v, nothing, v, None)[1]
