"""How torch differentiates attention: by the kernels on the CPU, by blocks of rows elsewhere and beyond once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from overt import kernels
from overt.errors import ArgumentError
from overt.masks import causal
from overt.problem import Problem
from overt.scores import scaled_dot
from overt.torch import blocks, short
from overt.torch.arrays import array
from overt.torch.batched import each, is_batched
from overt.torch.call import Call

Maybe = Tensor | None
# torch differentiates what such a Function gave wrongly, and says nothing.
_ONCE = (
    "gradients that torch.autograd maps over (vectorize=True, is_grads_batched=True) have none themselves: "
    "use torch.func.jacrev, or leave out create_graph=True"
)
PLAIN_CALLS = {mask: Call(scaled_dot(), mask, None, None, None, None, None) for mask in (None, causal())}


class Attention(Function):
    """Gives (output, lse) that were found already their places in the graph: ``apply(call, found, q, k, v, *…)``.

    The tensors after v are the call's parameters, in their order.
    """

    @staticmethod
    def forward(ctx: Any, call: Call, found: tuple[Tensor, Tensor], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        ctx.call = call
        ctx.save_for_backward(*found, *tensors)
        ctx.set_materialize_grads(False)
        return found

    @staticmethod
    def backward(ctx: Any, dy: Maybe, dlse: Maybe) -> tuple[Maybe, ...]:
        output, lse, *tensors = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        if dy is None and dlse is None:
            return None, None, *(None for _ in tensors)
        if torch.is_grad_enabled():
            fixed = output.detach(), lse.detach()
            return None, None, *_Pull.apply(ctx.call, fixed, wanted, dy, dlse, *tensors)  # type: ignore[no-untyped-call]
        return None, None, *pull(ctx.call, (output, lse), wanted, dy, dlse, tensors)


class Plain(Function):
    """Scaled dot-product attention, causal or not, of few words: ``place(q, k, v, mask, (output, lse))`` as above.

    The output is what a small problem is asked for, and the lse, an array, is not differentiable.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, found: tuple[Tensor, np.ndarray]) -> Tensor:
        output, ctx.lse = found
        ctx.mask = mask
        ctx.save_for_backward(output, q, k, v)
        return output

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Maybe, ...]:
        output, q, k, v = ctx.saved_tensors
        of_q, of_k, of_v, _, _ = ctx.needs_input_grad
        wanted = of_q, of_k, of_v
        further = torch.is_grad_enabled()
        slopes = None if further or is_batched(dy) else short.gradients(q, k, v, ctx.mask, output, ctx.lse, dy, wanted)
        if slopes is not None:
            return *slopes, None, None
        call, found = PLAIN_CALLS[ctx.mask], (output.detach(), torch.from_numpy(ctx.lse))
        if further:
            return *_Pull.apply(call, found, wanted, dy, None, q, k, v), None, None  # type: ignore[no-untyped-call]
        return *pull(call, found, wanted, dy, None, (q, k, v)), None, None


# ``Plain.apply`` without what it asks first about ``torch.func``, which takes half its time: nobody comes here from it.
place: Any = super(Function, Plain).apply


class _Pull(Function):
    """The gradient as a function that has one itself."""

    @staticmethod
    def forward(
        ctx: Any,
        call: Call,
        found: tuple[Tensor, Tensor],
        wanted: Sequence[bool],
        dy: Maybe,
        dlse: Maybe,
        *tensors: Tensor,
    ) -> tuple[Maybe, ...]:
        if is_batched(dy, dlse):
            raise ArgumentError(_ONCE)
        ctx.call, ctx.wanted = call, wanted
        ctx.save_for_backward(dy, dlse, *tensors)
        ctx.set_materialize_grads(False)
        return tuple(pull(call, found, wanted, dy, dlse, tensors))

    @staticmethod
    def backward(ctx: Any, *slopes: Maybe) -> tuple[Maybe, ...]:
        dy, dlse, *tensors = ctx.saved_tensors
        if all(slope is None for slope in slopes):
            return None, None, None, *(None for _ in ctx.saved_tensors)
        return None, None, None, *_pull_twice(ctx.call, ctx.wanted, slopes, dy, dlse, tensors)


def pull(
    call: Call, found: tuple[Tensor, Tensor], wanted: Sequence[bool], dy: Maybe, dlse: Maybe, tensors: Sequence[Tensor]
) -> list[Maybe]:
    """Gradients of (q, k, v, *parameters), as far as they are wanted."""
    if is_batched(dy, dlse):
        return each(lambda dy, dlse: pull(call, found, wanted, dy, dlse, tensors), dy, dlse)
    if tensors[0].device.type != "cpu":
        return _pull_blocks(call, wanted, dy, dlse, tensors)
    if call.plain and dy is not None and dlse is None:
        q, k, v = tensors
        slopes = short.gradients(q, k, v, call.mask, *found, dy, wanted)
        if slopes is not None:
            return list(slopes)
    names = call.parameters
    problem = call.exchanged(dict(zip(names, tensors[3:], strict=True))).hosted(*tensors[:3])
    dy = torch.zeros_like(found[0]) if dy is None else dy
    output, lse, slope = (_inward(problem, array(x)) for x in (*found, dy))
    constant = not any(want for name, want in zip(names, wanted[3:], strict=True) if name.startswith("bias"))
    lse_slope = None if dlse is None else _inward(problem, array(dlse))
    gradient = kernels.gradient(problem, output, lse, slope, lse_slope, constant=constant, wanted=wanted[:3])
    arrays: list[Any] = [
        x if x is None else problem.unbroadcast(x, shape) for x, shape in zip(gradient[:3], problem.given, strict=True)
    ]
    bias = gradient.bias if isinstance(gradient.bias, tuple) else (gradient.bias,)
    by_name = {"sinks": gradient.sinks, **{f"bias {i}": x for i, x in enumerate(bias)}}
    by_name |= {f"score {name}": x for name, x in gradient.score.items()}
    arrays += [by_name.get(name) for name in names]
    return [
        torch.from_numpy(np.ascontiguousarray(x)).to(like.dtype).reshape(like.shape) if want else None
        for x, like, want in zip(arrays, tensors, wanted, strict=True)
    ]


