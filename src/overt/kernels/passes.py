"""What is computed of a problem, each the namesake of a function in ``reference``: forward, backward, statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overt import _native
from overt.kernels.calls import ALL, calls, native_dtype, put, readable, rows_of, some_rows, words
from overt.kernels.pieces import converted, pull_factors
from overt.kernels.threads import default
from overt.problem import Problem
from overt.reference import LARGE, Gradient, is_large, pool_axis
from overt.scores import Additive

# What each key receives (B, H, S) and the entropy of each row (B, H, T).
Statistics = tuple[np.ndarray, np.ndarray]


def can(problem: Problem) -> bool:
    """Whether the kernels know this problem."""
    return problem.xp is np


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
    dtype = native_dtype(problem, wide=False)
    output = np.empty((B, H, T, problem.v.shape[-1]), dtype)
    lse = np.empty((B, H, T), accumulate)
    found = (np.zeros((B, H, S), accumulate), np.empty((B, H, T), accumulate)) if along else None
    for native, rows in calls(problem):
        y, row_lse = some_rows(output, rows), some_rows(lse, rows)
        row_rest = None if rest is None else some_rows(rest, rows)
        part = None
        if found is not None:
            # What keys receive from slices is added up.
            part = found[0] if rows == ALL else np.empty_like(found[0]), some_rows(found[1], rows)
        filled = _native.forward(
            native, words(y), row_lse, row_rest, *(part or ()), threads=problem.threads or default(), level=level
        )
        put(output, rows, y)
        put(lse, rows, row_lse)
        if rest is not None and row_rest is not None:
            put(rest, rows, row_rest)
        if found is None or part is None or not filled:
            # What a part of the rows lacks, the whole lacks.
            found = None
            continue
        if part[0] is not found[0]:
            found[0][...] += part[0]
        put(found[1], rows, part[1])
    return converted(output, problem.q.dtype), lse, found


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
    dtype = native_dtype(problem, wide)
    output, dy = (readable(converted(x, dtype)) for x in (output, dy))
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
    step = None if bias is None else rows_of(B * H * S)
    every = calls(problem, wide=wide, step=step)
    once = isinstance(every, tuple)
    # dk, dv, dsinks and that of the additive score's v: where there are several calls, each gives a part.
    shapes = (*problem.k.shape[:3], D) if of_k else None, problem.v.shape if of_v else None, (H,), additive or (0,)
    room = np.empty if once and B * H else np.zeros
    sums = [None if shape is None else room(shape, accumulate) for shape in shapes]
    sums_of_rows = _log_sums(problem, lse, level, wide=wide, back=True)
    for native, rows in every:
        row_dq = None if dq is None else some_rows(dq, rows)
        parts = sums if once else [None if x is None else np.zeros_like(x) for x in sums]
        dscores = None if bias is None else np.empty((B, H, len(range(T)[rows]), S), accumulate)
        _native.backward(
            native,
            words(output[:, :, rows]),
            *_of_rows(sums_of_rows, rows),
            words(dy[:, :, rows]),
            None if dlse is None else some_rows(dlse, rows),
            row_dq,
            parts[0],
            parts[1],
            dscores,
            None if problem.sinks is None else parts[2],
            parts[3] if additive else None,
            threads=problem.threads or default(),
            level=level,
        )
        if dq is not None and row_dq is not None:
            put(dq, rows, row_dq)
        if not once:
            for whole, part in zip(sums, parts, strict=True):
                if whole is not None and part is not None:
                    whole += part
        if bias is not None and dbias is not None and dscores is not None:
            bias.pull(dscores, problem.part(t=problem.t[rows]).cells, dbias)
    dk, dv, dsinks, dadditive = sums
    into_score: dict[str, Any] = {}
    if not score.identity:
        assert dq is not None
        assert dk is not None
        dq, dk, into_score = pull_factors(score, problem.q, problem.k, dq, dk)
    if additive:
        into_score["v"] = dadditive
    return Gradient(dq, dk, dv, dbias, None if problem.sinks is None else dsinks, into_score)


def statistics(problem: Problem, lse: np.ndarray, *, level: str | None = None) -> Statistics:
    """Received and entropy, for the price of one."""
    none = np.empty((0, problem.q.shape[0], problem.q.shape[2]), np.int32)
    return picked(problem, lse, none, level=level)[:2]


def picked(
    problem: Problem,
    lse: np.ndarray,
    keys: np.ndarray,
    rows: Sequence[int] = (),
    output: np.ndarray | None = None,
    *,
    level: str | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Received and entropy, and of the weights that they come from single ones, and what some rows of them make.

    keys: int32 (C, B, T), a key for each query, negative for none.  The weights of these, (C, B, H, T), are NaN where
    there is none and where the query sees nothing.  rows: queries whose weights times the values are compared with an
    output (B, H, T, E) that somebody else made of them: (B, H, len(rows), 2), the largest difference and the largest of
    these products, 0 where the query sees nothing.
    """
    (B, H, T, _), S, accumulate = problem.q.shape, problem.k.shape[2], problem.accumulate
    received, entropy = np.zeros((B, H, S), accumulate), np.empty((B, H, T), accumulate)
    found, off = np.empty((len(keys), B, H, T), accumulate), np.zeros((B, H, len(rows), 2), accumulate)
    if output is not None:
        output = words(readable(converted(output, native_dtype(problem, wide=False))))
    sums = _log_sums(problem, lse, level)
    for native, some in calls(problem):
        part, row_entropy = np.empty_like(received), some_rows(entropy, some)
        own = [i for i, t in enumerate(rows) if t in range(T)[some]]
        row_found = np.empty((len(keys), *row_entropy.shape), accumulate)
        row_off = np.zeros((B, H, len(own), 2), accumulate)
        _native.statistics(
            native,
            *_of_rows(sums, some),
            part,
            row_entropy,
            np.ascontiguousarray(keys[:, :, some]),
            row_found,
            [rows[i] - (some.start or 0) for i in own],
            None if output is None else output[:, :, some],
            row_off,
            threads=problem.threads or default(),
            level=level,
        )
        received += part
        put(entropy, some, row_entropy)
        found[:, :, :, some], off[:, :, own] = row_found, row_off
    return received, entropy, found, off


