"""The definition of attention, for any array library: readable, exact, quadratic in memory.

Everything fast in overt is tested against this file in float64, and ``overt.trace`` is this file, kept.
All functions take a ``Problem``, whole or a part of whole query rows, and return arrays (B, H, …).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic

import numpy as np

from overt.errors import ArgumentError
from overt.grid import Array, ArrayT, device, host
from overt.problem import Problem


@dataclass(frozen=True, eq=False)
class Step:
    """One intermediate: its name, its formula, its axes and its numbers."""

    name: str
    formula: str
    axes: str
    array: Array

    def __repr__(self) -> str:
        return f"Step({self.name!r}, {self.formula!r}, {self.axes} {tuple(self.array.shape)})"

    @property
    def mean(self) -> float:
        """Mean of the finite entries, complex where these are."""
        mean: float = self._finite().mean().item() if self._finite().size else float("nan")
        return mean

    @property
    def variance(self) -> float:
        """Variance of the finite entries (divided by their number)."""
        return float(self._finite().var()) if self._finite().size else float("nan")

    def _finite(self) -> np.ndarray:
        array = host(self.name, self.array)
        array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        return array[np.isfinite(array)]


class Gradient(tuple[Array, ...], Generic[ArrayT]):
    """Vector-Jacobian product: one array shaped like each input, and like the bias's parameter, if any.

    A named tuple (q, k, v, bias).  Beside it stand the gradient of the sinks, (H,), as ``sinks``, None where there are
    none, and those of the score's parameters by name as ``score``: those of ``bilinear`` and ``additive`` have some.
    All six survive ``_replace``, copies, pickles and the trees of JAX and torch.
    """

    # What takes every named tuple for a tree of just its items looks for `_make`, which is not here.
    _fields = ("q", "k", "v", "bias")
    if TYPE_CHECKING:
        q: ArrayT
        k: ArrayT
        v: ArrayT
        # A tuple of arrays for a sum of biases.
        bias: Any
    else:
        q, k, v, bias = (property(itemgetter(i)) for i in range(4))
    sinks: ArrayT | None
    score: dict[str, ArrayT]

    def __new__(
        cls,
        q: ArrayT,
        k: ArrayT,
        v: ArrayT,
        bias: Any,
        sinks: ArrayT | None = None,
        score: dict[str, ArrayT] | None = None,
    ) -> Gradient[ArrayT]:
        self = super().__new__(cls, (q, k, v, bias))
        self.sinks = sinks
        self.score = score or {}
        _register_trees()
        return self

    def __repr__(self) -> str:
        def of(x: Any) -> str:
            if isinstance(x, tuple):
                return f"({', '.join(map(of, x))})"
            return "None" if x is None else str(tuple(x.shape))

        named = dict(zip((*self._fields, "sinks"), (*self, self.sinks), strict=True)) | self.score
        return f"Gradient({', '.join(f'{name} {of(x)}' for name, x in named.items() if x is not None)})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return *self, self.sinks, self.score

    def _asdict(self) -> dict[str, Any]:
        """All six by name."""
        return dict(zip((*self._fields, "sinks", "score"), self.__getnewargs__(), strict=True))

    def _replace(self, **changes: Any) -> Gradient[ArrayT]:
        """The same with some of the six changed."""
        named = self._asdict()
        if unknown := set(changes) - set(named):
            raise ArgumentError(f"a gradient has no {', '.join(sorted(unknown))}: it has {', '.join(named)}")
        return Gradient(**named | changes)


def _register_trees() -> None:
    """Tell libraries that map over trees of arrays, once each, that a gradient is more than a tuple of four."""
    for name in ("jax.tree_util", "torch.utils._pytree"):
        library = sys.modules.get(name)
        if library is None or name in _REGISTERED or not hasattr(library, "register_pytree_node"):
            continue
        _REGISTERED.add(name)
        # JAX gives what is fixed, here nothing, before the branches, and torch after them.
        library.register_pytree_node(
            Gradient,
            lambda gradient: (list(gradient.__getnewargs__()), None),
            lambda first, second: Gradient(*(second if first is None else first)),
        )


_REGISTERED: set[str] = set()


def steps(problem: Problem) -> list[Step]:
    """Every intermediate of attention, in order; the arrays are (B, H, …) with key heads repeated.

    Score → scale → softcap → bias → mask → softmax → dropout → values (ONNX Attention, Gemma 2).
    """
    xp = problem.xp
    found = _scoring(problem)
    with _quiet():
        last = found[-1].name
        weights, lse = _softmax(problem, found[-1].array)
        summed = f"log Σ exp({last})" if problem.sinks is None else f"log(exp(sink) + Σ exp({last}))"
        found.append(Step("lse", summed, "T", lse))
        taken = last if problem.sinks is None else f"{last}, sink"
        found.append(Step("weights", f"softmax({taken}) = exp({last} − lse)", "T S", weights))
        if problem.dropout is not None:
            weights = weights * _dropout(problem)
            found.append(Step("dropped", f"weights · kept / {1 - problem.dropout.rate:g}", "T S", weights))
        v = problem.heads(xp.astype(problem.v, problem.accumulate))
        found.append(Step("value", "v", "S E", v))
        found.append(Step("output", f"{found[-2].name} v", "T E", _mix(xp, weights, v)))
    return found


def forward(problem: Problem) -> tuple[Array, Array]:
    """Output (B, H, T, E) in the dtype of q, and lse (B, H, T)."""
    named = {step.name: step.array for step in steps(problem)}
    return problem.xp.astype(named["output"], problem.q.dtype), named["lse"]


def attend(problem: Problem) -> tuple[Array, Array, tuple[Array, Array] | None]:
    """Output, lse and statistics; None for these, which the definition leaves for when they are asked for."""
    return *forward(problem), None


# Where the rounding of an lse, and of its scores, begins to show in weights.
LARGE = 64


def is_large(xp: Any, lse: Array) -> bool:
    """Whether rounding shows: that of an lse to its dtype, and of scores that two computations round differently.

    Of weights exp(score − lse) both take a share that grows with the size of the numbers, here from 4e-6 on in float32.
    Rows like that are summed up anew by whoever computes their weights.
    """
    return bool(xp.any(xp.isfinite(lse) & (xp.abs(lse) > LARGE)))


def weights(problem: Problem, lse: Array) -> Array:
    """Weights (B, H, T, S) before dropout, from the scores and lse (B, H, T); the problem may be any tile."""
    xp, scores = problem.xp, _scoring(problem)[-1].array
    blind = (lse == -xp.inf)[..., None]
    with _quiet():
        # Whole rows know their own sum better than a rounded lse does.
        if len(problem.s) == problem.shape.S:
            w = _softmax(problem, scores)[0]
        else:
            w = xp.exp(scores - xp.where(blind, xp.zeros_like(scores), lse[..., None]))
    return xp.where((scores == -xp.inf) | blind, xp.zeros_like(w), w)


def statistics(problem: Problem, lse: Array) -> tuple[Array, Array]:
    """Attention that each key receives, the column sums (B, H, S), and the entropy −Σ w ln w of each row (B, H, T)."""
    xp, w = problem.xp, weights(problem, lse)
    entropy = 0 - xp.sum(w * xp.log(xp.where(w == 0, xp.ones_like(w), w)), axis=-1)
    # A weight may have been rounded to more than 1.
    return xp.sum(w, axis=-2), xp.where(entropy < 0, xp.zeros_like(entropy), entropy)


def top(problem: Problem, lse: Array, k: int) -> tuple[Array, Array]:
    """Indices and weights of the k heaviest keys of each row, heaviest first, ties to the lower index: (B, H, T, k)."""
    xp, w = problem.xp, weights(problem, lse)
    indices = xp.argsort(-w, axis=-1, stable=True)[..., :k]
    return indices, xp.take_along_axis(w, indices, axis=-1)


def pooled(problem: Problem, lse: Array, rows: np.ndarray, columns: np.ndarray, pool: str) -> Array:
    """Maximum or mean of the weights in each bin; rows (R, 2) and columns (C, 2) are bins start ≤ i < end."""
    xp = problem.xp
    return pool_axis(xp, pool_axis(xp, weights(problem, lse), columns, pool, -1), rows, pool, -2)


def pool_axis(xp: Any, x: Array, bins: np.ndarray, pool: str, axis: int) -> Array:
    """Maximum or mean of each bin along one axis, -1 or -2."""
    reduce = xp.max if pool == "max" else xp.mean
    parts = [x[..., start:end] if axis == -1 else x[..., start:end, :] for start, end in bins]
    return xp.stack([reduce(part, axis=axis) for part in parts], axis=axis)


def gradient(problem: Problem, dy: Array, dlse: Array | None = None) -> Gradient:
    """Vector-Jacobian product with dy (B, H, T, E) and dlse (B, H, T): dq, dk, dv and others in the dtype of scores."""
    xp = problem.xp
    named = {step.name: step.array for step in steps(problem)}
    lse = named["lse"]
    # The lse of a row that sees nothing stays −∞, whatever moves.
    dlse = xp.zeros_like(lse) if dlse is None else xp.where(lse == -xp.inf, xp.zeros_like(lse), problem.beside(dlse))
    with _quiet():
        dq, dk, dv, dscores, into_score = _pull(problem, named, dy, dlse)
    dbias = None
    if problem.bias is not None:
        into_bias = problem.bias.zeros()
        problem.bias.pull(host("dscores", dscores), problem.cells, into_bias)
        dbias = problem.beside(into_bias)
    # When all scores move alike, so does the lse, and no weight moves: what the keys do not pull the sink does.
    dsinks = None if problem.sinks is None else xp.sum(dlse - xp.sum(dscores, axis=-1), axis=(0, 2))
    return Gradient(dq, dk, dv, dbias, dsinks, into_score)


def _pull(
    problem: Problem, named: dict[str, Array], dy: Array, dlse: Array
) -> tuple[Array, Array, Array, Array, dict[str, Array]]:
    """dq (B, H, T, D), dk (B, G, S, D), dv (B, G, S, E), those of the biased scores and of the score's parameters."""
    xp, dtype = problem.xp, problem.accumulate
    q, k, v, w = named["query"], named["key"], named["value"], named["weights"]
    dy = xp.astype(dy, dtype)
    dv = xp.matmul(xp.matrix_transpose(named.get("dropped", w)), dy)
    dw = xp.matmul(dy, xp.matrix_transpose(_finite(xp, v)))
    if problem.dropout is not None:
        dw = dw * _dropout(problem)
    dscores = w * (dw - xp.sum(w * dw, axis=-1, keepdims=True) + dlse[..., None])
    inner = dscores
    if problem.softcap is not None:
        slope = 1 - (named["capped"] / problem.softcap) ** 2
        inner = xp.where(w == 0, xp.zeros_like(inner), inner * slope)
    # A masked key may hold anything; where it is visible the weights carry its NaN.
    dq, dk, into_score = problem.score.pull(xp, _finite(xp, q), _finite(xp, k), inner)
    return dq, problem.ungroup(dk), problem.ungroup(dv), dscores, into_score


