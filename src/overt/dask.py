"""Attention of Dask arrays: chunks are computed where they are, and merge by their log-sum-exp.

Arrays may be chunked along all axes.  A task computes one pair of chunks, of queries and of keys, with its place in the
whole; pairs that the mask hides have none.  Nothing is computed before it is asked for, and everything is computed by
the scheduler that Dask has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import Any, Literal

import numpy as np

from overt.errors import ArgumentError, DependencyError, DtypeError, ShapeError

try:
    import dask.array as da
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph
except ImportError:
    raise DependencyError("overt.dask needs Dask: pip install 'overt[dask]'") from None

from overt import parts
from overt.attended import bins
from overt.biases import Bias
from overt.grid import Array, kind, shown, whole
from overt.masks import Mask
from overt.parts import Place
from overt.problem import Problem
from overt.scores import Score, scaled_dot

_SCALED_DOT = scaled_dot()
# Batch rows, heads, queries and keys of a chunk by number.
Number = tuple[int, int, int, int]


def attention(
    q: da.Array,
    k: da.Array,
    v: da.Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    num_threads: int | None = 1,
) -> da.Array:
    """``overt.attention`` for Dask arrays q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) → (…, H, T, E), lazy.

    Chunks may divide any of the leading axes, H, G, T and S; the result has those of q along T.  The arguments are
    those of ``overt.attention``, and mean the same: masks and biases see positions in the whole.  Where these are Dask
    arrays they are chunked with q and k, and nobody holds all of them.  num_threads: of each task.

    A result is rounded to half types once, at the end.  Raises ShapeError, DtypeError or ArgumentError at once.
    """
    options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    return attend(q, k, v, **options, num_threads=num_threads).output


def attend(
    q: da.Array,
    k: da.Array,
    v: da.Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    num_threads: int | None = 1,
) -> Attended:
    """The same operation, kept open: output, lse, weights, received, entropy, top and map, each a Dask array."""
    arrays = [_dask(name, x) for name, x in zip("qkv", (q, k, v), strict=True)]
    options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
    held = {name: _dask(name, x) for name, x in (("mask", mask), ("bias", bias)) if isinstance(x, da.Array)}
    # What is wrong with a Dask array is said of an array of its shape and dtype.
    stand_ins: dict[str, Any] = {name: parts.hollow(x) for name, x in held.items()}
    asked = parts.asked(*map(parts.hollow, arrays), **options | stand_ins, num_threads=num_threads)
    elsewhere: dict[str, Any] = dict.fromkeys(held)
    return Attended(_Chunks.of(replace(asked, **elsewhere), arrays, held))


class Attended:
    """Attention of Dask arrays; everything that it gives is a Dask array, not yet computed.

    Statistics are a second pass over the pairs of chunks, by the lse of whole rows: computed together, by
    ``dask.compute(seen.output, seen.received(), …)``, they share what they have in common.
    """

    def __init__(self, chunks: _Chunks) -> None:
        self._chunks = chunks

    def __repr__(self) -> str:
        pairs = sum(map(sum, self._chunks.visible.values()))
        return f"Attended({self._chunks.asked!r}, {pairs} of {len(self._chunks)} pairs of chunks)"

    @cached_property
    def _found(self) -> _Layer:
        """The key of output and lse of each chunk of queries, merged."""
        chunks = self._chunks
        layer = _Layer(chunks, "attend")
        for row in chunks.rows():
            keys = [
                layer.put("pair", (*row, j), _block, parts.forward, *chunks.task(row, j)) for j in chunks.pairs(row)
            ]
            if not keys or chunks.asked.sinks is not None:
                place = _places(chunks.place(*row, 0))
                keys.append(layer.put("blind", row, _blind, chunks.asked_key, place, chunks.E))
            layer.tree("merged", row, keys, parts.joined)
        return layer

    @cached_property
    def _seen(self) -> _Layer:
        """The key of what each pair of chunks adds to the statistics."""
        return self._second("statistics", parts.statistics)

    def _second(self, name: str, function: Callable[..., Any], *more: Any) -> _Layer:
        layer = _Layer(self._chunks, name, self._found, *more)
        for row in self._chunks.rows():
            for j in self._chunks.pairs(row):
                task = self._chunks.task(row, j)
                layer.put("pair", (*row, j), _block, function, *task, self._found.key("merged", row), *more)
        return layer

    @property
    def output(self) -> da.Array:
        """(…, H, T, E) in the dtype of q."""
        chunks = self._chunks
        layer = _Layer(chunks, "output", self._found)
        for row in chunks.rows():
            layer.put("", (*row, 0), _item, self._found.key("merged", row), 0, chunks.dtype)
        return chunks.outward(layer, (*chunks.sizes[:3], (chunks.E,)), chunks.dtype)

    @property
    def lse(self) -> da.Array:
        """(…, H, T) natural log-sum-exp of the masked scores, sinks included; −∞ where nothing is seen."""
        chunks = self._chunks
        layer = _Layer(chunks, "lse", self._found)
        for row in chunks.rows():
            layer.put("", row, _item, self._found.key("merged", row), 1, chunks.wide)
        return chunks.outward(layer, chunks.sizes[:3], chunks.wide)

    @property
    def weights(self) -> da.Array:
        """(…, H, T, S) in chunks of pairs: ``seen.weights[0, 3, 100:110]`` computes the chunks that it touches."""
        chunks, pairs = self._chunks, self._second("weights", parts.weights)
        layer = _Layer(chunks, "whole-weights", pairs)
        for row in chunks.rows():
            seen = set(chunks.pairs(row))
            for j in range(len(chunks.sizes[3])):
                if j in seen:
                    layer.put("", (*row, j), _item, [pairs.key("pair", (*row, j))], 0, chunks.wide)
                else:
                    layer.put("", (*row, j), np.zeros, [len(r) for r in chunks.place(*row, j)], chunks.wide)
        return chunks.outward(layer, chunks.sizes, chunks.wide)

    def received(self) -> da.Array:
        """(…, H, S) attention that each key receives: the column sums of the weights."""
        chunks = self._chunks
        B, H, T, S = chunks.sizes
        layer = _Layer(chunks, "received", self._seen)
        for b, h, j in product(range(len(B)), range(len(H)), range(len(S))):
            keys = [
                layer.put("part", (b, h, i, j), _item, self._seen.key("pair", (b, h, i, j)), 0, chunks.wide)
                for i in range(len(T))
                if j in chunks.pairs((b, h, i))
            ]
            layer.tree("", (b, h, j), keys or [layer.zeros((b, h, j), (B[b], H[h], S[j]))], _sum)
        return chunks.outward(layer, (B, H, S), chunks.wide)

    def entropy(self) -> da.Array:
        """(…, H, T) entropy −Σ w ln w of each row of weights, in nats; what a sink takes is not counted."""
        chunks = self._chunks
        B, H, T, _ = chunks.sizes
        layer = _Layer(chunks, "entropy", self._seen)
        for row in chunks.rows():
            keys = [
                layer.put("part", (*row, j), _item, self._seen.key("pair", (*row, j)), 1, chunks.wide)
                for j in chunks.pairs(row)
            ]
            b, h, i = row
            layer.tree("", row, keys or [layer.zeros(row, (B[b], H[h], T[i]))], _sum)
        return chunks.outward(layer, (B, H, T), chunks.wide)

    def top(self, k: int) -> tuple[da.Array, da.Array]:
        """Indices and weights, each (…, H, T, k), of the k heaviest keys, largest first, ties to the lower index."""
        chunks = self._chunks
        if not 1 <= whole("k", k) <= chunks.asked.shape.S:
            raise ArgumentError(f"top(k) wants 1 ≤ k ≤ S = {chunks.asked.shape.S}, not {shown(k)}")
        pairs = self._second("top", parts.top, k)
        found = _Layer(chunks, "heaviest", pairs)
        for row in chunks.rows():
            keys = [pairs.key("pair", (*row, j)) for j in chunks.pairs(row)]
            while len(keys) > 4:
                groups = [keys[i : i + 4] for i in range(0, len(keys), 4)]
                level = len(groups)
                keys = [
                    found.put(f"level-{level}", (*row, n), parts.heaviest, group, k) for n, group in enumerate(groups)
                ]
            rows = [len(r) for r in chunks.place(*row, 0)[:3]]
            found.put("all", row, _heaviest, keys, k, rows, chunks.wide)
        results = []
        for place, dtype in enumerate((np.dtype(np.int64), chunks.wide)):
            layer = _Layer(chunks, f"top-{place}", found)
            for row in chunks.rows():
                layer.put("", (*row, 0), _item, found.key("all", row), place, dtype)
            results.append(chunks.outward(layer, (*chunks.sizes[:3], (k,)), dtype))
        return results[0], results[1]

    def map(self, rows: int, columns: int, pool: Literal["max", "mean"] = "max") -> da.Array:
        """(…, H, rows, columns) picture of the whole matrix, by the rule of ``overt.Attended.map``."""
        chunks = self._chunks
        own = bins(chunks.asked.shape, rows, columns, pool)
        pairs = self._second("map", parts.pooled, *own, pool)
        layer = _Layer(chunks, "picture", pairs)
        B, H, T, _ = chunks.sizes
        for b, h in product(range(len(B)), range(len(H))):
            keys = [pairs.key("pair", (b, h, i, j)) for i in range(len(T)) for j in chunks.pairs((b, h, i))]
            layer.put("", (b, h, 0, 0), parts.pictured, keys, *own, pool, [B[b], H[h]], chunks.wide)
        return chunks.outward(layer, (B, H, (rows,), (columns,)), chunks.wide)


@dataclass(frozen=True, eq=False)
class _Chunks:
    """How the score matrix is divided, and where the chunks of the arrays are.

    sizes: lengths of the chunks along B, H, T and S.  heads: which chunk of key heads those of H read.
    held: mask and bias, as far as they are Dask arrays, with four axes.
    """

    asked: Problem
    arrays: Sequence[da.Array]
    held: dict[str, da.Array]
    sizes: tuple[tuple[int, ...], ...]
    heads: Sequence[int]
    token: str

    @staticmethod
    def of(asked: Problem, arrays: Sequence[da.Array], held: dict[str, da.Array]) -> _Chunks:
        q, k, v = (_four(x, asked.shape.batch) for x in arrays)
        H, G = q.shape[1], k.shape[1]
        per_key = H // max(G, 1)
        edges = [_edges(x, 1) for x in (q, k, v)]
        # A chunk of queries' heads reads the heads of one chunk of keys.
        key_edges = {e // max(per_key, 1) for e in edges[0]} | {-(-e // max(per_key, 1)) for e in edges[0]}
        key_edges |= edges[1] | edges[2]
        by_key = _sizes(key_edges)
        by_head = _sizes(edges[0] | {e * per_key for e in key_edges})
        batch = _sizes(_edges(q, 0) | _edges(k, 0) | _edges(v, 0))
        S = _sizes(_edges(k, 2) | _edges(v, 2))
        T = q.chunks[2]
        q = q.rechunk((batch, by_head, T, (q.shape[3],)))
        k, v = (x.rechunk((batch, by_key, S, (x.shape[3],))) for x in (k, v))
        ends = [e for _, e in _ranges(by_key)]
        heads = [next((i for i, e in enumerate(ends) if start < e * per_key), 0) for start, _ in _ranges(by_head)]
        sizes = (batch, by_head, T, S)
        held = {name: _held(x, asked, sizes) for name, x in held.items()}
        names = [x.name for x in (q, k, v, *held.values())]
        return _Chunks(asked, (q, k, v), held, sizes, heads, tokenize(asked, *names))

    def __len__(self) -> int:
        return int(np.prod([len(sizes) for sizes in self.sizes]))

    @property
    def dtype(self) -> np.dtype:
        """Of q, k and v."""
        return self.arrays[0].dtype

    @property
    def wide(self) -> np.dtype:
        """Of statistics."""
        return np.dtype(self.asked.accumulate)

    @property
    def E(self) -> int:
        return self.arrays[2].shape[3]

    @property
    def asked_key(self) -> str:
        """What is asked travels once to each worker."""
        return f"overt-asked-{self.token}"

    def range(self, axis: int, i: int) -> range:
        """What chunk i of an axis holds."""
        return range(*self._starts[axis][i])

    @cached_property
    def _starts(self) -> list[list[tuple[int, int]]]:
        return [_ranges(sizes) for sizes in self.sizes]

    def place(self, *number: int) -> Place:
        """Of a pair of chunks."""
        return Place(*(self.range(axis, i) for axis, i in enumerate(number)))

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Numbers of the chunks of queries."""
        B, H, T, _ = self.sizes
        yield from product(range(len(B)), range(len(H)), range(len(T)))

    @cached_property
    def visible(self) -> dict[tuple[int, int, int], list[bool]]:
        """Which chunks of keys each chunk of queries sees."""
        keys = [self.range(3, j) for j in range(len(self.sizes[3]))]
        return {
            row: [bool(part.t) for part in parts.meeting(self.asked, self.place(*row, 0), keys)] for row in self.rows()
        }

    @cached_property
    def _pairs(self) -> dict[tuple[int, int, int], list[int]]:
        return {row: [j for j, seen in enumerate(visible) if seen] for row, visible in self.visible.items()}

    def pairs(self, row: tuple[int, int, int]) -> list[int]:
        """Numbers of the chunks of keys that a chunk of queries sees."""
        return self._pairs[row]

    def task(self, row: tuple[int, int, int], j: int) -> tuple[Any, ...]:
        """What a task is given of a pair: what is asked, its chunks and its place."""
        b, h, i = row
        q, k, v = (x.name for x in self.arrays)
        own: list[Any] = [None, None]
        for n, name in enumerate(("mask", "bias")):
            if name in self.held:
                x = self.held[name]
                at = zip((b, h, i, j), x.numblocks, strict=True)
                own[n] = (x.name, *(place if blocks > 1 else 0 for place, blocks in at))
        g = self.heads[h]
        return (
            self.asked_key,
            (q, b, h, i, 0),
            (k, b, g, j, 0),
            (v, b, g, j, 0),
            *own,
            _places(self.place(b, h, i, j)),
        )

    def outward(self, layer: _Layer, sizes: tuple[tuple[int, ...], ...], dtype: np.dtype) -> da.Array:
        """A result (B, H, …) with the leading axes that the caller's arrays had."""
        x = da.Array(layer.graph, layer.name, sizes, dtype=dtype)
        outer = self.asked.outer
        if len(outer) < 2:
            return x[(0,) * (2 - len(outer))]
        return x if len(outer) == 2 else x.reshape((*outer, *x.shape[2:]))


