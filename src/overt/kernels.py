"""The only importer of the compiled module: can it, run it.

Every function takes a ``Problem`` of NumPy arrays and returns the same as its namesake in ``reference``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from overt import _native
from overt.masks import Keep, Mask
from overt.problem import Problem, within
from overt.reference import pool_axis
from overt.scores import Product

# Cells of a mask or bias that is no view of memory are worked out about this many at a time.
_CELLS = 1 << 21
# Keys are packed once a call, so a call wants some rows.
_ROWS = 16


def can(problem: Problem) -> bool:
    """Whether the kernels know this problem."""
    return problem.xp is np and isinstance(problem.score, Product) and problem.dropout is None


def levels() -> list[str]:
    """Instruction sets that this machine can run, the best first."""
    return _native.levels()


def forward(problem: Problem, *, threads: int = 0, level: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse."""
    dtype = problem.q.dtype.newbyteorder("=") if _score(problem).identity else np.dtype(problem.accumulate)
    output = np.empty((*problem.q.shape[:3], problem.v.shape[-1]), dtype)
    lse = np.empty(problem.q.shape[:3], problem.accumulate)
    for native, rows in _calls(problem):
        with _rows(output, rows) as y, _rows(lse, rows) as row_lse:
            _native.forward(native, _words(y), row_lse, threads=threads, level=level)
    return output.astype(problem.q.dtype, copy=False), lse