def _scoring(problem: Problem) -> list[Step]:
    """The steps from queries and keys to the scores that the softmax takes, which are the last."""
    xp, dtype = problem.xp, problem.accumulate
    q, k = xp.astype(problem.q, dtype), problem.heads(xp.astype(problem.k, dtype))
    found = [Step("query", "q", "T D", q), Step("key", "k", "S D", k)]
    with _quiet():
        found += (Step(*part) for part in problem.score.steps(xp, q, k))
        scores = found[-1].array
        if problem.softcap is not None:
            scores = problem.softcap * xp.tanh(scores / problem.softcap)
            formula = f"{problem.softcap:g} tanh({found[-1].name} / {problem.softcap:g})"
            found.append(Step("capped", formula, "T S", scores))
        if problem.bias is not None:
            for term in problem.bias.terms:
                scores = scores + problem.beside(term.at(problem.cells))
            found.append(Step("biased", f"{found[-1].name} + bias", "T S", scores))
        if problem.mask is not None:
            visible = xp.asarray(problem.mask.visible(problem.cells), device=device(q))
            scores = xp.where(visible, scores, _full(xp, -xp.inf, scores))
            found.append(Step("masked", f"{found[-1].name}, −∞ where the mask is False", "T S", scores))
    return found


def _softmax(problem: Problem, scores: Array) -> tuple[Array, Array]:
    """Weights and log-sum-exp along the last axis; a row of −∞ gives zeros and −∞."""
    xp = problem.xp
    # The sinks, or −∞ where there are none, are one more column of the denominator.
    sinks = (
        _full(xp, -xp.inf, scores) if problem.sinks is None else xp.astype(problem.sinks, scores.dtype)[:, None, None]
    )
    wide = xp.concat([scores, xp.broadcast_to(sinks, (*scores.shape[:-1], 1))], axis=-1)
    top = xp.max(wide, axis=-1, keepdims=True)
    top = xp.where(top == -xp.inf, xp.zeros_like(top), top)
    powers = xp.exp(wide - top)
    powers = xp.where(wide == -xp.inf, xp.zeros_like(powers), powers)
    total = xp.sum(powers, axis=-1, keepdims=True)
    some = xp.where(total == 0, xp.ones_like(total), total)
    lse = xp.where(total == 0, _full(xp, -xp.inf, total), top + xp.log(some))
    return powers[..., :-1] / some, lse[..., 0]


