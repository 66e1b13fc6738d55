"""The only importer of the compiled module: can it, run it.

Every function takes a ``Problem`` of NumPy arrays and returns the same as its namesake in ``reference``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

from overt import _native
from overt.biases import Bias
from overt.grid import WORDS, Array, dtype_name, host, widened
from overt.masks import Keep, Mask, causal
from overt.problem import MOST_POSITIONS, MOST_THREADS, Problem, thread_count, within
from overt.reference import LARGE, Gradient, is_large, pool_axis
from overt.scores import Additive

# Cells of a mask or bias that is no view of memory are worked out about this many at a time.
_CELLS = 1 << 21
# Keys are packed once a call, so a call wants some rows.
_ROWS = 16
_ALL = slice(None)
# Projections up to this size can be raised to e^{2x} and multiplied without overflow.
_BOUND = 10
_CAUSAL = causal()
# What each key receives (B, H, S) and the entropy of each row (B, H, T).
Statistics = tuple[np.ndarray, np.ndarray]
_PLAIN = {np.dtype(t): t for t in ("float16", "float32", "float64")} | {WORDS: "bfloat16"}
# 0 leaves the choice to the compiled module.
_threads = 0


def can(problem: Problem) -> bool:
    """Whether the kernels know this problem."""
    return problem.xp is np


def set_num_threads(count: int | None) -> None:
    """Use this many threads from now on; None goes back to the default, which honours OMP_NUM_THREADS."""
    global _threads
    _threads = 0 if count is None else thread_count(count)


def get_num_threads() -> int:
    """Threads that a call uses unless it says otherwise."""
    return _threads or _native.threads()


def levels() -> list[str]:
    """Instruction sets that this machine can run, the best first."""
    return _native.levels()


def forward(problem: Problem, *, level: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse."""
    return _forward(problem, level, along=False)[:2]


def attend(problem: Problem, *, level: str | None = None) -> tuple[np.ndarray, np.ndarray, Statistics | None]:
    """Output, lse and, where they come along for little, the statistics."""
    return _forward(problem, level, along=True)