def statistics(
    problem: Problem, lse: np.ndarray, *, threads: int = 0, level: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Column sums (B, H, S) and entropy (B, H, T), for the price of one."""
    received = np.zeros((*problem.q.shape[:2], problem.k.shape[2]), problem.accumulate)
    entropy = np.empty(problem.q.shape[:3], problem.accumulate)
    for native, rows in _calls(problem):
        part = np.empty_like(received)
        with _rows(entropy, rows) as row_entropy:
            _native.statistics(native, _taken(lse, rows), part, row_entropy, threads=threads, level=level)
        received += part
    return received, entropy


def top(
    problem: Problem, lse: np.ndarray, k: int, *, threads: int = 0, level: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The k heaviest keys of each row."""
    indices = np.empty((*problem.q.shape[:3], k), np.int64)
    heaviest = np.empty(indices.shape, problem.accumulate)
    for native, rows in _calls(problem):
        with _rows(indices, rows) as row_indices, _rows(heaviest, rows) as row_heaviest:
            _native.top(native, _taken(lse, rows), row_indices, row_heaviest, threads=threads, level=level)
    return indices, heaviest


def pooled(
    problem: Problem,
    lse: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    pool: str,
    *,
    threads: int = 0,
    level: str | None = None,
) -> np.ndarray:
    """Pooled picture of the weights."""
    strips = None
    for native, part in _calls(problem):
        if part == slice(0, len(problem.t)):
            picture = np.empty((*problem.q.shape[:2], len(rows), len(columns)), problem.accumulate)
            _native.map(native, _taken(lse, part), rows, columns, picture, pool, threads=threads, level=level)
            return picture
        # A bin may reach over several calls: pool the columns of every row now, and the rows at the end.
        if strips is None:
            strips = np.empty((*problem.q.shape[:3], len(columns)), problem.accumulate)
        single = np.arange(part.stop - part.start)[:, None] + [0, 1]
        with _rows(strips, part) as row_strips:
            _native.map(native, _taken(lse, part), single, columns, row_strips, pool, threads=threads, level=level)
    return pool_axis(np, strips, rows, pool, -2)


def weights(problem: Problem, lse: np.ndarray, *, threads: int = 0, level: str | None = None) -> np.ndarray:
    """All weights of a problem, which is a tile that the caller chose."""
    result = np.empty((*problem.q.shape[:3], problem.k.shape[2]), problem.accumulate)
    for native, rows in _calls(problem):
        with _rows(result, rows) as row_result:
            _native.weights(native, _taken(lse, rows), row_result, threads=threads, level=level)
    return result


def _score(problem: Problem) -> Product:
    assert isinstance(problem.score, Product)
    return problem.score


def _calls(problem: Problem) -> Iterator[tuple[_native.Problem, slice]]:
    """The problem as the kernels take it, one call for each slice of query rows; nearly always there is one slice."""
    q, k, v = problem.q, problem.k, problem.v
    score = _score(problem)
    if not score.identity:
        q, k, v = (x.astype(problem.accumulate) for x in (q, k, v))
    q, k, scale = score.factors(np, q, k)
    q, k, v = (_readable(x) for x in (q, k, v))
    first, last, rest = _spans(problem)
    bits = _view_of_mask(problem, rest)
    bias = _view_of_bias(problem)
    sinks = None if problem.sinks is None else np.ascontiguousarray(problem.sinks, problem.accumulate)
    shape = (*q.shape[:3], k.shape[2])
    T, S = shape[2:]
    viewed = (rest is None or bits is not None) and (problem.bias is None or bias is not None)
    step = max(T, 1) if viewed else max(_CELLS // max(S, 1), _ROWS)
    for start in range(0, max(T, 1), step):
        rows = slice(start, min(start + step, T))
        part_bits, part_bias = (x if x is None else x[:, :, rows] for x in (bits, bias))
        if not viewed:
            part = problem.part(t=problem.t[rows])
            part_shape = (*shape[:2], len(part.t), S)
            if rest is not None and bits is None:
                part_bits = _spread(rest.visible(part.cells), part_shape, bool)
            if problem.bias is not None and bias is None:
                part_bias = _spread(problem.bias.at(part.cells), part_shape, problem.accumulate)
        native = _native.Problem(
            _words(q[:, :, rows]),
            _words(k),
            _words(v),
            dtype=q.dtype.name,
            scale=scale,
            softcap=problem.softcap or 0.0,
            first=None if first is None else first[:, :, rows],
            last=None if last is None else last[:, :, rows],
            bits=part_bits,
            bias=part_bias,
            sinks=sinks,
        )
        yield native, rows


def _spans(problem: Problem) -> tuple[np.ndarray | None, np.ndarray | None, Mask | None]:
    """First and past-the-last key of every row, (B, H, T), and the mask that still decides inside them."""
    mask, shape = problem.mask, problem.shape
    if mask is None or len(problem.s) != shape.S:
        return None, None, mask
    first, last, rest = mask.plan(shape.T, shape.S, shape.batch, shape.H)
    places = tuple(
        within(part, range(n)) for part, n in ((problem.b, shape.B), (problem.h, shape.H), (problem.t, shape.T))
    )
    first, last = (np.broadcast_to(x.astype(np.int32), (shape.B, shape.H, shape.T))[places] for x in (first, last))
    return first, last, rest


def _view_of_mask(problem: Problem, rest: Mask | None) -> np.ndarray | None:
    """The mask's bits as they lie in memory, (B, H, T, S), where it is an array that the kernels can read."""
    if not isinstance(rest, Keep):
        return None
    shape = problem.shape
    full = np.broadcast_to(rest.array, (*shape.batch, shape.H, shape.T, shape.S))
    return _part_view(problem, full.reshape(shape.B, shape.H, shape.T, shape.S))


def _view_of_bias(problem: Problem) -> np.ndarray | None:
    """The bias as it lies in memory, (B, H, T, S), where the kernels can read it."""
    if problem.bias is None:
        return None
    return _part_view(problem, problem.bias.view(problem.shape, np.dtype(problem.accumulate)))


def _part_view(problem: Problem, full: np.ndarray) -> np.ndarray | None:
    view = full[
        tuple(
            within(r, range(n)) for r, n in zip((problem.b, problem.h, problem.t, problem.s), full.shape, strict=True)
        )
    ]
    readable = view.flags.aligned and (view.shape[-1] <= 1 or view.strides[-1] == view.itemsize)
    return view if readable else None


def _spread(values: np.ndarray, shape: tuple[int, ...], dtype: np.typing.DTypeLike) -> np.ndarray:
    """Values that broadcast to (B, H, T, S), with a unit last stride and no more memory than that asks for."""
    *leading, S = np.broadcast_shapes((1, 1, 1, 1), values.shape)[:-1] + shape[-1:]
    return np.broadcast_to(np.ascontiguousarray(np.broadcast_to(values, (*leading, S)), dtype), shape)


def _readable(x: np.ndarray) -> np.ndarray:
    """Native byte order, aligned, whole strides, unit stride on the last axis; a copy only where it must be."""
    size = x.itemsize
    unit = x.shape[-1] <= 1 or x.strides[-1] == size
    if unit and x.dtype.isnative and x.flags.aligned and all(stride % size == 0 for stride in x.strides):
        return x
    return np.ascontiguousarray(x, x.dtype.newbyteorder("="))


def _words(x: np.ndarray) -> np.ndarray:
    """Half types as the 16-bit words that they are."""
    return x.view(np.uint16) if x.itemsize == 2 else x


def _taken(lse: np.ndarray, rows: slice) -> np.ndarray:
    return np.ascontiguousarray(lse[:, :, rows])


@contextmanager
def _rows(whole: np.ndarray, rows: slice) -> Iterator[np.ndarray]:
    """Some query rows of a result, contiguous, to be filled in."""
    part = whole[:, :, rows]
    if part.flags.c_contiguous:
        yield part
    else:
        copy = np.empty(part.shape, part.dtype)
        yield copy
        part[...] = copy
