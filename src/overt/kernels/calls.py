"""A problem as the compiled module takes it: where its arrays lie in memory, whole or some rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from overt import _native
from overt.biases import Bias, added
from overt.grid import dtype_name, host
from overt.kernels.pieces import any_beyond, converted, copied, factors
from overt.masks import Keep, Mask, causal
from overt.problem import Problem, within
from overt.scores import Additive

# Cells of a mask or bias that is no view of memory are worked out about this many at a time.
_CELLS = 1 << 21
# Keys are packed once a call, so a call wants some rows.
_ROWS = 16
ALL = slice(None)
# Projections up to this size can be raised to e^{2x} and multiplied without overflow.
_BOUND = 10
CAUSAL = causal()


def calls(problem: Problem, *, wide: bool = False, step: int | None = None) -> Iterable[tuple[_native.Problem, slice]]:
    """The problem as the kernels take it, one call for each slice of query rows; nearly always that is all of them.

    ``wide`` asks for the dtype of accumulation, and ``step`` for slices of that many rows.
    """
    q, k, v = problem.q, problem.k, problem.v
    score = problem.score
    if wide or not score.identity:
        q, k, v = (converted(x, problem.accumulate) for x in (q, k, v))
    q, k, scale = factors(score, q, k)
    q, k, v = readable(q), readable(k), readable(v)
    same: dict[str, Any] = {
        "dtype": dtype_name(q),
        "scale": scale,
        "softcap": problem.softcap or 0.0,
        "sinks": None if problem.sinks is None else np.array(problem.sinks, problem.accumulate, order="C"),
        # A part is computed as the whole would be, so that its weights are those of the lse that the whole has.
        "whole_rows": problem.sharing * problem.shape.T,
        "whole_keys": problem.shape.S,
    }
    if isinstance(score, Additive):
        same["additive"] = np.ascontiguousarray(host("v", score.v), problem.accumulate)
        # NaN are no reason to take care.
        same["bounded"] = not (any_beyond(q, _BOUND) or any_beyond(k, _BOUND))
    if problem.dropout is not None:
        same |= {"dropout": problem.dropout.rate, "seed": problem.dropout.seed, "first_query": problem.t.start}
        same |= {"first_batch": problem.b.start, "first_head": problem.h.start, "first_key": problem.s.start}
    q, k, v = words(q), words(k), words(v)
    first, last, rest = _spans(problem)
    bits, bias = _view_of_mask(problem, rest), _view_of_bias(problem, problem.bias)
    if step is None and (rest is None or bits is not None) and (problem.bias is None or bias is not None):
        native = _native.Problem(q, k, v, first=first, last=last, bits=bits, bias=bias, **same)
        return ((native, ALL),)
    step = step or _rows_seen(first, last, k.shape[2])
    return _slices(problem, step, q, k, v, first, last, rest, bits, bias, same)


def _slices(
    problem: Problem,
    step: int,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    first: np.ndarray | None,
    last: np.ndarray | None,
    rest: Mask | None,
    bits: np.ndarray | None,
    bias: np.ndarray | None,
    same: dict[str, Any],
) -> Iterator[tuple[_native.Problem, slice]]:
    """Calls for some rows at a time, for which a mask or a bias that lies nowhere in memory is worked out."""
    T, S = q.shape[2], k.shape[2]
    terms = () if problem.bias is None else problem.bias.terms
    views = [(term, _view_of_bias(problem, term)) for term in terms]
    room: dict[str, np.ndarray] = {}
    for start in range(0, T, step):
        rows = slice(start, min(start + step, T))
        part = problem.part(t=problem.t[rows])
        shape = (*q.shape[:2], len(part.t), S)
        row_first, row_last = (None if edge is None else edge[:, :, rows] for edge in (first, last))
        # Nobody reads the cells of keys that no row of the slice may see.
        keys = slice(0, S)
        if row_first is not None and row_last is not None and row_first.size:
            keys = slice(int(row_first.min()), int(row_last.max()))
        cells = part.cells
        cells = replace(cells, s=cells.s[keys])
        row_bits = bits[:, :, rows] if bits is not None else None
        if rest is not None and bits is None:
            room["bits"] = _spread(rest.visible(cells), shape, keys, bool, room.get("bits"))
            row_bits = np.broadcast_to(room["bits"], shape)
        row_bias = bias[:, :, rows] if bias is not None else None
        if problem.bias is not None and bias is None:
            shared = (
                (term, None if x is None else x[:, :, rows, keys if x.shape[-1] > 1 else ALL]) for term, x in views
            )
            numbers = (term.at(cells) if x is None else x for term, x in shared)
            summed = added(numbers, np.dtype(problem.accumulate))
            room["bias"] = _spread(summed, shape, keys, problem.accumulate, room.get("bias"))
            row_bias = np.broadcast_to(room["bias"], shape)
        native = _native.Problem(
            q[:, :, rows],
            k,
            v,
            first=row_first,
            last=row_last,
            bits=row_bits,
            bias=row_bias,
            **same | {"first_query": part.t.start},
        )
        yield native, rows


def rows_of(row: int) -> int:
    """How many rows to work out at a time, of so many cells each."""
    return max(_CELLS // max(row, 1), _ROWS)


def _rows_seen(first: np.ndarray | None, last: np.ndarray | None, S: int) -> int:
    """How many rows to work out at a time: with those cells that their spans reach, about ``_CELLS`` a head."""
    step = rows_of(S)
    if first is None or last is None or not first.size:
        return step
    # Rows that look at few keys may be more, as long as nobody minds how long they are.
    for more in (8, 4, 2):
        starts = range(0, first.shape[2], more * step)
        parts = [slice(start, start + more * step) for start in starts]
        if all((last[:, :, p].max() - first[:, :, p].min()) * more * step <= _CELLS // 4 for p in parts):
            return more * step
    return step


def _spans(problem: Problem) -> tuple[np.ndarray | None, np.ndarray | None, Mask | None]:
    """First and past-the-last key of every row, (B, H, T), and the mask that still decides inside them."""
    mask, shape, s = problem.mask, problem.shape, problem.s
    if mask is None or (s.step != 1 and len(s) != shape.S):
        return None, None, mask
    if problem.whole:
        # Only the mask without parameters is worth remembering, and holds on to nothing.
        plan = remembered_plan if mask is CAUSAL else _plan
        return plan(mask, shape.batch, shape.H, shape.T, shape.S)
    found = mask.lowered(problem.cells)
    full = len(problem.b), len(problem.h), len(problem.t)
    first, last = (
        np.broadcast_to((np.clip(edge, s.start, s.start + len(s)) - s.start).astype(np.int32), full)
        for edge in (found.first, found.last)
    )
    return first, last, found.rest


def _plan(mask: Mask, batch: tuple[int, ...], H: int, T: int, S: int) -> tuple[np.ndarray, np.ndarray, Mask | None]:
    first, last, rest = mask.plan(T, S, batch, H)
    shape = prod(batch), H, T
    return np.broadcast_to(first.astype(np.int32), shape), np.broadcast_to(last.astype(np.int32), shape), rest


remembered_plan = lru_cache(maxsize=16)(_plan)


def _view_of_mask(problem: Problem, rest: Mask | None) -> np.ndarray | None:
    """The mask's bits as they lie in memory, (B, H, T, S), where it is an array that the kernels can read."""
    if not isinstance(rest, Keep):
        return None
    full = problem.shape.flattened(rest.array)
    if full is None:
        return None
    ranges = problem.b, problem.h, problem.t, problem.s
    return _readable_view(full[tuple(within(part, range(n)) for part, n in zip(ranges, full.shape, strict=True))])