def _pull_blocks(call: Call, wanted: Sequence[bool], dy: Maybe, dlse: Maybe, tensors: Sequence[Tensor]) -> list[Maybe]:
    leaves = _leaves(tensors, wanted)
    asked = [x for x in leaves if x.requires_grad]
    total = [torch.zeros_like(x) for x in asked]
    for outputs, slopes in _rows(call, leaves, dy, dlse):
        found = torch.autograd.grad(outputs, asked, slopes, allow_unused=True)
        for whole, part in zip(total, found, strict=True):
            if part is not None:
                whole += part
    sums = iter(total)
    return [next(sums).to(x.dtype) if want else None for x, want in zip(tensors, wanted, strict=True)]


def _pull_twice(
    call: Call, wanted: Sequence[bool], slopes: Sequence[Maybe], dy: Maybe, dlse: Maybe, tensors: Sequence[Tensor]
) -> list[Maybe]:
    """Gradients of (dy, dlse, q, k, v, *parameters) from those of the gradients that were wanted."""
    if is_batched(dy, dlse, *slopes):
        if torch.is_grad_enabled():
            raise ArgumentError(_ONCE)
        return each(lambda dy, dlse, *one: _pull_twice(call, wanted, one, dy, dlse, tensors), dy, dlse, *slopes)
    # Whoever wants to go on from here keeps all weights.
    further = torch.is_grad_enabled()
    leaves = _leaves(tensors, [True] * len(tensors), further=further)
    upper = [None if x is None else _leaf(x, leaves[0].dtype, further=further) for x in (dy, dlse)]
    asked = [x for x in chain(upper, leaves) if x is not None]
    total = [torch.zeros_like(x) for x in asked]
    pairs = [
        (x, slope.to(x.dtype))
        for x, want, slope in zip(leaves, wanted, slopes, strict=True)
        if want and slope is not None
    ]
    for outputs, down in _rows(call, leaves, *upper):
        with torch.enable_grad():
            found = torch.autograd.grad(outputs, [x for x, _ in pairs], down, create_graph=True, allow_unused=True)
            inner = [(x * slope).sum() for x, (_, slope) in zip(found, pairs, strict=True) if x is not None]
            if not any(x.requires_grad for x in inner):
                continue
            parts = torch.autograd.grad(inner, asked, allow_unused=True, create_graph=further)
        total = [whole if part is None else whole + part for whole, part in zip(total, parts, strict=True)]
    sums = iter(total)
    return [None if x is None else next(sums).to(x.dtype) for x in (dy, dlse, *tensors)]


def _leaf(x: Tensor, kind: torch.dtype, *, further: bool) -> Tensor:
    # Another name for the same tensor, so that a derivative by it is partial.
    return x.view_as(x).to(kind) if further and x.requires_grad else x.detach().to(kind).requires_grad_()


def _leaves(tensors: Sequence[Tensor], wanted: Sequence[bool], *, further: bool = False) -> list[Tensor]:
    """Tensors in the dtype of accumulation, which end the graph unless it is to go ``further``."""
    wide = torch.float64 if tensors[0].dtype == torch.float64 else torch.float32
    kinds = [wide] * 3 + [torch.promote_types(x.dtype, wide) for x in tensors[3:]]
    return [
        _leaf(x, kind, further=further) if want else x.detach().to(kind)
        for x, kind, want in zip(tensors, kinds, wanted, strict=True)
    ]


def _rows(call: Call, leaves: Sequence[Tensor], dy: Maybe, dlse: Maybe) -> Any:
    """Output and lse of some rows at a time, as far as they have slopes, and these."""
    with torch.enable_grad():
        problem = call.exchanged(dict(zip(call.parameters, leaves[3:], strict=True))).opened(*leaves[:3])
        down = [None if x is None else _inward(problem, x).to(problem.q.dtype) for x in (dy, dlse)]
        parts = list(blocks.each(problem))
    for at, part in parts:
        with torch.enable_grad():
            pairs = [(y, x[:, :, at]) for y, x in zip(blocks.attend(part), down, strict=True) if x is not None]
        yield [y for y, _ in pairs], [x for _, x in pairs]


def _inward(problem: Problem, x: Any) -> Any:
    """A caller's (…, H, T, E) or (…, H, T) with the axes of results."""
    return x.reshape(problem.shape.B, problem.shape.H, *x.shape[len(problem.outer) :])
