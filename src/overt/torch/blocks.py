"""Attention by blocks of query rows in plain torch: exact, in linear memory, on any device.

This is the engine of devices other than the CPU.  It is also what torch differentiates where the kernels' own gradients
do not reach: twice, forwards, and under the transforms of ``torch.func``.  Problems here hold tensors in the dtype of
accumulation (``widened``); apart from that, functions mean what their namesakes in ``overt.reference`` mean.

Nothing is read back from the device.  Of masks that are spans, two numbers a row travel to it; what spans do not say is
worked out on the host, some rows at a time, unless it is a boolean tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from overt.biases import Bias, Dense, Distance
from overt.dropout import philox
from overt.errors import ShapeError
from overt.grid import Shape, broadcasts
from overt.masks import Mask
from overt.problem import Problem
from overt.reference import pool_axis
from overt.scores import Additive, Projected

# Cells of the score matrix that are worked on at a time.
_CELLS = 1 << 21


@dataclass(frozen=True, eq=False)
class Held(Mask):
    """A boolean tensor that broadcasts to (…, H, T, S) and stays on its device."""

    tensor: Tensor

    def check(self, shape: Shape) -> None:
        if not broadcasts(tuple(self.tensor.shape), shape.full):
            raise ShapeError(
                f"mask has shape {tuple(self.tensor.shape)}, which does not broadcast to (…, H, T, S) = {shape.full}: "
                "a (B, S) padding mask needs two more axes, mask[:, None, None, :]"
            )


def widened(problem: Problem) -> Problem:
    """The same in the dtype of accumulation."""
    return replace(problem, **{name: getattr(problem, name).to(problem.accumulate) for name in "qkv"})


def active() -> bool:
    """Whether a transform of ``torch.func`` runs: its tensors have no numbers that Python could look at."""
    return torch._C._functorch.maybe_current_level() is not None


def each(problem: Problem) -> Iterator[tuple[slice, Problem]]:
    """Parts of some query rows each, in order."""
    width = len(problem.score.v) if isinstance(problem.score, Additive) else 1
    row = problem.shape.B * problem.shape.H * problem.shape.S * max(width, 1)
    step = max(_CELLS // max(row, 1), 1)
    for start in range(0, problem.shape.T, step) or (0,):
        rows = slice(start, min(start + step, problem.shape.T))
        yield rows, problem.part(t=problem.t[rows])


class Rows:
    """What some rows of a problem come to."""

    def __init__(self, problem: Problem) -> None:
        self._edges: tuple[Tensor, ...] = ()
        mask, shape = problem.mask, problem.shape
        self._rest = mask
        if mask is not None and not isinstance(mask, Held):
            first, last, self._rest = mask.plan(shape.T, shape.S, shape.batch, shape.H)
            self._edges = tuple(
                torch.from_numpy(np.ascontiguousarray(edge)).to(problem.q.device)[..., None] for edge in (first, last)
            )

    def attend(self, part: Problem) -> tuple[Tensor, Tensor]:
        """Output (B, H, T, E) and lse (B, H, T) of a part, differentiable as often as one likes."""
        scores, visible = self.scores(part)
        lse = _log_sum_exp(scores, part.sinks)
        weights = _weights(scores, lse)
        if part.dropout is not None:
            weights = weights * _kept(part)
        return _ungrouped(_mix(_grouped(weights, part), part.v, visible is not None), part), lse

    def weights(self, part: Problem, lse: Tensor) -> Tensor:
        """Weights (B, H, T, S) of a part before dropout."""
        return _weights(self.scores(part)[0], lse)

    def scores(self, part: Problem) -> tuple[Tensor, Tensor | None]:
        """Scores (B, H, T, S) of a part, −∞ where nothing is to be seen, and what is visible where not all is."""
        scores, visible = _compare(part), self._visible(part)
        if visible is not None:
            # A masked key may hold anything, which must not meet the slope of the softcap.
            scores = torch.where(visible, scores, 0.0)
        if part.softcap is not None:
            scores = part.softcap * torch.tanh(scores / part.softcap)
        if part.bias is not None:
            bias = _bias(part.bias, part)
            shown = bias != -torch.inf
            visible = shown if visible is None else visible & shown
            scores = scores + torch.where(shown, bias, 0.0)
        return scores if visible is None else torch.where(visible, scores, -torch.inf), visible

    def _visible(self, part: Problem) -> Tensor | None:
        visible = None
        if self._edges:
            first, last = (_picked(edge, part, keys=False) for edge in self._edges)
            key = torch.arange(part.s.start, part.s.stop, part.s.step, device=part.q.device)
            visible = (first <= key) & (key < last)
        if self._rest is None:
            return visible
        if isinstance(self._rest, Held):
            return _of(self._rest.tensor, part)
        rest = torch.from_numpy(np.ascontiguousarray(self._rest.visible(part.cells))).to(part.q.device)
        return rest if visible is None else visible & rest


def forward(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (B, H, T, E) in the dtype of accumulation, and lse (B, H, T)."""
    rows = Rows(problem)
    outputs, lses = zip(*(rows.attend(part) for _, part in each(problem)), strict=True)
    return torch.cat(outputs, dim=2), torch.cat(lses, dim=2)