class _Layer:
    """Tasks of one kind, and the graph that they complete."""

    def __init__(self, chunks: _Chunks, kind: str, *before: Any) -> None:
        self.chunks = chunks
        below = [x.name if isinstance(x, _Layer) else x for x in before]
        self.name: str = f"overt-{kind}-{tokenize(chunks.token, *below)}"
        self._before = [x for x in before if isinstance(x, _Layer)]
        self._tasks: dict[Any, Any] = {}

    def key(self, name: str, number: tuple[int, ...]) -> tuple[Any, ...]:
        """The key of a task."""
        return (f"{name}-{self.name}" if name else self.name, *number)

    def put(self, name: str, number: tuple[int, ...], function: Callable[..., Any], *given: Any) -> tuple[Any, ...]:
        """Add a task, and give its key."""
        key = self.key(name, number)
        self._tasks[key] = (function, *given)
        return key

    def zeros(self, number: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
        """A task that gives zeros, for what nobody sees."""
        return self.put("zeros", number, np.zeros, list(shape), self.chunks.wide)

    def tree(
        self, name: str, number: tuple[int, ...], keys: Sequence[Any], join: Callable[..., Any], fan: int = 4
    ) -> None:
        """Tasks that join neighbours until one is left, which has the name."""
        while len(keys) > fan:
            groups = [keys[i : i + fan] for i in range(0, len(keys), fan)]
            keys = [
                self.put(f"{name or 'tree'}-{len(groups)}", (*number, n), join, list(group))
                for n, group in enumerate(groups)
            ]
        self.put(name, number, join, list(keys))

    @cached_property
    def graph(self) -> HighLevelGraph:
        """With all that it needs."""
        chunks = self.chunks
        arrays = [*chunks.arrays, *chunks.held.values()]
        layers: dict[str, Any] = {}
        needed: dict[str, set[str]] = {}
        for graph in [layer.graph for layer in self._before] + [x.dask for x in arrays]:
            layers |= graph.layers
            needed |= graph.dependencies
        asked = chunks.asked_key
        layers |= {asked: {asked: chunks.asked}, self.name: self._tasks}
        own = {asked, *(layer.name for layer in self._before), *(name for x in arrays for name in x.__dask_layers__())}
        return HighLevelGraph(layers, needed | {asked: set(), self.name: own})


def _block(
    function: Callable[..., Any],
    asked: Problem,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    bias: np.ndarray | None,
    place: list[list[int]],
    merged: parts.Pair | None = None,
    *more: Any,
) -> Any:
    """One pair of chunks."""
    problem = parts.block(asked, q, k, v, _place(place), mask=mask, bias=bias)
    return function(problem) if merged is None else function(problem, merged[1], *more)


def _blind(asked: Problem, place: list[list[int]], E: int) -> parts.Pair:
    return parts.blind(asked, _place(place), E)


def _item(found: Sequence[np.ndarray], place: int, dtype: np.dtype) -> np.ndarray:
    return found[place].astype(dtype, copy=False)


def _sum(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return sum(arrays[1:], start=arrays[0])


def _heaviest(found: Sequence[parts.Pair], count: int, rows: Sequence[int], dtype: np.dtype) -> parts.Pair:
    none = np.zeros((*rows, 0), np.int64), np.zeros((*rows, 0), dtype)
    return parts.filled(parts.heaviest([none, *found], count), count)


# In a graph, tuples are tasks or keys.
def _places(place: Place) -> list[list[int]]:
    return [[part.start, part.stop] for part in place]


def _place(places: Sequence[Sequence[int]]) -> Place:
    return Place(*(range(*edges) for edges in places))


def _dask(name: str, x: Any) -> da.Array:
    if isinstance(x, np.ndarray):
        x = da.from_array(x)
    if not isinstance(x, da.Array):
        raise DtypeError(f"{name} is {kind(x)}, not a Dask array: use dask.array.asarray({name}), or overt.attention")
    if any(n != n for n in x.shape):
        raise ShapeError(f"{name} has chunks of unknown sizes: call {name}.compute_chunk_sizes() first")
    return x


def _four(x: da.Array, batch: tuple[int, ...]) -> da.Array:
    """With the axes B, H, T and D."""
    if x.ndim < 4 and not batch:
        return x[(None,) * (4 - x.ndim)]
    x = da.broadcast_to(x, (*batch, *x.shape[-3:]))
    return x if x.ndim == 4 else x.reshape((int(np.prod(batch)), *x.shape[-3:]))


def _held(x: da.Array, asked: Problem, sizes: tuple[tuple[int, ...], ...]) -> da.Array:
    """A mask or a bias with the axes (B or 1, H or 1, T or 1, S or 1), chunked as the score matrix."""
    batch = asked.shape.batch
    x = x[(None,) * (len(batch) + 3 - x.ndim)] if x.ndim < len(batch) + 3 else x
    x = _four(x, batch) if any(n != 1 for n in x.shape[:-3]) else x.reshape((1, *x.shape[-3:]))
    return x.rechunk(tuple((1,) if n == 1 else own for n, own in zip(x.shape, sizes, strict=True)))


def _edges(x: da.Array, axis: int) -> set[int]:
    return {0, *accumulate(x.chunks[axis])}


def _sizes(edges: set[int]) -> tuple[int, ...]:
    return tuple(b - a for a, b in pairwise(sorted(edges))) or (0,)


def _ranges(sizes: Sequence[int]) -> list[tuple[int, int]]:
    ends = list(accumulate(sizes))
    return list(zip([0, *ends], ends, strict=False))
