"""Attention on torch tensors: a custom operator over overt's kernels, with its gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat.torch as xp
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

from overt.attended import Attended
from overt.attention import attention as any_attention
from overt.dropout import Dropout
from overt.dropout import dropout as any_dropout
from overt.errors import ShapeError
from overt.grid import Cells
from overt.masks import Mask, Window, as_mask, keep
from overt.problem import Problem
from overt.scores import Additive, Product, Projected, Score, scaled_dot

_SCALED_DOT = scaled_dot()
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Stands for a side on which a window has no end.
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
    gradients.  In ``torch.compile`` without graph breaks, a mask is None, ``overt.causal()``,
    ``overt.window(left, right)`` or a boolean tensor.

    On other devices, products without softcap, sinks and dropout go to torch's own fused kernels, with a mask that is
    not causal as booleans; there NaN behind a mask may reach the output.  ALiBi and relative biases, bfloat16 without
    ml_dtypes, and the rest on other devices take the definition, in memory quadratic in length.
    """
    if not _known(q, k, v, score, bias, softcap, sinks, dropout):
        return any_attention(q, k, v, score=score, mask=mask, bias=bias, softcap=softcap, sinks=sinks, dropout=dropout)
    if q.dtype.itemsize == 2 and not score.identity:
        # What is compared is rounded no earlier than the output.
        bias, sinks = (x.float() if x is not None and x.dtype == q.dtype else x for x in (bias, sinks))
        y = attention(
            q.float(), k.float(), v.float(),
            score=score, mask=mask, bias=bias, softcap=softcap, sinks=sinks, dropout=dropout,
        )  # fmt: skip
        return y.to(q.dtype)
    if q.device.type != "cpu":
        return fused(q, k, v, score, mask, bias)
    score.check(q.shape[-1], k.shape[-1])
    left, right, scale = _factors(score, q, k)
    additive = score.v if isinstance(score, Additive) else None
    alone = q.ndim == 2
    if alone:
        left, right, v = left[None], right[None], v[None]
    edges: tuple[int, ...] | None = None
    lowered: tuple[Tensor | None, Tensor | None, Tensor | None] = (None, None, None)
    if isinstance(mask, Window) and mask.offset is None:
        edges = tuple(_ENDLESS if side is None else side for side in (mask.left, mask.right))
    elif isinstance(mask, Tensor) and mask.dtype == torch.bool and mask.device.type == "cpu":
        lowered = (None, None, mask)
    elif mask is not None:
        lowered = _lowered(mask, left, right, v)
    # Operators know no integers above 2⁶³.
    drawn = (0.0, 0) if dropout is None else (dropout.rate, dropout.seed - (dropout.seed >> 63 << 64))
    output, _ = _forward(
        left, right, v, bias, sinks, additive, *lowered, *(edges or (None, None)), scale, softcap, *drawn
    )
    return output[0] if alone else output


