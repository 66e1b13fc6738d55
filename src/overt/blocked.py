"""The definition, a few query rows at a time: memory linear in length for what no kernel knows yet.

Every function takes a ``Problem`` of NumPy arrays and returns the same as its namesake in ``reference``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from overt import reference
from overt.problem import Problem, within

# 4 MB of float32 for each intermediate of a block.
_CELLS = 1 << 20


def forward(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Output and lse."""
    output = np.zeros((*problem.q.shape[:3], problem.v.shape[-1]), problem.q.dtype)
    lse = np.zeros(problem.q.shape[:3], problem.accumulate)
    for part, place in _blocks(problem):
        output[place], lse[place] = reference.forward(part)
    return output, lse


def statistics(problem: Problem, lse: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Column sums (B, H, S) and entropy (B, H, T)."""
    received = np.zeros((*problem.q.shape[:2], problem.k.shape[2]), np.float64)
    entropy = np.zeros(problem.q.shape[:3], problem.accumulate)
    for part, place in _blocks(problem):
        part_received, entropy[place] = reference.statistics(part, lse[place])
        received[place[:2]] += part_received
    return received.astype(problem.accumulate), entropy


def top(problem: Problem, lse: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k heaviest keys of each row."""
    indices = np.zeros((*problem.q.shape[:3], k), np.int64)
    heaviest = np.zeros(indices.shape, problem.accumulate)
    for part, place in _blocks(problem):
        indices[place], heaviest[place] = reference.top(part, lse[place], k)
    return indices, heaviest


def weights(problem: Problem, lse: np.ndarray) -> np.ndarray:
    """All weights of a problem, which is a tile that the caller chose."""
    result = np.zeros((*problem.q.shape[:3], problem.k.shape[2]), problem.accumulate)
    for part, place in _blocks(problem):
        result[place] = reference.weights(part, lse[place])
    return result


def pooled(problem: Problem, lse: np.ndarray, rows: np.ndarray, columns: np.ndarray, pool: str) -> np.ndarray:
    """Pooled picture of the weights."""
    strips = np.zeros((*problem.q.shape[:3], len(columns)), problem.accumulate)
    for part, place in _blocks(problem):
        strips[place] = reference.pool_axis(np, reference.weights(part, lse[place]), columns, pool, -1)
    return reference.pool_axis(np, strips, rows, pool, -2)


def gradient(problem: Problem, dy: np.ndarray) -> reference.Gradient:
    """Vector-Jacobian product, those of bias and sinks included, in the dtype of accumulation."""
    dq, dk, dv = (np.zeros(x.shape, problem.accumulate) for x in (problem.q, problem.k, problem.v))
    bias = problem.bias
    dbias = None if bias is None else np.zeros(bias.parameter.shape)
    dsinks = None if problem.sinks is None else np.zeros(problem.sinks.shape)
    for part, place in _blocks(problem):
        dq[place], part_dk, part_dv, dscores = reference.pull(part, dy[place])
        keys = place[0], problem.keys_of(part.h)
        dk[keys] += part_dk
        dv[keys] += part_dv
        if bias is not None and dbias is not None:
            bias.pull(dscores, part.cells, dbias)
        if dsinks is not None:
            dsinks[place[1]] -= dscores.sum(axis=(0, 2, 3))
    return reference.Gradient(dq, dk, dv, dbias, dsinks)


def _blocks(problem: Problem) -> Iterator[tuple[Problem, tuple[slice, slice, slice]]]:
    """Parts of the problem, each with its place in results (B, H, T, …)."""
    for part in problem.blocks(_CELLS // problem.score.cells()):
        yield part, (within(part.b, problem.b), within(part.h, problem.h), within(part.t, problem.t))
