"""Attention by blocks of query rows in plain torch: exact, in linear memory, on any device.

This is the engine of devices other than the CPU.  It is also what torch differentiates where the kernels' own gradients
do not reach: twice, forwards, and under the transforms of ``torch.func``.  Problems here hold tensors in the dtype of
accumulation (``widened``); apart from that, functions mean what their namesakes in ``overt.reference`` mean.

Nothing is read back from the device, and masks are worked out there, some rows at a time, from their own few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from overt.biases import Bias, Dense, Distance
from overt.dropout import philox
from overt.errors import ShapeError
from overt.grid import Cells, Shape, broadcasts
from overt.masks import Mask
from overt.problem import Problem
from overt.reference import pool_axis
from overt.scores import Additive, Projected

# Cells of the score matrix that are worked on at a time.
CELLS = 1 << 21


@dataclass(frozen=True, eq=False)
class Held(Mask):
    """A boolean tensor that broadcasts to (…, H, T, S) and stays on its device."""

    tensor: Tensor

    def visible(self, cells: Cells) -> Any:
        return cells.of(self.tensor)

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
    step = max(CELLS // max(row, 1), 1)
    for start in range(0, problem.shape.T, step) or (0,):
        rows = slice(start, min(start + step, problem.shape.T))
        yield rows, problem.part(t=problem.t[rows])


@dataclass(frozen=True, eq=False)
class DeviceCells(Cells):
    """Cells as index tensors on a device, where masks are worked out, and how to come by those on the host."""

    device: torch.device
    on_host: Callable[[], Cells]

    @staticmethod
    def of_part(part: Problem) -> DeviceCells:
        """Those of a part of a problem."""
        ranges, device = (part.b, part.h, part.t, part.s), part.q.device
        indices: Any = [torch.arange(r.start, r.stop, r.step, device=device) for r in ranges]
        b, h, t, s = indices
        return DeviceCells(
            part.shape, b[:, None, None, None], h[:, None, None], t[:, None], s, device, lambda: part.cells
        )

    @staticmethod
    def of_cells(cells: Cells, device: torch.device) -> DeviceCells:
        """These, which somebody has picked on the host."""
        arrays = (np.ascontiguousarray(x) for x in (cells.b, cells.h, cells.t, cells.s))
        b, h, t, s = (cast(Any, torch.as_tensor(x, device=device)) for x in arrays)
        return DeviceCells(cells.shape, b, h, t, s, device, lambda: cells)

    @property
    def xp(self) -> Any:
        return xp

    def rows(self) -> DeviceCells:
        b, h, t = (x[..., 0] for x in (self.b, self.h, self.t))
        return DeviceCells(self.shape, b, h, t, self.s[:1] * 0, self.device, self.on_host)

    def pick(self, array: Any, *index: Any) -> Any:
        return self._there(array)[index]

    def ask(self, predicate: Callable[..., Any]) -> Any:
        try:
            return self._there(predicate(self.b, self.h, self.t, self.s))
        except Exception:
            # What it holds, or calls, may be NumPy's; if it is wrong otherwise, it says so again.
            return self._there(self.on_host().ask(predicate))

    def sequence(self) -> Any:
        assert self.shape.packing is not None
        t: Any = self.t
        return torch.bucketize(t, self._there(self.shape.packing.queries), right=True) - 1

    def of(self, array: Any) -> Any:
        x, b = self._there(array), cast(Tensor, self.b)
        batch = torch.unravel_index(b, self.shape.batch) if self.shape.batch else ()
        axes: list[Any] = [*batch, self.h, self.t, self.s]
        own = axes[len(axes) - x.ndim :] if x.ndim else ()
        return x[tuple(i if n != 1 else torch.zeros_like(i[:1]) for i, n in zip(own, x.shape, strict=True))]

    def _there(self, array: Any) -> Tensor:
        if isinstance(array, np.ndarray):
            array = torch.from_numpy(np.require(array, requirements=["C", "W"]))
        return torch.as_tensor(array, device=self.device)


def attend(part: Problem) -> tuple[Tensor, Tensor]:
    """Output (B, H, T, E) and lse (B, H, T) of some rows, differentiable as often as one likes."""
    scores, visible = _scores(part)
    weights, lse = _softmax(scores, part.sinks)
    if part.dropout is not None:
        weights = weights * _kept(part)
    return _ungrouped(_mix(_grouped(weights, part), part.v, visible is not None), part), lse


def _scores(part: Problem) -> tuple[Tensor, Tensor | None]:
    """Scores (B, H, T, S) of a part, −∞ where nothing is to be seen, and what is visible where not all is."""
    scores, visible = _compare(part), _visible(part)
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


def _visible(part: Problem) -> Tensor | None:
    if part.mask is None:
        return None
    cells = DeviceCells.of_part(part)
    return _of(part.mask.tensor, part) if isinstance(part.mask, Held) else part.mask.visible(cells)  # type: ignore[return-value]


def forward(problem: Problem) -> tuple[Tensor, Tensor]:
    """Output (B, H, T, E) in the dtype of accumulation, and lse (B, H, T)."""
    outputs, lses = zip(*(attend(part) for _, part in each(problem)), strict=True)
    return torch.cat(outputs, dim=2), torch.cat(lses, dim=2)


def statistics(problem: Problem, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Received (B, H, S) and entropy (B, H, T)."""
    entropies = []
    received = lse.new_zeros((*lse.shape[:2], problem.shape.S))
    for at, part in each(problem):
        w = weights(part, lse[..., at])
        received += w.sum(dim=-2)
        entropies.append(0 - torch.xlogy(w, w).sum(dim=-1))
    return received, torch.cat(entropies, dim=-1)