def statistics(problem: Problem, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Received (B, H, S) and entropy (B, H, T)."""
    rows, entropies = Rows(problem), []
    received = lse.new_zeros((*lse.shape[:2], problem.shape.S))
    for at, part in each(problem):
        weights = rows.weights(part, lse[..., at])
        received += weights.sum(dim=-2)
        entropies.append(0 - torch.xlogy(weights, weights).sum(dim=-1))
    return received, torch.cat(entropies, dim=-1)


def top(problem: Problem, lse: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k heaviest keys of each row, ties to the lower index."""
    rows = Rows(problem)
    found = [
        torch.sort(rows.weights(part, lse[..., at]), dim=-1, descending=True, stable=True) for at, part in each(problem)
    ]
    indices, weights = (torch.cat([x[i][..., :k] for x in found], dim=-2) for i in (1, 0))
    return indices, weights


def pooled(problem: Problem, lse: Tensor, bins: np.ndarray, columns: np.ndarray, pool: str) -> Tensor:
    """Pooled picture of the weights."""
    rows = Rows(problem)
    strips = [pool_axis(xp, rows.weights(part, lse[..., at]), columns, pool, -1) for at, part in each(problem)]
    return pool_axis(xp, torch.cat(strips, dim=-2), bins, pool, -2)


def weights(problem: Problem, lse: Tensor) -> Tensor:
    """Weights of a tile."""
    return Rows(problem).weights(problem, lse)


class _Compare(Function):
    """q kᵀ.  What is not finite shows in the product, and adds nothing to a gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(q: Tensor, k: Tensor) -> Tensor:
        return q @ k.mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        q, k = ctx.saved_tensors
        return gradient @ _finite(k), gradient.mT @ _finite(q)

    @staticmethod
    def jvp(ctx: Any, dq: Tensor | None, dk: Tensor | None) -> Tensor:
        q, k = ctx.saved_tensors
        return _added(dq, lambda x: x @ _finite(k).mT, dk, lambda x: _finite(q) @ x.mT)


class _Mix(Function):
    """weights v, where a value of weight 0 adds nothing, whatever it holds."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weights: Tensor, v: Tensor, hidden: bool) -> Tensor:
        if not hidden:
            return weights @ v
        wild = ~v.isfinite()
        if not active() and v.device.type == "cpu" and not bool(wild.any()):
            return weights @ v
        mixed, exact = weights @ v, weights @ _finite(v)
        seen = ((weights > 0) & wild.any(dim=-1)[..., None, :]).any(dim=-1, keepdim=True)
        return torch.where(seen & ~mixed.isfinite(), mixed, exact)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, bool], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        weights, v = ctx.saved_tensors
        return gradient @ _finite(v).mT, weights.mT @ gradient, None

    @staticmethod
    def jvp(ctx: Any, dweights: Tensor | None, dv: Tensor | None, _: None) -> Tensor:
        weights, v = ctx.saved_tensors
        return _added(dweights, lambda x: x @ _finite(v), dv, lambda x: weights @ x)


_product: Any = _Compare.apply
_mix: Any = _Mix.apply


def _added(left: Any, from_left: Any, right: Any, from_right: Any) -> Tensor:
    if left is None:
        return from_right(right)
    return from_left(left) if right is None else from_left(left) + from_right(right)


