"""Attention as registered operators: what torch.compile, torch.export and tensors with rules of their own see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C._dynamo.eval_frame import set_eval_frame
from torch.autograd import Function

from overt import kernels
from overt.masks import causal
from overt.torch import blocks, flex, short
from overt.torch.arrays import tensor
from overt.torch.call import Call, read
from overt.torch.gradients import PLAIN_CALLS, pull

Found = tuple[Tensor, Tensor]
SHORT_TEXTS = {"": PLAIN_CALLS[None], "causal": PLAIN_CALLS[causal()]}


def compute(call: Call, q: Tensor, k: Tensor, v: Tensor, along: list[Any] | None = None) -> Found:
    """Output (…, H, T, E) and lse (…, H, T), without a graph; statistics that come along are appended to ``along``."""
    if q.device.type == "cpu" and along is None and call.plain:
        found = short.forward(q, k, v, call.mask)
        if found is not None:
            return found[0], torch.from_numpy(found[1])
    if q.device.type == "cpu":
        problem = call.hosted(q, k, v)
        if along is None:
            output, lse = kernels.forward(problem)
        else:
            output, lse, statistics = kernels.attend(problem)
            along.append(statistics)
        return tensor(problem.outward(output)), tensor(problem.outward(lse))
    problem = call.described(q, k, v)
    y, rows = flex.forward(problem) or blocks.forward(blocks.widened(problem))
    return problem.outward(y).to(q.dtype), problem.outward(rows)


def call_operator(call: Call, q: Tensor, k: Tensor, v: Tensor) -> Found:
    """The same by the operator, with gradients."""
    others: list[Tensor] = []
    integers: list[int] = []
    floats: list[float] = []
    text = call.write(others, integers, floats)
    return attention(q, k, v, True, others, integers, floats, text)


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rows: bool = True,
    others: list[Tensor] | None = None,
    integers: list[int] | None = None,
    floats: list[float] | None = None,
    asked: str = "",
) -> tuple[Tensor, Tensor]:
    """Output and lse, which is empty where no ``rows`` are wanted and nothing else wants them.

    ``asked`` is all that was asked as a text: scores, masks and biases by their names.

    In it, t0 and a0 are the first of the other tensors, i0 and f0 the first of the integers and floats.  What is asked
    most often has a short text and nothing beside it, since every argument takes time to be handed on.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *(others or ()))):
        return _Operator.apply((integers, floats, asked), q, k, v, *(others or ()))  # type: ignore[no-untyped-call]
    return attention_forward(q, k, v, rows, others, integers, floats, asked)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rows: bool = True,
    others: list[Tensor] | None = None,
    integers: list[int] | None = None,
    floats: list[float] | None = None,
    asked: str = "",
) -> tuple[Tensor, Tensor]:
    """The same without gradients."""
    call = SHORT_TEXTS.get(asked) or read(asked, others or (), integers or (), floats or ())
    if rows:
        return compute(call, q, k, v)
    found = short.forward(q, k, v, call.mask, rows=False) if q.is_cpu and call.plain else None
    output = compute(call, q, k, v)[0] if found is None else found[0]
    return output, output.new_empty(0, dtype=_wide(q))


def _forward_shapes(q: Tensor, k: Tensor, v: Tensor, rows: bool = True, *_: Any) -> Found:
    batch = torch.broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)))  # type: ignore[no-untyped-call]
    shape = (*batch, *q.shape[-3:-1])
    return q.new_empty((*shape, v.shape[-1])), q.new_empty(shape if rows else 0, dtype=_wide(q))