def top(problem: Problem, lse: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k heaviest keys of each row, ties to the lower index."""
    found = [
        torch.sort(weights(part, lse[..., at]), dim=-1, descending=True, stable=True) for at, part in each(problem)
    ]
    indices, heaviest = (torch.cat([x[i][..., :k] for x in found], dim=-2) for i in (1, 0))
    return indices, heaviest


def pooled(problem: Problem, lse: Tensor, bins: np.ndarray, columns: np.ndarray, pool: str) -> Tensor:
    """Pooled picture of the weights."""
    strips = [pool_axis(xp, weights(part, lse[..., at]), columns, pool, -1) for at, part in each(problem)]
    return pool_axis(xp, torch.cat(strips, dim=-2), bins, pool, -2)


def weights(problem: Problem, lse: Tensor) -> Tensor:
    """Weights (B, H, T, S) before dropout of a tile."""
    scores, _ = _scores(problem)
    # Whole rows know their own sum better than a rounded lse does.
    if len(problem.s) == problem.shape.S:
        return _softmax(scores, problem.sinks)[0]
    return torch.exp(scores - torch.where(lse == -torch.inf, 0.0, lse)[..., None])


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


def _softmax(scores: Tensor, sinks: Tensor | None) -> tuple[Tensor, Tensor]:
    """Weights and log-sum-exp along the last axis; a row of −∞ gives zeros and −∞."""
    # Any number near the largest score will do, so that no derivative goes through it.
    sink = None if sinks is None else sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
    wide = [x.detach() for x in (scores, sink) if x is not None and x.shape[-1]]
    largest = [x.amax(dim=-1, keepdim=True) for x in wide]
    top = torch.stack(largest).amax(dim=0) if largest else scores.new_zeros((*scores.shape[:-1], 1))
    top = torch.where(top == -torch.inf, 0.0, top)
    powers = torch.exp(scores - top)
    total = powers.sum(dim=-1, keepdim=True)
    if sink is not None:
        total = total + torch.exp(sink - top)
    blind = total == 0
    some = torch.where(blind, 1.0, total)
    return powers / some, torch.where(blind, -torch.inf, top + torch.log(some))[..., 0]


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
