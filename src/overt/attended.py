"""The result of attention, kept open: where every query looked, without ever holding the whole matrix."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import Any, Generic, Literal

import numpy as np

from overt import kernels, reference
from overt.bits import settled
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Array, ArrayT, Shape, dtype_name, host, is_float, plain, shown, whole
from overt.problem import Problem, namespace
from overt.reference import Gradient
from overt.weights import Weights, sound


def engine(problem: Problem) -> ModuleType:
    """The fastest module that can compute a problem."""
    return kernels if kernels.can(problem) else reference


class Attended(Generic[ArrayT]):
    """Attention whose output, weights and statistics can be asked for, in memory linear in T and S.

    The mask is worked out once: kept are a span of keys per query and, where spans do not suffice, at most 64 MiB of
    packed bits; a mask with more of them is asked again for each question.

    Shapes are written for inputs with heads; inputs q (T, D) without a heads axis give results without one.
    Statistics are float32, or float64 for float64 inputs, and are those of the weights before dropout.

    Weights, statistics and gradients are computed when they are asked for, from q, k, v, the mask and the bias as they
    are then: these arrays are shared with the caller and must not change while the result is in use.  Weights that come
    out beyond 1 raise ArgumentError.
    """

    def __init__(self, problem: Problem, found: tuple[Array, Array] | None = None) -> None:
        """found: output (B, H, T, E) and lse (B, H, T) where another engine has computed them already.

        lse may be rounded to the dtype of accumulation: where it is so large that this would show in the weights, the
        rows are summed up anew.
        """
        self._along: tuple[Array, Array] | None = None
        if found:
            self._output, self._lse = (plain(name, x) for name, x in zip(("output", "lse"), found, strict=True))
        else:
            if problem.mask is not None:
                problem = replace(problem, mask=settled(problem.mask, problem.shape))
            self._output, self._lse, self._along = engine(problem).attend(problem)
        self._problem = problem

    def __repr__(self) -> str:
        return f"Attended(output {tuple(self.output.shape)} {self.output.dtype}, weights {self.weights.shape})"

    @property
    def _engine(self) -> ModuleType:
        return engine(self._problem)

    @property
    def problem(self) -> Problem:
        """What was asked, with every default and broadcast made plain."""
        return self._problem

    @property
    def output(self) -> ArrayT:
        """(…, H, T, E) in the dtype of q.  Read-only: copy it to change it."""
        return self._lent(self._output)

    @property
    def lse(self) -> ArrayT:
        """(…, H, T) natural log-sum-exp of the masked scores, sinks included; −∞ where nothing is seen.  Read-only."""
        return self._lent(self._lse)

    @property
    def weights(self) -> Weights[ArrayT]:
        """(…, H, T, S), computed when indexed, and only the cells asked for."""
        return Weights(self._problem, self._lse, self._engine.weights)

    def received(self) -> ArrayT:
        """(…, H, S) attention that each key receives: the column sums of the weights.  Read-only."""
        return self._lent(self._statistics[0])

    def entropy(self) -> ArrayT:
        """(…, H, T) entropy −Σ w ln w of each row of weights, in nats; what a sink takes is not counted.  Read-only."""
        return self._lent(self._statistics[1])

    def top(self, k: int) -> tuple[ArrayT, ArrayT]:
        """Indices and weights, each (…, H, T, k), of the k heaviest keys, largest first, ties to the lower index.

        Masked keys have weight 0.  Raises ArgumentError unless 1 ≤ k ≤ S.
        """
        if not 1 <= whole("k", k) <= self._problem.shape.S:
            raise ArgumentError(f"top(k) wants 1 ≤ k ≤ S = {self._problem.shape.S}, not {shown(k)}")
        indices, heaviest = self._engine.top(self._problem, self._lse, k)
        self._check(heaviest)
        return self._problem.outward(indices), self._problem.outward(heaviest)

    def map(self, rows: int, columns: int, pool: Literal["max", "mean"] = "max") -> ArrayT:
        """(…, H, rows, columns) picture of the whole matrix: the largest or the mean weight in each cell of a grid.

        Bin i of n over an axis of length L holds ⌊i·L/n⌋ ≤ index < ⌈(i+1)·L/n⌉, the rule of adaptive pooling;
        asking for more bins than there are indices repeats them.
        """
        edges = bins(self._problem.shape, rows, columns, pool)
        picture = self._engine.pooled(self._problem, self._lse, *edges, pool)
        self._check(picture)
        return self._problem.outward(picture)

    def gradient(self, dy: ArrayT, dlse: ArrayT | None = None) -> Gradient[ArrayT]:
        """Vector-Jacobian product with dy (…, H, T, E): named tuple (q, k, v, bias), each shaped like its input.

        dlse (…, H, T) is the gradient of the lse, where the loss depends on that.
        ``bias`` is the gradient for the bias array, ALiBi's slopes or T5's table, and None where there is no bias.
        The result also has ``sinks``, (H,), None where there are none, and ``score``, a dict of the gradients of the
        score's parameters: ``weight`` of ``bilinear``; ``query_weight``, ``key_weight``, ``v`` and ``bias`` of
        ``additive``.
        """
        problem = self._problem
        dy = inward(problem, "dy", dy, "output", self.output, self._output.shape)
        if dlse is not None:
            dlse = inward(problem, "dlse", dlse, "lse", self.lse, self._lse.shape)
        if kernels.can(problem):
            found = kernels.gradient(problem, self._output, self._lse, dy, dlse)
        else:
            found = reference.gradient(problem, dy, dlse)
        xp, dtype = problem.xp, problem.q.dtype
        pulled = [problem.unbroadcast(x, shape) for x, shape in zip(found[:3], problem.given, strict=True)]
        # To ask takes a third of what a conversion to the same takes.
        convert = kernels.converted if xp is np else xp.astype
        pulled = [x if x.dtype == dtype else convert(x, dtype) for x in pulled]
        pulled += [None if x is None else problem.beside(x) for x in (found.bias, found.sinks)]
        weights = found.score
        if problem.back is not None:
            pulled = [_handed(problem, x) for x in pulled]
            weights = {name: _handed(problem, x) for name, x in weights.items()}
        q, k, v, bias, sinks = pulled
        return Gradient(q, k, v, bias, sinks, weights)

    def _lent(self, x: Array) -> Array:
        """A result that later answers are computed from, so that nobody may write to it."""
        problem = self._problem
        if type(x) is not np.ndarray:
            return problem.outward(x)
        if problem.back is not None:
            return problem.outward(x.copy())
        view = problem.outward(x)
        view = x.view() if view is x else view
        view.setflags(write=False)
        return view

    @cached_property
    def _statistics(self) -> tuple[Array, Array]:
        if self._along:
            return self._along
        received, entropy = self._engine.statistics(self._problem, self._lse)
        self._check(received / max(self._problem.shape.T, 1))
        return received, entropy

    def _check(self, weights: Array) -> None:
        if isinstance(weights, np.ndarray):
            sound(weights)


def bins(shape: Shape, rows: int, columns: int, pool: str) -> tuple[np.ndarray, np.ndarray]:
    """Bins (rows, 2) of the queries and (columns, 2) of the keys that a picture pools: start ≤ i < end."""
    if pool not in ("max", "mean"):
        raise ArgumentError(f'pool must be "max" or "mean", not {shown(pool)}')
    found = []
    for name, count, length in (("rows", rows, shape.T), ("columns", columns, shape.S)):
        if whole(name, count) < 1 or not length:
            raise ArgumentError(
                f"map wants at least one bin and a matrix that is not empty, not {count} {name} of {length}"
            )
        edges = np.arange(count + 1) * length
        found.append(np.stack([edges[:-1] // count, -(-edges[1:] // count)], axis=-1))
    return found[0], found[1]


def _handed(problem: Problem, x: Any) -> Any:
    """One gradient, or those of the terms of a bias, in the caller's library."""
    if isinstance(x, tuple):
        return tuple(_handed(problem, part) for part in x)
    return x if x is None else problem.handed(x)


def inward(problem: Problem, name: str, pulled: Array, of: str, result: Array, shape: tuple[int, ...]) -> Array:
    """What a caller gives as the gradient of a result, with the axes that the result has inside."""
    pulled = plain(name, pulled)
    namespace(**{name: pulled, of: result})
    if not is_float(pulled):
        raise DtypeError(f"{name} is {dtype_name(pulled)}, not floats: convert it with astype")
    if tuple(pulled.shape) != tuple(result.shape):
        raise ShapeError(
            f"{name} has shape {tuple(pulled.shape)}, but the {of} has {tuple(result.shape)}: give the same"
        )
    return problem.xp.reshape(pulled if problem.back is None else host(name, pulled), tuple(shape))