def fused(
    q: Tensor, k: Tensor, v: Tensor, score: Score, mask: Mask | Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    """The same by ``scaled_dot_product_attention``, on any device."""
    held = isinstance(mask, Tensor) and mask.dtype == torch.bool
    problem = Problem.of(q, k, v, score=score, mask=None if held else mask, bias=bias)
    T, S = q.shape[-2], k.shape[-2]
    # torch's kernels want exactly four axes.
    full, four = (*problem.shape.batch, problem.q.shape[1], T, S), (*problem.q.shape[:3], S)
    left, right, scale = _factors(score, problem.q, problem.k)
    same: dict[str, Any] = {"scale": scale, "enable_gqa": left.shape[1] != right.shape[1]}
    causal = isinstance(mask, Window) and mask.offset is None and (mask.left, mask.right) == (None, 0)
    # torch's own causal mask is aligned at the first key.
    if causal and T == S and bias is None:
        return problem.outward(functional.scaled_dot_product_attention(left, right, problem.v, is_causal=True, **same))
    seen = None if bias is None else bias.expand(full).reshape(four)
    some: Tensor | None = None
    if mask is not None:
        if held:
            try:
                keep = mask.to(q.device).expand(full).reshape(four)  # type: ignore[union-attr]  # held is a tensor
            except RuntimeError:
                raise ShapeError(f"the mask has shape {tuple(mask.shape)}, which does not fit {full}") from None  # type: ignore[union-attr]
        else:
            assert problem.mask is not None
            dense = problem.mask.dense(T, S, problem.shape.batch, problem.q.shape[1])
            keep = torch.from_numpy(np.array(dense)).to(q.device).reshape(four)
        some = keep.any(dim=-1, keepdim=True)
        # A row that sees nothing sees everything here and becomes zeros below, so that no NaN arises on the way.
        keep = keep | ~some
        seen = keep if seen is None else torch.where(keep, seen, float("-inf"))
    y = functional.scaled_dot_product_attention(left, right, problem.v, attn_mask=seen, **same)
    return problem.outward(y if some is None else torch.where(some, y, 0.0))


def _factors(score: Score, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, float]:
    """What is compared; a row that is not finite stays so, and yet gives no NaN to the gradients of weights."""
    if score.identity:
        return score.factors(xp, q, k)
    clean = [torch.where(x.isfinite(), x, 0.0) for x in (q, k)]
    *factors, scale = score.factors(xp, *clean)
    left, right = (
        y + ((x - finite) * 0).sum(dim=-1, keepdim=True).detach()
        for x, finite, y in zip((q, k), clean, factors, strict=True)
    )
    return left, right, scale


def _known(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: Score,
    bias: Any,
    softcap: float | None,
    sinks: Tensor | None,
    dropout: Dropout | None,
) -> bool:
    """Whether a kernel can do it; what is wrong is left to the definition, which says so."""
    tensors = [x for x in (q, k, v, bias, sinks) if x is not None]
    if not all(isinstance(x, Tensor) and x.device == q.device and x.dtype in _DTYPES for x in tensors):
        return False
    if q.device.type == "cpu":
        scored = isinstance(score, Product) or (isinstance(score, Additive) and isinstance(score.v, Tensor))
        able = scored and (bfloat16 is not None or all(x.dtype != torch.bfloat16 for x in tensors))
    else:
        # A bias that is wider than the rest would be rounded to it.
        able = (
            isinstance(score, Product)
            and all(x is None for x in (softcap, sinks, dropout))
            and (bias is None or bias.dtype == q.dtype)
        )
    return (
        able
        and (dropout is None or isinstance(dropout, Dropout))
        and q.dtype == k.dtype == v.dtype
        and (min(q.ndim, k.ndim, v.ndim) >= 3 or q.ndim == k.ndim == v.ndim == 2)
    )


def _array(x: Tensor) -> np.ndarray:
    if x.dtype != torch.bfloat16:
        return x.numpy()
    return x.view(torch.int16).numpy().view(bfloat16)


def _tensor(x: np.ndarray, like: Tensor) -> Tensor:
    """An array that is nobody else's, as a tensor of the type that it has beside ``like``."""
    if like.dtype == torch.bfloat16 and x.dtype.itemsize == 2:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _lowered(mask: Any, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """A mask of any kind as spans of keys, and as booleans where spans do not suffice."""
    known = Problem.of(q, k, v, score=_SCALED_DOT, mask=as_mask(mask)).mask
    assert known is not None
    batch = np.broadcast_shapes(*(tuple(x.shape[:-3]) for x in (q, k, v)))
    sizes = q.shape[-2], k.shape[-2], tuple(batch), q.shape[-3]
    first, last, rest = known.plan(*sizes)
    dense = None if rest is None else torch.from_numpy(np.array(rest.dense(*sizes)))
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
    additive: Tensor | None,
    first: Tensor | None,
    last: Tensor | None,
    rest: Tensor | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
    rate: float,
    seed: int,
) -> Problem:
    mask: Mask | None = None
    if left is not None and right is not None:
        mask = Window(None if left == _ENDLESS else left, None if right == _ENDLESS else right, None)
    if first is not None and last is not None:
        mask = _Spans(first.numpy(), last.numpy())
    if rest is not None:
        mask = keep(rest.numpy()) if mask is None else mask & keep(rest.numpy())
    return Problem.of(
        *(_array(x) for x in (q, k, v)),
        score=scaled_dot(scale) if additive is None else Projected(_array(additive)),
        mask=mask,
        bias=None if bias is None else _array(bias),
        softcap=softcap,
        sinks=None if sinks is None else _array(sinks),
        dropout=any_dropout(rate, seed % 2**64) if rate else None,
        num_threads=torch.get_num_threads(),
    )


@torch.library.custom_op("overt::attention", mutates_args=())
def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    sinks: Tensor | None,
    additive: Tensor | None,
    first: Tensor | None,
    last: Tensor | None,
    rest: Tensor | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
    rate: float,
    seed: int,
) -> tuple[Tensor, Tensor]:
    seen = Attended(
        _problem(q, k, v, bias, sinks, additive, first, last, rest, left, right, scale, softcap, rate, seed)
    )
    return _tensor(seen.output, q), torch.from_numpy(np.array(seen.lse))


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
    additive: Tensor | None,
    first: Tensor | None,
    last: Tensor | None,
    rest: Tensor | None,
    left: int | None,
    right: int | None,
    scale: float,
    softcap: float | None,
    rate: float,
    seed: int,
) -> list[Tensor]:
    problem = _problem(q, k, v, bias, sinks, additive, first, last, rest, left, right, scale, softcap, rate, seed)
    # The lse has no last axis for ``inward`` to keep.
    found = problem.inward(_array(output)), lse.numpy().reshape(problem.shape.B, problem.shape.H, problem.shape.T)
    gradient = Attended(problem, found).gradient(_array(dy))
    arrays = [(gradient.q, q), (gradient.k, k), (gradient.v, v)]
    arrays += [(x, like) for x, like in ((gradient.bias, bias), (gradient.sinks, sinks)) if like is not None]
    if additive is not None:
        arrays.append((gradient.score["v"], additive))
    return [_tensor(np.ascontiguousarray(x), like).to(like.dtype).reshape(like.shape) for x, like in arrays]


@_backward.register_fake
def _(
    dy: Tensor, output: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, sinks: Tensor | None,
    additive: Tensor | None, *options: Any,
) -> list[Tensor]:  # fmt: skip
    return [x.new_empty(x.shape) for x in (q, k, v, bias, sinks, additive) if x is not None]


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:9])
    ctx.options = inputs[9:]
    ctx.set_materialize_grads(False)


def _pull(ctx: Any, dy: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    output, lse, *tensors = ctx.saved_tensors
    found: list[Tensor | None] = [None] * 6
    if dy is not None:
        gradients = iter(_backward(dy, output, lse, *tensors, *ctx.options))
        found = [None if x is None else next(gradients) for x in tensors[:6]]
    return (*found, *[None] * 9)


_forward.register_autograd(_pull, setup_context=_remember)
