"""Attention on torch tensors: a custom operator over overt's kernels, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import Tensor

from overt.attended import Attended
from overt.attention import attention as any_attention
from overt.dropout import Dropout
from overt.grid import Cells
from overt.masks import Mask, Window, as_mask, keep
from overt.problem import Problem
from overt.scores import Product, Score, scaled_dot

_SCALED_DOT = scaled_dot()
_DTYPES = (torch.float16, torch.float32, torch.float64)
# Stands for a window without an end on its left.
_ENDLESS = -1


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Tensor | None = None,
    bias: Any = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: Dropout | None = None,
) -> Tensor:
    """``overt.attention`` for torch tensors: on the CPU with overt's kernels forwards and backwards.

    The arguments and axes are those of ``overt.attention``; q, k, v, a bias tensor, sinks and the weights of scores get
    gradients.  The additive score, dropout, ALiBi and relative biases, bfloat16 and other devices take the definition,
    in memory quadratic in length.  In ``torch.compile`` without graph breaks, a mask is None, ``overt.causal()``,
    ``overt.window(left, right)`` or a boolean tensor.
    """
    if not _known(q, k, v, score, bias, sinks, dropout):
        return any_attention(q, k, v, score=score, mask=mask, bias=bias, softcap=softcap, sinks=sinks, dropout=dropout)
    assert isinstance(score, Product)
    score.check(q.shape[-1], k.shape[-1])
    left, right, scale = score.factors(xp, q, k)
    alone = q.ndim == 2
    if alone:
        left, right, v = left[None], right[None], v[None]
    edges: tuple[int, int] | None = None
    lowered: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None)
    if isinstance(mask, Window) and mask.offset is None:
        edges = (_ENDLESS if mask.left is None else mask.left, mask.right)
    elif isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.device.type == "cpu":
        lowered = (None, None, mask)
    elif mask is not None:
        lowered = _lowered(mask, left, right, v)
    output, _ = _forward(left, right, v, bias, sinks, *lowered, *(edges or (None, None)), scale, softcap)
    return output[0] if alone else output


def _known(
    q: Tensor, k: Tensor, v: Tensor, score: Score, bias: Any, sinks: Tensor | None, dropout: Dropout | None
) -> bool:
    """Whether the operator can do it; what is wrong is left to the definition, which says so."""
    if not isinstance(score, Product) or dropout is not None or not (bias is None or isinstance(bias, Tensor)):
        return False
    tensors = [x for x in (q, k, v, bias, sinks) if x is not None]
    return (
        all(isinstance(x, Tensor) and x.device.type == "cpu" and x.dtype in _DTYPES for x in tensors)
        and q.dtype == k.dtype == v.dtype
        and (min(q.ndim, k.ndim, v.ndim) >= 3 or q.ndim == k.ndim == v.ndim == 2)
    )


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _lowered(mask: Any, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """A mask of any kind as spans of keys, and as booleans where spans do not suffice."""
    known = as_mask(mask)
    assert known is not None
    batch = np.broadcast_shapes(*(tuple(x.shape[:-3]) for x in (q, k, v)))
    T, S, H = q.shape[-2], k.shape[-2], q.shape[-3]
    problem = Problem.of(q, k, v, score=_SCALED_DOT, mask=known)
    assert problem.mask is not None
    first, last, rest = problem.mask.plan(T, S, tuple(batch), H)
    dense = None if rest is None else torch.from_numpy(np.ascontiguousarray(rest.dense(T, S, tuple(batch), H)))
    return torch.from_numpy(np.ascontiguousarray(first)), torch.from_numpy(np.ascontiguousarray(last)), dense


@dataclass(frozen=True, eq=False)
class _Spans(Mask):
    """first ≤ s < last, of arrays that broadcast to (B, H, T)."""

    first: np.ndarray
    last: np.ndarray

    def span(self, rows: Cells) -> tuple[np.ndarray, np.ndarray]:
        full = rows.shape.B, rows.shape.H, rows.shape.T
        first, last = (np.broadcast_to(x, full)[rows.b, rows.h, rows.t] for x in (self.first, self.last))
        return first, last

    def visible(self, cells: Cells) -> np.ndarray:
        first, last = self.span(cells)
        return (first <= cells.s) & (cells.s < last)


def _problem(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    first: Tensor | None,
    last: Tensor | None,
    rest: Tensor | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
) -> Problem:
    mask: Mask | None = None
    if left is not None and right is not None:
        mask = Window(None if left == _ENDLESS else left, right, None)
    if first is not None and last is not None:
        mask = _Spans(first.numpy(), last.numpy())
    if rest is not None:
        mask = keep(rest.numpy()) if mask is None else mask & keep(rest.numpy())
    return Problem.of(
        *(x.numpy() for x in (q, k, v)),
        score=scaled_dot(scale),
        mask=mask,
        bias=None if bias is None else bias.numpy(),
        softcap=softcap,
        sinks=None if sinks is None else sinks.numpy(),
        num_threads=torch.get_num_threads(),
    )


@torch.library.custom_op("overt::attention", mutates_args=())
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    first: Tensor | None,
    last: Tensor | None,
    rest: Tensor | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
) -> tuple[Tensor, Tensor]:
    seen = Attended(_problem(q, k, v, bias, sinks, first, last, rest, left, right, scale, softcap))
    return torch.from_numpy(seen.output), torch.from_numpy(np.array(seen.lse))


@_forward.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *options: Any) -> tuple[Tensor, Tensor]:
    batch = torch.broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)))  # type: ignore[no-untyped-call]
    rows = (*batch, q.shape[-3], q.shape[-2])
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty((*rows, v.shape[-1])), q.new_empty(rows, dtype=wide)


@torch.library.custom_op("overt::attention_backward", mutates_args=())
def _backward(
    dy: Tensor,
    output: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    first: Tensor | None,
    last: Tensor | None,
    rest: Tensor | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
) -> list[Tensor]:
    problem = _problem(q, k, v, bias, sinks, first, last, rest, left, right, scale, softcap)
    # The lse has no last axis for ``inward`` to keep.
    found = problem.inward(output.numpy()), lse.numpy().reshape(problem.shape.B, problem.shape.H, -1)
    gradient = Attended(problem, found).gradient(dy.numpy())
    arrays = [(gradient.q, q), (gradient.k, k), (gradient.v, v)]
    arrays += [(x, like) for x, like in ((gradient.bias, bias), (gradient.sinks, sinks)) if like is not None]
    return [torch.from_numpy(np.array(x)).to(like.dtype).reshape(like.shape) for x, like in arrays]


@_backward.register_fake
def _(
    dy: Tensor, output: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sinks: Tensor | None,
    *options: Any,
) -> list[Tensor]:  # fmt: skip
    return [x.new_empty(x.shape) for x in (q, k, v, bias, sinks) if x is not None]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:8])
    ctx.options = inputs[8:]
    ctx.set_materialize_grads(False)


def _pull(ctx: Any, dy: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    output, lse, *tensors = ctx.saved_tensors
    found: list[Tensor | None] = [None] * 5
    if dy is not None:
        gradients = iter(_backward(dy, output, lse, *tensors, *ctx.options))
        found = [None if x is None else next(gradients) for x in tensors[:5]]
    return (*found, *[None] * 7)


_forward.register_autograd(_pull, setup_context=_remember)