def top(problem: Problem, lse: np.ndarray, k: int, *, level: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k heaviest keys of each row."""
    indices = np.empty((*problem.q.shape[:3], k), np.int64)
    heaviest = np.empty(indices.shape, problem.accumulate)
    sums = _log_sums(problem, lse, level)
    for native, rows in calls(problem):
        row_indices, row_heaviest = some_rows(indices, rows), some_rows(heaviest, rows)
        _native.top(
            native,
            *_of_rows(sums, rows),
            row_indices,
            row_heaviest,
            threads=problem.threads or default(),
            level=level,
        )
        put(indices, rows, row_indices)
        put(heaviest, rows, row_heaviest)
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
    for native, part in calls(problem):
        if part == ALL:
            picture = np.empty((*problem.q.shape[:2], len(rows), len(columns)), problem.accumulate)
            _native.map(native, *sums, rows, columns, picture, pool, threads=problem.threads or default(), level=level)
            return picture
        # A bin may reach over several calls: pool the columns of every row now, and the rows at the end.
        if strips is None:
            strips = np.empty((*problem.q.shape[:3], len(columns)), problem.accumulate)
        row_sums, row_strips = _of_rows(sums, part), some_rows(strips, part)
        single = np.arange(row_strips.shape[2])[:, None] + [0, 1]
        _native.map(
            native, *row_sums, single, columns, row_strips, pool, threads=problem.threads or default(), level=level
        )
        put(strips, part, row_strips)
    return pool_axis(np, strips, rows, pool, -2)


def weights(problem: Problem, lse: np.ndarray, *, level: str | None = None) -> np.ndarray:
    """All weights of a problem, which is a tile that the caller chose."""
    result = np.empty((*problem.q.shape[:3], problem.k.shape[2]), problem.accumulate)
    sums = _log_sums(problem, lse, level)
    for native, rows in calls(problem):
        row_result = some_rows(result, rows)
        _native.weights(native, *_of_rows(sums, rows), row_result, threads=problem.threads or default(), level=level)
        put(result, rows, row_result)
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
        # Of a file it may be read only, which the kernels do not take.
        return np.require(lse, requirements=("C", "W")), None
    if back and (level or levels()[0]) == "amx":
        # Tiles know no way back.
        level = "v4"
    value, rest = np.empty_like(lse), np.empty_like(lse)
    for native, rows in calls(replace(problem, v=problem.v[..., :0], dropout=None), wide=wide):
        row_value, row_rest = some_rows(value, rows), some_rows(rest, rows)
        nothing = np.empty((*row_value.shape, 0), native_dtype(problem, wide))
        _native.forward(
            native,
            words(nothing),
            row_value,
            row_rest,
            threads=problem.threads or default(),
            level=level,
            panels=back,
        )
        put(value, rows, row_value)
        put(rest, rows, row_rest)
    blind = lse == -np.inf
    value[blind], rest[blind] = -np.inf, 0
    return value, rest


def _of_rows(sums: tuple[np.ndarray, np.ndarray | None], rows: slice) -> tuple[np.ndarray, np.ndarray | None]:
    """Log-sums of some query rows."""
    value, rest = sums
    return some_rows(value, rows), None if rest is None else some_rows(rest, rows)