def _compare(part: Problem) -> Tensor:
    score = part.score
    if score.identity and not isinstance(score, Additive):
        q, k, scale = score.factors(xp, part.q, part.k)
        return _ungrouped(_product(_grouped(q, part), k), part) * scale
    # A row that is not finite stays so, and yet gives no NaN to the gradients of what it meets.
    clean = _finite(part.q), _finite(part.k)
    q, k, scale = score.factors(xp, *clean)
    q = _grouped(q, part)
    if isinstance(score, Additive):
        *_, (_, _, _, scores) = Projected(score.v).steps(xp, q, k)
    else:
        scores = q @ k.mT * scale
    wild_q, wild_k = (
        ((x - finite) * 0).sum(dim=-1).detach() for x, finite in zip((part.q, part.k), clean, strict=True)
    )
    wild = _grouped(wild_q[..., None], part) + wild_k[..., None, :]
    return _ungrouped(scores + wild, part)


def _log_sum_exp(scores: Tensor, sinks: Tensor | None) -> Tensor:
    if sinks is not None:
        more = sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, more], dim=-1)
    return torch.logsumexp(scores, dim=-1)


def _weights(scores: Tensor, lse: Tensor) -> Tensor:
    return torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[..., None])


def _bias(bias: Bias, part: Problem) -> Tensor:
    if len(bias.terms) > 1:
        first, *others = (_bias(term, part) for term in bias.terms)
        return sum(others, start=first)
    bias = bias.exchanged(part.beside(bias.parameter))
    if isinstance(bias, Dense):
        return _of(bias.parameter, part)
    shape = part.shape
    table: Any = bias.table(shape) if isinstance(bias, Distance) and shape.T * shape.S else None
    if table is None or part.t.step != 1 or part.s.step != 1:
        there: Any = bias.at(part.cells)
        return there
    # Entry j holds the distance of key j − (T − 1) from query 0; one query further is one entry less.
    table = _picked(table[..., None], part, keys=False, rows=False)[..., 0]
    start = shape.T - part.t.stop + part.s.start
    return table[..., start : start + len(part.t) + len(part.s) - 1].unfold(-1, len(part.s), 1).flip(-2)


def _kept(part: Problem) -> Tensor:
    """0 or 1 / (1 − rate) for each cell: ``overt.dropout.Dropout.factor``, drawn on the device."""
    assert part.dropout is not None
    b, h, t = (torch.arange(r.start, r.stop, r.step, device=part.q.device) for r in (part.b, part.h, part.t))
    s = torch.arange(part.s.start, part.s.stop, part.s.step, device=part.q.device)
    words = philox((s // 4, t[:, None], h[:, None, None], b[:, None, None, None]), part.dropout.seed)
    drawn = words[3]
    for i in range(3):
        drawn = torch.where(s % 4 == i, words[i], drawn)
    return (drawn >= int(part.dropout.rate * 2**32)).to(part.q.dtype) / (1 - part.dropout.rate)


def _of(x: Tensor, part: Problem) -> Tensor:
    """What a tensor that broadcasts to (…, H, T, S) holds at a part, broadcastable to (B, H, T, S)."""
    batch = part.shape.batch
    x = x.reshape((1,) * (len(batch) + 3 - x.ndim) + tuple(x.shape))
    # Some rows first, since joining leading axes may copy.
    x = x[..., _slice(part.h, x.shape[-3]), _slice(part.t, x.shape[-2]), _slice(part.s, x.shape[-1])]
    if prod(x.shape[:-3]) == 1:
        return x.reshape(1, *x.shape[-3:])
    return x.expand(*batch, *x.shape[-3:]).reshape(part.shape.B, *x.shape[-3:])[_slice(part.b, part.shape.B)]


def _picked(x: Tensor, part: Problem, *, keys: bool, rows: bool = True) -> Tensor:
    """A part of a tensor that broadcasts to (B, H, T, S)."""
    b, h, t, s = (_slice(r, n) for r, n in zip((part.b, part.h, part.t, part.s), x.shape, strict=True))
    return x[b, h, t if rows else slice(None), s if keys else slice(None)]


def _slice(part: range, size: int) -> slice:
    return slice(None) if size == 1 else slice(part.start, part.stop, part.step)


def _grouped(x: Tensor, part: Problem) -> Tensor:
    """(B, H, T, …) as (B, G, H / G · T, …): all rows that read one key head."""
    (B, H, T), G = x.shape[:3], part.k.shape[1]
    return x if H == G else x.reshape(B, G, H // G * T, x.shape[-1])


def _ungrouped(x: Tensor, part: Problem) -> Tensor:
    B, H, T = part.q.shape[:3]
    return x if x.shape[1] == H else x.reshape(B, H, T, x.shape[-1])


def _finite(x: Tensor) -> Tensor:
    return torch.where(x.isfinite(), x, 0.0)