def _wide(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _backward(
    dy: Tensor | None,
    dlse: Tensor | None,
    output: Tensor,
    lse: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    wanted: list[bool] | None = None,
    others: list[Tensor] | None = None,
    integers: list[int] | None = None,
    floats: list[float] | None = None,
    asked: str = "",
) -> list[Tensor]:
    """Gradients of those of q, k, v and the other tensors that are wanted, by default all, in order."""
    # Each is itself, even where one tensor was given twice.
    others = [x.detach() for x in others or ()]
    call = SHORT_TEXTS.get(asked) or read(asked, others, integers or (), floats or ())
    wanted = [True] * (3 + len(others)) if wanted is None else wanted
    if q.is_cpu and call.plain and dy is not None and dlse is None:
        slopes = short.gradients(q, k, v, call.mask, output, lse, dy, wanted)
        if slopes is not None:
            return [x for x in slopes if x is not None]
    places = [3 + next(i for i, x in enumerate(others) if x is parameter) for parameter in call.parameters.values()]
    chosen = [*wanted[:3], *(wanted[i] for i in places)]
    # Operators are computed where torch records nothing, and blocks of rows are differentiated by torch.
    with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False):
        found = pull(call, (output, lse), chosen, dy, dlse, [q, k, v, *call.parameters.values()])
    by_place = dict(zip([0, 1, 2, *places], found, strict=True))
    return [x for x in (by_place[i] for i, want in enumerate(wanted) if want) if x is not None]


def _backward_shapes(
    dy: Any, dlse: Any, output: Any, lse: Any, q: Any, k: Any, v: Any, wanted: Any = None, others: Any = None, *_: Any
) -> list[Tensor]:
    inputs = (q, k, v, *(others or ()))
    return [x.new_empty(x.shape) for x, want in zip(inputs, wanted or [True] * len(inputs), strict=True) if want]


class _Operator(Function):
    """Output and lse with their gradients: ``apply((integers, floats, asked), q, k, v, *others)``."""

    @staticmethod
    def forward(ctx: Any, asked: tuple[Any, ...], q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> Found:
        # What records operators, such as torch.compile, sees this one and not what has called it.
        with torch._C._AutoDispatchBelowAutograd():
            output, lse = attention_forward(q, k, v, True, others or None, *asked)
        ctx.asked = asked
        ctx.save_for_backward(output, lse, q, k, v, *others)
        ctx.set_materialize_grads(False)
        return output, lse

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
        output, lse, q, k, v, *others = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1:]
        if dy is None and dlse is None:
            return None, *(None for _ in wanted)
        some = None if all(wanted) else wanted
        found = iter(attention_backward(dy, dlse, output, lse, q, k, v, some, others or None, *ctx.asked))
        return None, *(next(found) if want else None for want in wanted)


def _registered(schema: str, function: Callable[..., Any], shapes: Callable[..., Any] | None = None) -> Any:
    """An operator whose results share nothing with its inputs: ``torch.library.custom_op`` without its checks of that.

    In a compiled graph these take longer than a short attention.  Without ``shapes`` it consists of other operators.
    """
    name = schema.partition("(")[0]
    # Kernels read tensors as they lie, and torch.compile need not lay them out; it then hands on no defaults either.
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout))
    if shapes is None:
        _LIBRARY.impl(name, function, "CompositeImplicitAutograd")
        return getattr(torch.ops.overt, name)

    def called(*args: Any) -> Any:
        # What compiled code calls is not compiled in turn; ``torch.compiler.disable`` takes ten times as long.
        before = set_eval_frame(None)
        try:
            return function(*args)
        finally:
            set_eval_frame(before)

    _LIBRARY.impl(name, called, "CompositeExplicitAutograd")
    torch.library.register_fake(f"overt::{name}", shapes, lib=_LIBRARY)
    return getattr(torch.ops.overt, name)


# Kept, since operators go with their library.
_LIBRARY: Any = torch.library.Library("overt", "FRAGMENT")  # type: ignore[no-untyped-call]
_INPUTS = "Tensor q, Tensor k, Tensor v"
_REST = 'Tensor[]? others=None, int[]? integers=None, float[]? floats=None, str asked=""'
attention_forward = _registered(
    f"attention_forward({_INPUTS}, bool rows=True, {_REST}) -> (Tensor, Tensor)",
    _forward,
    _forward_shapes,
)
attention_backward = _registered(
    "attention_backward(Tensor? dy, Tensor? dlse, Tensor output, Tensor lse, "
    f"{_INPUTS}, bool[]? wanted=None, {_REST}) -> Tensor[]",
    _backward,
    _backward_shapes,
)
attention = _registered(f"attention({_INPUTS}, bool rows=True, {_REST}) -> (Tensor, Tensor)", _attention)
