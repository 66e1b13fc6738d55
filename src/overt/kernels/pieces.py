"""NumPy on arrays of any length, some rows at a time: a signal is heard between two of its calls, and inside none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any

import numpy as np

from overt.grid import WORDS, widened
from overt.scores import Pulled, Score

# Numbers and products that are computed at a time: some milliseconds, and of memory what stays near the processor.
_NUMBERS, _PRODUCTS = 1 << 19, 1 << 29


def pieces(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Where the pieces of an array lie that have at most so many elements, or one, in order."""
    inner = prod(shape[1:])
    step = max(most // max(inner, 1), 1)
    for start in range(0, shape[0], step):
        whole = slice(start, min(start + step, shape[0]))
        if inner <= most or len(shape) == 1:
            yield (whole,)
        else:
            yield from ((whole, *rest) for rest in pieces(shape[1:], most))


def converted(x: np.ndarray, dtype: Any) -> np.ndarray:
    """An array in another dtype, itself where it is that already."""
    return x if x.dtype == dtype else copied(x, dtype)


def copied(x: np.ndarray, dtype: Any) -> np.ndarray:
    """A C-contiguous copy."""
    if x.size <= _NUMBERS:
        return x.astype(dtype, order="C")
    result = np.empty(x.shape, dtype)
    for at in pieces(x.shape, _NUMBERS):
        result[at] = x[at]
    return result


def any_beyond(x: np.ndarray, most: float) -> bool:
    """Whether some number is larger than that, or smaller than its negative.  NaN are not."""
    if 0 < x.size <= _NUMBERS and x.itemsize > 2 and -most <= x.item(x.argmin()) and x.item(x.argmax()) <= most:
        # Of NaN, which would be both, neither is true.
        return False
    for at in pieces(x.shape, _NUMBERS):
        some = widened(x[at], np.dtype(np.float32)) if x.dtype == WORDS else x[at]
        if (np.abs(some) > most).any():
            return True
    return False


def factors(score: Score, q: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """``Score.factors`` of arrays (B, H, T, D) and (B, G, S, D)."""
    if score.identity:
        return score.factors(np, q, k)
    # What a masked key holds may overflow here.
    with np.errstate(invalid="ignore", over="ignore"):
        if q.size + k.size <= _NUMBERS:
            return score.factors(np, q, k)
        # Rows of one, and none of the other.
        left = by_rows(lambda x: score.factors(np, x, k[:0])[0], q)
        right = by_rows(lambda x: score.factors(np, q[:0], x)[1], k)
        return left, right, score.factors(np, q[:0], k[:0])[2]


def by_rows(of: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """A function of the rows (…, I) of an array, which gives rows (…, O)."""
    like = of(x[:0])
    if np.may_share_memory(of(x[:1, :1, :1]), x):
        # These are compared as they are.
        return x
    result = np.empty((*x.shape[:-1], like.shape[-1]), like.dtype)
    for at in pieces(x.shape[:-1], _rows(x, like)):
        result[at] = of(x[at])
    return result


def pull_factors(score: Score, q: np.ndarray, k: np.ndarray, dq: np.ndarray, dk: np.ndarray) -> Pulled:
    """``Score.pull_factors`` of the same, and of the gradients of what ``factors`` gives, in their dtype."""

    def pull(some: tuple[slice, ...], others: tuple[slice, ...]) -> Pulled:
        # A masked key may hold anything.
        left, right = (np.where(np.isfinite(x), x, 0).astype(dq.dtype) for x in (q[some], k[others]))
        return score.pull_factors(np, left, right, dq[some], dk[others])

    none, every = (slice(0),), (slice(None),)
    # A gradient may itself be beyond the range.
    with np.errstate(invalid="ignore", over="ignore"):
        if q.size + k.size <= _NUMBERS:
            return pull(every, every)
        left, right = np.empty(q.shape, dq.dtype), np.empty(k.shape, dk.dtype)
        sums = pull(none, none)[2]
        for at in pieces(q.shape[:-1], _rows(q, dq)):
            left[at], _, into = pull(at, none)
            sums = {name: x + into[name] for name, x in sums.items()}
        for at in pieces(k.shape[:-1], _rows(k, dk)):
            _, right[at], into = pull(none, at)
            sums = {name: x + into[name] for name, x in sums.items()}
        return left, right, sums


def _rows(x: np.ndarray, other: np.ndarray) -> int:
    """How many rows of so many numbers to turn into others at a time."""
    width, others = max(x.shape[-1], 1), max(other.shape[-1], 1)
    return max(min(_NUMBERS // max(width, others), _PRODUCTS // (width * others)), 1)
