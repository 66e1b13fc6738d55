"""Short calls: scaled dot-product attention, causal or not, computes in less time than a ``Problem`` takes to describe.

What these know is read by the compiled module as it is; they say whether they knew it, and nothing of what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overt import _native
from overt.grid import WORDS, Array
from overt.kernels.calls import CAUSAL, remembered_plan, words
from overt.kernels.threads import default
from overt.problem import MOST_POSITIONS, MOST_THREADS
from overt.reference import LARGE

_PLAIN = {np.dtype(t): t for t in ("float16", "float32", "float64")} | {WORDS: "bfloat16"}


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
    q, k, v, filled = (words(x) for x in (q, k, v, output)) if halves else (q, k, v, output)
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
        _native.plain_forward(q, k, v, dtype, scale, first, last, output, lse, threads or default())
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
            q, k, v, dtype, None, first, last, output, lse, dy, dq, dk, dv, LARGE, threads or default()
        )
    except ValueError:
        return False


def plain_picked(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    first: np.ndarray,
    last: np.ndarray,
    lse: Array,
    keys: np.ndarray,
    rows: Sequence[int],
    output: Array,
    threads: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """``picked`` of float32 that needs no preparation, arrays or tensors, with spans int32 (B, H, T).

    To describe a problem takes as long as its statistics where it is small.  None where what is asked is not as plain.
    """
    (B, H, T, _), S = q.shape, k.shape[2]
    received, entropy = np.empty((B, H, S), np.float32), np.empty((B, H, T), np.float32)
    found, off = np.empty((len(keys), B, H, T), np.float32), np.empty((B, H, len(rows), 2), np.float32)
    try:
        native = _native.Problem(q, k, v, scale=scale, first=first, last=last)
        filled = received, entropy, keys, found, rows, output, off
        known = _native.statistics(native, lse, None, *filled, limit=LARGE, threads=threads or default())
    except ValueError:
        # Memory that the kernels do not take as it is.
        return None
    return (received, entropy, found, off) if known else None


def _plain_spans(q: Array, k: Array, mask: Any) -> Any:
    """First and past-the-last keys for the kernels, None twice where there is no mask; None for other masks."""
    if mask is None:
        return None, None
    if mask is not CAUSAL or not (q.ndim == k.ndim and q.ndim in (3, 4)) or k.shape[-2] > MOST_POSITIONS:
        return None
    return remembered_plan(mask, tuple(q.shape[:-3]), *q.shape[-3:-1], k.shape[-2])[:2]