def forward_in_full(problem: Problem, *, level: str | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, lse, and what rounding the lse to the dtype of accumulation leaves out."""
    rest = np.zeros(problem.q.shape[:3], problem.accumulate)
    return *_forward(problem, level, along=False, rest=rest)[:2], rest


def _forward(
    problem: Problem, level: str | None, *, along: bool, rest: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, Statistics | None]:
    (B, H, T, _), S, accumulate = problem.q.shape, problem.k.shape[2], problem.accumulate
    dtype = _native_dtype(problem, wide=False)
    output = np.empty((B, H, T, problem.v.shape[-1]), dtype)
    lse = np.empty((B, H, T), accumulate)
    # Empty where nobody asks.
    received, entropy = np.zeros((B, H, S * along), accumulate), np.empty((B, H, T * along), accumulate)
    for native, rows in _calls(problem):
        y, row_lse, row_entropy = (_rows(x, rows) for x in (output, lse, entropy))
        row_rest = None if rest is None else _rows(rest, rows)
        part = np.empty_like(received)
        statistics = (part, row_entropy) if along else ()
        along = _native.forward(
            native, _words(y), row_lse, row_rest, *statistics, threads=problem.threads or _threads, level=level
        )
        for whole, some in ((output, y), (lse, row_lse), (entropy, row_entropy)):
            _put(whole, rows, some)
        if rest is not None and row_rest is not None:
            _put(rest, rows, row_rest)
        if along:
            received += part
    return output.astype(problem.q.dtype, copy=False), lse, (received, entropy) if along else None


def plain(q: Array, k: Array, v: Array, scale: float | None, mask: Any, threads: Any) -> Any:
    """Output of scaled dot-product attention, causal or not, of arrays that need no preparation; None for all others.

    A small problem computes in less time than it takes to describe it as a ``Problem``.
    """
    if threads is not None and not (type(threads) is int and 0 < threads <= MOST_THREADS):
        return None
    if not (type(q) is type(k) is type(v) is np.ndarray and q.dtype is k.dtype is v.dtype and v.ndim):
        return None
    dtype = q.dtype
    name = _PLAIN.get(dtype) or (dtype.itemsize == 2 and dtype.name == "bfloat16" and "bfloat16")
    if not name:
        return None
    output = np.empty((*q.shape[:-1], v.shape[-1]), dtype)
    halves = dtype.itemsize == 2
    q, k, v, filled = (_words(x) for x in (q, k, v, output)) if halves else (q, k, v, output)
    return output if plain_forward(q, k, v, name, scale, mask, filled, None, threads or 0) else None


def plain_forward(
    q: Array,
    k: Array,
    v: Array,
    dtype: str,
    scale: float | None,
    mask: Any,
    output: Array,
    lse: Array | None,
    threads: int,
) -> bool:
    """Fill the output and, unless None, the lse of the same; of NumPy's arrays, half types as words, or of tensors."""
    spans = _plain_spans(q, k, mask)
    if spans is None:
        return False
    try:
        first, last = spans
        _native.plain_forward(q, k, v, dtype, scale, first, last, output, lse, threads or _threads)
    except ValueError:
        # What is wrong, if anything, is said by Problem.of.
        return False
    return True


def plain_gradient(
    q: Array,
    k: Array,
    v: Array,
    dtype: str,
    mask: Any,
    output: Array,
    lse: Array,
    dy: Array,
    dq: Array | None,
    dk: Array | None,
    dv: Array | None,
    threads: int,
) -> bool:
    """Fill the gradients of q, k and v, in the dtype of accumulation, that are not None; False where a sum is large."""
    spans = _plain_spans(q, k, mask)
    if spans is None:
        return False
    try:
        first, last = spans
        return _native.plain_backward(
            q, k, v, dtype, None, first, last, output, lse, dy, dq, dk, dv, LARGE, threads or _threads
        )
    except ValueError:
        return False


def _plain_spans(q: Array, k: Array, mask: Any) -> Any:
    """First and past-the-last keys for the kernels, None twice where there is no mask; None for other masks."""
    if mask is None:
        return None, None
    if mask is not _CAUSAL or not (q.ndim == k.ndim and q.ndim in (3, 4)) or k.shape[-2] > MOST_POSITIONS:
        return None
    return _remembered_plan(mask, tuple(q.shape[:-3]), *q.shape[-3:-1], k.shape[-2])[:2]


def gradient(
    problem: Problem,
    output: np.ndarray,
    lse: np.ndarray,
    dy: np.ndarray,
    dlse: np.ndarray | None = None,
    *,
    constant: bool = False,
    wanted: Sequence[bool] = (True, True, True),
    level: str | None = None,
) -> Gradient:
    """Vector-Jacobian product from what ``forward`` gave, in the dtype of accumulation.

    A ``constant`` bias gets none, and of q, k and v only those that are ``wanted`` do: the others cost nothing.
    """
    score, bias, accumulate = problem.score, None if constant else problem.bias, problem.accumulate
    (B, H, T, _), S = problem.q.shape, problem.k.shape[2]
    # A dy that is finer than the inputs stays so.
    wide = not score.identity or dy.dtype != problem.q.dtype
    dtype = _native_dtype(problem, wide)
    output, dy = (_readable(x.astype(dtype, copy=False)) for x in (output, dy))
    if dlse is not None:
        dlse = np.ascontiguousarray(dlse, accumulate)
    additive = score.v.shape if isinstance(score, Additive) else None
    # Of what the score compares.
    D = additive[0] if additive else problem.k.shape[3]
    # What is compared is made of q, k and the score's parameters, and pulls at all of them.
    of_q, of_k, of_v = wanted if score.identity else (True, True, wanted[2])
    dq = np.empty((B, H, T, D), accumulate) if of_q else None
    dbias = None if bias is None else bias.zeros()
    # The kernel writes the gradient of all scores when asked for the bias's, so ask for some rows at a time.
    step = None if bias is None else max(_CELLS // max(B * H * S, 1), _ROWS)
    calls = _calls(problem, wide=wide, step=step)
    once = isinstance(calls, tuple)
    # dk, dv, dsinks and that of the additive score's v: where there are several calls, each gives a part.
    shapes = (*problem.k.shape[:3], D) if of_k else None, problem.v.shape if of_v else None, (H,), additive or (0,)
    room = np.empty if once and B * H else np.zeros
    sums = [None if shape is None else room(shape, accumulate) for shape in shapes]
    sums_of_rows = _log_sums(problem, lse, level, wide=wide, back=True)
    for native, rows in calls:
        row_dq = None if dq is None else _rows(dq, rows)
        parts = sums if once else [None if x is None else np.zeros_like(x) for x in sums]
        dscores = None if bias is None else np.empty((B, H, len(range(T)[rows]), S), accumulate)
        _native.backward(
            native,
            _words(output[:, :, rows]),
            *_of_rows(sums_of_rows, rows),
            _words(dy[:, :, rows]),
            None if dlse is None else _rows(dlse, rows),
            row_dq,
            parts[0],
            parts[1],
            dscores,
            None if problem.sinks is None else parts[2],
            parts[3] if additive else None,
            threads=problem.threads or _threads,
            level=level,
        )
        if dq is not None and row_dq is not None:
            _put(dq, rows, row_dq)
        if not once:
            for whole, part in zip(sums, parts, strict=True):
                if whole is not None and part is not None:
                    whole += part
        if bias is not None and dbias is not None and dscores is not None:
            bias.pull(dscores, problem.part(t=problem.t[rows]).cells, dbias)
    dk, dv, dsinks, dadditive = sums
    into_score: dict[str, Any] = {}
    if not score.identity:
        # A masked key may hold anything.
        q, k = (np.where(np.isfinite(x), x, 0).astype(accumulate) for x in (problem.q, problem.k))
        # A gradient may itself be beyond the range.
        with np.errstate(invalid="ignore", over="ignore"):
            dq, dk, into_score = score.pull_factors(np, q, k, dq, dk)
    if additive:
        into_score["v"] = dadditive
    return Gradient(dq, dk, dv, dbias, None if problem.sinks is None else dsinks, into_score)


def statistics(problem: Problem, lse: np.ndarray, *, level: str | None = None) -> Statistics:
    """Received and entropy, for the price of one."""
    none = np.empty((0, problem.q.shape[0], problem.q.shape[2]), np.int32)
    return picked(problem, lse, none, (), level=level)[:2]


def picked(
    problem: Problem, lse: np.ndarray, keys: np.ndarray, rows: Sequence[int], *, level: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Received and entropy, and of the weights that they come from single ones and some rows.

    keys: int32 (C, B, T), a key for each query, negative for none.  The weights of these, (C, B, H, T), are NaN where
    there is none and where the query sees nothing.  rows: queries whose weights (B, H, len(rows), S) are wanted whole.
    """
    (B, H, T, _), S, accumulate = problem.q.shape, problem.k.shape[2], problem.accumulate
    received, entropy = np.zeros((B, H, S), accumulate), np.empty((B, H, T), accumulate)
    found, whole = np.empty((len(keys), B, H, T), accumulate), np.zeros((B, H, len(rows), S), accumulate)
    sums = _log_sums(problem, lse, level)
    for native, some in _calls(problem):
        part, row_entropy = np.empty_like(received), _rows(entropy, some)
        own = [i for i, t in enumerate(rows) if t in range(T)[some]]
        row_found = np.empty((len(keys), *row_entropy.shape), accumulate)
        weights = np.zeros((B, H, len(own), S), accumulate)
        _native.statistics(
            native,
            *_of_rows(sums, some),
            part,
            row_entropy,
            np.ascontiguousarray(keys[:, :, some]),
            row_found,
            [rows[i] - (some.start or 0) for i in own],
            weights,
            threads=problem.threads or _threads,
            level=level,
        )
        received += part
        _put(entropy, some, row_entropy)
        found[:, :, :, some], whole[:, :, own] = row_found, weights
    return received, entropy, found, whole


def plain_picked(
    q: Array,
    k: Array,
    scale: float,
    first: np.ndarray,
    last: np.ndarray,
    lse: Array,
    keys: np.ndarray,
    rows: Sequence[int],
    threads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """``picked`` of float32 that needs no preparation, arrays or tensors, with spans int32 (B, H, T).

    To describe a problem takes as long as its statistics where it is small.  No |lse| exceeds ``reference.LARGE``.
    """
    (B, H, T, _), S = q.shape, k.shape[2]
    received, entropy = np.empty((B, H, S), np.float32), np.empty((B, H, T), np.float32)
    found, whole = np.empty((len(keys), B, H, T), np.float32), np.zeros((B, H, len(rows), S), np.float32)
    native = _native.Problem(q, k, None, scale=scale, first=first, last=last)
    _native.statistics(native, lse, None, received, entropy, keys, found, rows, whole, threads=threads or _threads)
    return received, entropy, found, whole


def top(problem: Problem, lse: np.ndarray, k: int, *, level: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k heaviest keys of each row."""
    indices = np.empty((*problem.q.shape[:3], k), np.int64)
    heaviest = np.empty(indices.shape, problem.accumulate)
    sums = _log_sums(problem, lse, level)
    for native, rows in _calls(problem):
        row_indices, row_heaviest = _rows(indices, rows), _rows(heaviest, rows)
        _native.top(
            native,
            *_of_rows(sums, rows),
            row_indices,
            row_heaviest,
            threads=problem.threads or _threads,
            level=level,
        )
        _put(indices, rows, row_indices)
        _put(heaviest, rows, row_heaviest)
    return indices, heaviest


def pooled(
    problem: Problem,
    lse: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    pool: str,
    *,
    level: str | None = None,
) -> np.ndarray:
    """Pooled picture of the weights."""
    strips, sums = None, _log_sums(problem, lse, level)
    for native, part in _calls(problem):
        if part == _ALL:
            picture = np.empty((*problem.q.shape[:2], len(rows), len(columns)), problem.accumulate)
            _native.map(native, *sums, rows, columns, picture, pool, threads=problem.threads or _threads, level=level)
            return picture
        # A bin may reach over several calls: pool the columns of every row now, and the rows at the end.
        if strips is None:
            strips = np.empty((*problem.q.shape[:3], len(columns)), problem.accumulate)
        row_sums, row_strips = _of_rows(sums, part), _rows(strips, part)
        single = np.arange(row_strips.shape[2])[:, None] + [0, 1]
        _native.map(
            native, *row_sums, single, columns, row_strips, pool, threads=problem.threads or _threads, level=level
        )
        _put(strips, part, row_strips)
    return pool_axis(np, strips, rows, pool, -2)


def weights(problem: Problem, lse: np.ndarray, *, level: str | None = None) -> np.ndarray:
    """All weights of a problem, which is a tile that the caller chose."""
    result = np.empty((*problem.q.shape[:3], problem.k.shape[2]), problem.accumulate)
    sums = _log_sums(problem, lse, level)
    for native, rows in _calls(problem):
        row_result = _rows(result, rows)
        _native.weights(native, *_of_rows(sums, rows), row_result, threads=problem.threads or _threads, level=level)
        _put(result, rows, row_result)
    return result


def _log_sums(
    problem: Problem, lse: np.ndarray, level: str | None, *, wide: bool = False, back: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """log Σ exp(scores) of each row as two numbers: the lse, and what that leaves out, None where that is nothing.

    Large ones are computed anew, just as the pass, or the way ``back``, computes its scores: their last bits count.
    An lse of blocks, which is finer than their scores, is divided.
    """
    if lse.dtype != problem.accumulate:
        value = lse.astype(problem.accumulate, order="C")
        if not is_large(np, lse):
            return value, None
        finite = np.where(np.isfinite(lse), lse, 0)
        return value, (finite - np.where(np.isfinite(lse), value, 0)).astype(value.dtype, order="C")
    # One comparison is enough nearly always; the second knows what to make of rows that see nothing.
    if len(problem.s) < problem.shape.S or (np.abs(lse) <= LARGE).all() or not is_large(np, lse):
        return np.ascontiguousarray(lse), None
    if back and (level or levels()[0]) == "amx":
        # Tiles know no way back.
        level = "v4"
    value, rest = np.empty_like(lse), np.empty_like(lse)
    for native, rows in _calls(replace(problem, v=problem.v[..., :0], dropout=None), wide=wide):
        row_value, row_rest = _rows(value, rows), _rows(rest, rows)
        nothing = np.empty((*row_value.shape, 0), _native_dtype(problem, wide))
        _native.forward(
            native,
            _words(nothing),
            row_value,
            row_rest,
            threads=problem.threads or _threads,
            level=level,
            panels=back,
        )
        _put(value, rows, row_value)
        _put(rest, rows, row_rest)
    blind = lse == -np.inf
    value[blind], rest[blind] = -np.inf, 0
    return value, rest


def _of_rows(sums: tuple[np.ndarray, np.ndarray | None], rows: slice) -> tuple[np.ndarray, np.ndarray | None]:
    """Log-sums of some query rows."""
    value, rest = sums
    return _rows(value, rows), None if rest is None else _rows(rest, rows)


def _native_dtype(problem: Problem, wide: bool) -> Any:
    """The dtype in which the kernels take and give rows."""
    return problem.accumulate if wide or not problem.score.identity else problem.q.dtype.newbyteorder("=")


def _calls(problem: Problem, *, wide: bool = False, step: int | None = None) -> Iterable[tuple[_native.Problem, slice]]:
    """The problem as the kernels take it, one call for each slice of query rows; nearly always that is all of them.

    ``wide`` asks for the dtype of accumulation, and ``step`` for slices of that many rows.
    """
    q, k, v = problem.q, problem.k, problem.v
    score = problem.score
    if wide or not score.identity:
        q, k, v = (x.astype(problem.accumulate, copy=False) for x in (q, k, v))
    # What a masked key holds may overflow here.
    with np.errstate(invalid="ignore", over="ignore"):
        q, k, scale = score.factors(np, q, k)
    q, k, v = _readable(q), _readable(k), _readable(v)
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
        same["additive"] = np.array(host("v", score.v), problem.accumulate, order="C")
        # NaN are no reason to take care.
        numbers = (widened(x, np.dtype(np.float32)) if x.dtype == WORDS else x for x in (q, k))
        same["bounded"] = not any((np.abs(x) > _BOUND).any() for x in numbers)
    if problem.dropout is not None:
        same |= {"dropout": problem.dropout.rate, "seed": problem.dropout.seed, "first_query": problem.t.start}
    q, k, v = _words(q), _words(k), _words(v)
    first, last, rest = _spans(problem)
    bits, bias = _view_of_mask(problem, rest), _view_of_bias(problem, problem.bias)
    if step is None and (rest is None or bits is not None) and (problem.bias is None or bias is not None):
        native = _native.Problem(q, k, v, first=first, last=last, bits=bits, bias=bias, **same)
        return ((native, _ALL),)
    step = step or _rows_of(first, last, k.shape[2])
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
                (term, None if x is None else x[:, :, rows, keys if x.shape[-1] > 1 else _ALL]) for term, x in views
            )
            summed = reduce(np.add, (term.at(cells) if x is None else x for term, x in shared))
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


def _rows_of(first: np.ndarray | None, last: np.ndarray | None, S: int) -> int:
    """How many rows to work out at a time: with those cells that their spans reach, about ``_CELLS`` a head."""
    step = max(_CELLS // max(S, 1), _ROWS)
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
        plan = _remembered_plan if mask is _CAUSAL else _plan
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


_remembered_plan = lru_cache(maxsize=16)(_plan)


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
    readable = view.flags.aligned and (view.shape[-1] <= 1 or view.strides[-1] == view.itemsize)
    return view if readable else None


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


def _readable(x: np.ndarray) -> np.ndarray:
    """Native byte order, aligned, whole strides, unit stride on the last axis; a copy only where it must be."""
    flags, size = x.flags, x.itemsize
    if x.dtype.isnative and flags.aligned:
        if flags.c_contiguous:
            return x
        unit = x.shape[-1] <= 1 or x.strides[-1] == size
        if unit and all(stride % size == 0 for stride in x.strides):
            return x
    return np.array(x, x.dtype.newbyteorder("="), order="C")


def _words(x: np.ndarray) -> np.ndarray:
    """Half types as the 16-bit words that they are."""
    return x.view(np.uint16) if x.itemsize == 2 else x


def _rows(whole: np.ndarray, rows: slice) -> np.ndarray:
    """Some query rows of an array (B, H, T, …), contiguous: the array itself, a view or a copy."""
    return whole if rows == _ALL else np.ascontiguousarray(whole[:, :, rows])


def _put(whole: np.ndarray, rows: slice, part: np.ndarray) -> None:
    """Write back what ``_rows`` lent, if that was a copy."""
    if part is not whole and part.base is not whole:
        whole[:, :, rows] = part