def _dropout(problem: Problem) -> Array:
    assert problem.dropout is not None
    return problem.beside(problem.dropout.factor(problem.cells))


def _mix(xp: Any, weights: Array, v: Array) -> Array:
    """weights v, where a value of weight 0 adds nothing, whatever it holds."""
    output = xp.matmul(weights, _finite(xp, v))
    if not bool(xp.all(xp.isfinite(v))):
        seen = xp.astype(weights > 0, weights.dtype)
        above, below, neither = (
            xp.matmul(seen, xp.astype(which, weights.dtype)) > 0 for which in (v == xp.inf, v == -xp.inf, xp.isnan(v))
        )
        output = xp.where(above, _full(xp, xp.inf, output), output)
        output = xp.where(below, _full(xp, -xp.inf, output), output)
        output = xp.where(neither | (above & below), _full(xp, xp.nan, output), output)
    return output


def _quiet() -> np.errstate:
    """Infinities and NaN in the input are answered by infinities and NaN, not by warnings."""
    return np.errstate(invalid="ignore", over="ignore")


def _finite(xp: Any, x: Array) -> Array:
    return xp.where(xp.isfinite(x), x, xp.zeros_like(x))


def _full(xp: Any, value: float, like: Array) -> Array:
    return xp.asarray(value, dtype=like.dtype, device=device(like))
