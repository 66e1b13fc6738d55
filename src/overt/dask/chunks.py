"""How Dask arrays are divided, and so the score matrix: which chunks meet, and what a task is given of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize

from overt import parts
from overt.attended import inward
from overt.biases import Bias, Dense, Sum, as_bias
from overt.errors import DtypeError, ShapeError
from overt.grid import Array, kind, plain
from overt.parts import Place
from overt.problem import Problem

# Lengths of the chunks of an array along each of its axes.
Sizes = tuple[tuple[int, ...], ...]
# Batch rows, heads and queries of a chunk by number.
Row = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Chunks:
    """How the score matrix is divided, and where the chunks of the arrays are.

    sizes: lengths of the chunks along B, H, T and S; by_key: along G.  heads: which chunk of key heads those of H read.
    given: mask and biases, as far as they are Dask arrays, as they came; held: with four axes.
    """

    asked: Problem
    arrays: Sequence[da.Array]
    given: dict[str, da.Array]
    held: dict[str, da.Array]
    sizes: Sizes
    by_key: tuple[int, ...]
    heads: Sequence[int]
    token: str

    @staticmethod
    def of(asked: Problem, arrays: Sequence[da.Array], given: dict[str, da.Array]) -> Chunks:
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
        held = {name: _held(x, asked, sizes) for name, x in given.items()}
        names = [x.name for x in (q, k, v, *held.values())]
        return Chunks(asked, (q, k, v), given, held, sizes, by_key, heads, tokenize(asked, *names))

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

    @property
    def biases(self) -> list[str]:
        """Names of the terms of the bias, in the order in which a block has them: those that are Dask arrays last."""
        held = [name for name in self.held if name != "mask"]
        known = 0 if self.asked.bias is None else len(self.asked.bias.terms)
        every = [f"bias {i}" for i in range(known + len(held))]
        return [name for name in every if name not in held] + held

    def range(self, axis: int, i: int) -> range:
        """What chunk i of an axis holds."""
        return range(*self._starts[axis][i])

    @cached_property
    def _starts(self) -> list[list[tuple[int, int]]]:
        return [_ranges(sizes) for sizes in self.sizes]

    def place(self, *number: int) -> Place:
        """Of a pair of chunks."""
        return Place(*(self.range(axis, i) for axis, i in enumerate(number)))

    def rows(self) -> Iterator[Row]:
        """Numbers of the chunks of queries."""
        B, H, T, _ = self.sizes
        yield from product(range(len(B)), range(len(H)), range(len(T)))

    @cached_property
    def _pairs(self) -> dict[Row, list[int]]:
        keys = [self.range(3, j) for j in range(len(self.sizes[3]))]
        meeting = ((row, parts.meeting(self.asked, self.place(*row, 0), keys)) for row in self.rows())
        return {row: [j for j, part in enumerate(found) if part.t] for row, found in meeting}

    def pairs(self, row: Row) -> list[int]:
        """Numbers of the chunks of keys that a chunk of queries sees."""
        return self._pairs[row]

    def task(self, row: Row, j: int) -> tuple[Any, ...]:
        """What a task is given of a pair: what is asked, its chunks and its place."""
        b, h, i = row
        q, k, v = (x.name for x in self.arrays)
        g = self.heads[h]
        held = {name: (x.name, *self.number(name, row, j)) for name, x in self.held.items()}
        mask = held.pop("mask", None)
        arrays = (q, b, h, i, 0), (k, b, g, j, 0), (v, b, g, j, 0)
        return self.asked_key, *arrays, mask, list(held.values()), places(self.place(*row, j))

    def number(self, name: str, row: Row, j: int) -> tuple[int, ...]:
        """Of the chunk of a mask or a bias that a pair of chunks reads."""
        axes = zip((*row, j), self.held[name].numblocks, strict=True)
        return tuple(i if blocks > 1 else 0 for i, blocks in axes)

    def inward(self, name: str, x: Any, of: str, like: da.Array, sizes: Sizes) -> da.Array:
        """The gradient of a result, as a caller gives it, with the axes and the chunks that the result has inside."""
        x = as_dask(name, x)
        shape = tuple(map(sum, sizes))
        inward(self.asked, name, parts.hollow(x), of, parts.hollow(like), shape)
        outer = len(self.asked.outer)
        x = x[(None,) * (2 - outer)] if outer < 2 else x.reshape(shape)
        return x.rechunk(sizes)

    def outward(self, x: da.Array) -> da.Array:
        """A result (B, H, …) with the leading axes that the caller's arrays had."""
        outer = self.asked.outer
        if len(outer) < 2:
            return x[(0,) * (2 - len(outer))]
        return x if len(outer) == 2 else x.reshape((*outer, *x.shape[2:]))

    def unbroadcast(self, x: da.Array, shape: tuple[int, ...]) -> da.Array:
        """A gradient (B, …) summed over the axes along which an argument of this shape was broadcast."""
        x = self.asked.unbroadcast(x, (*(1,) * (3 - len(shape)), *shape))
        return x if x.shape == shape else x.reshape(shape)