def _view_of_bias(problem: Problem, bias: Bias | None) -> np.ndarray | None:
    """A bias as it lies in memory, (B, H, T, S), where the kernels can read it."""
    if bias is None:
        return None
    view = bias.view(problem.shape, np.dtype(problem.accumulate), problem.t, problem.s)
    if view is None:
        return None
    view = view[within(problem.b, range(view.shape[0])), within(problem.h, range(view.shape[1]))]
    # Where all keys of a row share a number, that one will do.
    return _readable_view(view[..., :1] if view.shape[-1] > 1 and view.strides[-1] == 0 else view)


def _readable_view(view: np.ndarray) -> np.ndarray | None:
    reads = view.flags.aligned and (view.shape[-1] <= 1 or view.strides[-1] == view.itemsize)
    return view if reads else None


def _spread(
    values: np.ndarray,
    shape: tuple[int, ...],
    keys: slice,
    dtype: np.typing.DTypeLike,
    room: np.ndarray | None,
) -> np.ndarray:
    """Values of some keys, broadcastable to (B, H, T, S) with a unit last stride, in the room of the slice before."""
    own = (*np.broadcast_shapes((1, 1, 1, 1), values.shape)[:-1], shape[-1])
    # Memory of zeros that nobody touches is none.
    held = room if room is not None and room.shape == own else np.zeros(own, dtype)
    held[..., keys] = values
    return held


def native_dtype(problem: Problem, wide: bool) -> Any:
    """The dtype in which the kernels take and give rows."""
    return problem.accumulate if wide or not problem.score.identity else problem.q.dtype.newbyteorder("=")


def readable(x: np.ndarray) -> np.ndarray:
    """Native byte order, aligned, whole strides, unit stride on the last axis; a copy only where it must be."""
    flags, size = x.flags, x.itemsize
    if x.dtype.isnative and flags.aligned:
        if flags.c_contiguous:
            return x
        unit = x.shape[-1] <= 1 or x.strides[-1] == size
        if unit and all(stride % size == 0 for stride in x.strides):
            return x
    return copied(x, x.dtype.newbyteorder("="))


def words(x: np.ndarray) -> np.ndarray:
    """Half types as the 16-bit words that they are."""
    return x.view(np.uint16) if x.itemsize == 2 else x


def some_rows(whole: np.ndarray, rows: slice) -> np.ndarray:
    """Some query rows of an array (B, H, T, …), contiguous: the array itself, a view or a copy."""
    return whole if rows == ALL else np.ascontiguousarray(whole[:, :, rows])


def put(whole: np.ndarray, rows: slice, part: np.ndarray) -> None:
    """Write back what ``some_rows`` lent, if that was a copy."""
    if part is not whole and part.base is not whole:
        whole[:, :, rows] = part
