"""Attention whose weights somebody else has computed, opened to the same questions."""

from __future__ import annotations

from typing import Any

import numpy as np

from overt.attended import Attended
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Array, host, is_float
from overt.problem import Problem
from overt.scores import scaled_dot


def problem(weights: np.ndarray) -> Problem:
    """Weights (…, H, T, S) as the exponentials of a bias on nothing: q and k have no width, and the lse is 0."""
    *leading, T, S = weights.shape
    with np.errstate(divide="ignore"):
        bias = np.log(weights)
    q, k = np.empty((*leading, T, 0), weights.dtype), np.empty((*leading, S, 0), weights.dtype)
    return Problem.of(q, k, k, score=scaled_dot(1.0), bias=bias)


def given(weights: Array) -> Attended[Any]:
    """Weights (…, H, T, S), or (T, S), as an ``Attended``; rows may sum to less than 1, as with a sink.

    An array of any library, of floats; half types become float32.  It has everything but an output: weights, received,
    entropy, top, map.  Raises ShapeError for fewer than two axes, DtypeError for what is no array of floats, and
    ArgumentError for numbers that are no weights: negative, not finite, rows that sum to more than 1.
    """
    array = host("weights", weights)
    if not is_float(array):
        raise DtypeError(f"weights must be floats, not {array.dtype}")
    if array.ndim < 2:
        raise ShapeError(f"weights have shape {array.shape}: give (…, H, T, S), or (T, S)")
    array = array.astype(np.float64 if array.dtype.name == "float64" else np.float32)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise ArgumentError("weights must be finite and not negative: give them after the softmax")
    # Half types round each of them.
    if array.size and array.sum(-1).max() > 1.05:
        raise ArgumentError(
            f"a row of the weights sums to {array.sum(-1).max():.3g}: give them after the softmax, with the keys last"
        )
    asked = problem(array)
    rows = (asked.shape.B, asked.shape.H, asked.shape.T)
    return Attended(asked, (np.empty((*rows, 0), array.dtype), np.zeros(rows, array.dtype)))