def as_dask(name: str, x: Any) -> da.Array:
    """A Dask array of chunks whose sizes are known."""
    if isinstance(x, np.ndarray):
        x = da.from_array(plain(name, x))
    if not isinstance(x, da.Array):
        raise DtypeError(f"{name} is {kind(x)}, not a Dask array: use dask.array.asarray({name}), or overt.attention")
    plain(name, x._meta)
    if any(n != n for n in x.shape):
        raise ShapeError(f"{name} has chunks of unknown sizes: call {name}.compute_chunk_sizes() first")
    return x


def undivided(**options: Any) -> None:
    """Raise where what every task needs whole is a Dask array."""
    for name, value in options.items():
        if isinstance(value, da.Array):
            if name != "bias":
                raise DtypeError(f"{name} is a Dask array, and every task needs all of it: call its compute()")
        elif is_dataclass(value) and not isinstance(value, Dense):
            held = {f"{name} {field.name}": getattr(value, field.name) for field in fields(value)}
            undivided(**{f"{name} parameter": part for part in held.pop(f"{name} parts", ())})
            undivided(**held)


def divided(bias: Bias | Array | None) -> tuple[Bias | None, dict[str, da.Array]]:
    """The terms of a bias that are no arrays, and by their names those that are, of which each task gets its own."""
    known = as_bias(bias, on_host=False)
    terms = () if known is None else known.terms
    dense = {f"bias {i}": term.parameter for i, term in enumerate(terms) if isinstance(term, Dense)}
    rest = tuple(term for i, term in enumerate(terms) if f"bias {i}" not in dense)
    arrays = {name: x if isinstance(x, da.Array) else Dense(x).on_host().parameter for name, x in dense.items()}
    held = {name: as_dask("bias", x) for name, x in arrays.items()}
    return Sum(rest) if len(rest) > 1 else rest[0] if rest else None, held


# In a graph, tuples are tasks or keys.
def places(place: Place) -> list[list[int]]:
    """Where each axis of a place begins and ends, as a graph may hold it."""
    return [[part.start, part.stop] for part in place]


def place_of(edges: Sequence[Sequence[int]]) -> Place:
    """The place whose axes begin and end there."""
    return Place(*(range(*pair) for pair in edges))


def _four(x: da.Array, batch: tuple[int, ...]) -> da.Array:
    """With the axes B, H, T and D."""
    if x.ndim < 4 and not batch:
        return x[(None,) * (4 - x.ndim)]
    x = da.broadcast_to(x, (*batch, *x.shape[-3:]))
    return x if x.ndim == 4 else x.reshape((int(np.prod(batch)), *x.shape[-3:]))


def _held(x: da.Array, asked: Problem, sizes: Sizes) -> da.Array:
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
