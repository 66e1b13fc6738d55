"""``scaled_dot_product_attention``, and what runs it on the inside: ``multi_head_attention_forward``, FlexAttention."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import CausalBias, CausalVariant

from overt.torch.record import visible
from overt.torch.record.call import Call
from overt.torch.record.following import Use
from overt.torch.record.kernel import SDPA, Tap, lse_of
from overt.torch.record.visible import Visible

FLEX = torch.ops.higher_order.flex_attention
MULTI_HEAD = functional.multi_head_attention_forward
# What attends behind a single name, and shows nothing of it.
_CLOSED = frozenset({torch._native_multi_head_attention, torch._transformer_encoder_layer_fwd})
_KERNEL = re.compile(r"aten::_.*(scaled_dot_product|attention)|(?!aten::).*::.*(attn|attention|attend|sdpa)")
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
FUSED: frozenset[Any] = frozenset({SDPA, FLEX, MULTI_HEAD}) | _CLOSED
# The same code, whose inside a function mode can see: it asks ``has_torch_function`` whether to hide it.
OPEN_MULTI_HEAD = types.FunctionType(
    MULTI_HEAD.__code__,
    {**vars(functional), "has_torch_function": lambda *_: False},
    MULTI_HEAD.__name__,
    MULTI_HEAD.__defaults__,
)
OPEN_MULTI_HEAD.__kwdefaults__ = MULTI_HEAD.__kwdefaults__


def closed(name: str) -> bool:
    """Whether a function, or an operator with its namespace, attends where nobody can look."""
    return any(name == x.__name__ for x in _CLOSED) or _KERNEL.match(name) is not None


def hidden(args: Iterable[Any]) -> str | None:
    """Why nothing can be read of tensors, None if it can."""
    for x in args:
        if isinstance(x, Tensor):
            if _is_wrapped(x):
                return "it runs inside torch.func.vmap or grad"
            if x.is_nested or (type(x) is not Tensor and type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__):
                return f"its tensors are of the class {'nested ' if x.is_nested else ''}{type(x).__name__}"
    return None


def sdpa(
    tap: Tap,
    heads: int | None,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Call]:
    """Run it, and say what it was.  heads: how many lie in the first of three axes."""
    output = tap.run(
        SDPA, (query, key, value, attn_mask, dropout_p, is_causal), {"scale": scale, "enable_gqa": enable_gqa}
    )
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])  # type: ignore[no-untyped-call]
    q, k, v, y = (four(x.detach(), heads, batch) for x in (query, key, value, output))
    (B, H, T, D), S = q.shape, k.shape[2]
    if not enable_gqa and k.shape[1] != H:
        # torch broadcasts the axis of heads too.
        k, v = (x.expand(B, H, *x.shape[2:]) for x in (k, v))
    seen, bias = Visible.causal(T, S, 0) if is_causal else Visible.everything(S), None
    if isinstance(attn_mask, CausalBias):
        offset = S - T if attn_mask.variant == CausalVariant.LOWER_RIGHT else 0
        seen = seen.both(Visible.causal(T, S, offset))
    elif attn_mask is not None:
        mask = four_or_fewer(attn_mask, heads, batch, query.ndim)
        seen, bias = visible.split(mask if mask.shape[3] == S else mask.expand(-1, -1, -1, S))
    scale = scale if scale is not None else D**-0.5 if D else 1.0
    grad = any(x.requires_grad for x in (query, key, value))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    lse = lse_of(tap, B, H, T, wide)
    return output, Call("sdpa", q, k, v, y, float(scale), seen, bias, lse=lse, dropped=dropout_p > 0, grad=grad)


def flex(args: Any, result: Any) -> Call:
    """What a FlexAttention was, from the operator's own arguments."""
    query, key, value, score_mod, block_mask, scale = args[:6]
    q, k, v, y = (x.detach() for x in (query, key, value, result[0]))
    (B, H, T, _), S, device = q.shape, k.shape[2], q.device
    k, v = (x.expand(B, *x.shape[1:]) for x in (k, v))
    seen = visible.of_predicate(block_mask[-1], B, H, T, S, device)
    call = Call("flex", q, k, v, y, float(scale), seen)
    if getattr(score_mod, "__name__", "") == "_identity":
        return call
    # What the function makes of scores is known by running it: on all cells, for the operator itself does no less here.
    scores = (q.to(call.wide) @ k.to(call.wide).repeat_interleave(H // k.shape[1], 1).mT) * scale
    scores = visible.evaluated(score_mod, B, H, range(T), S, device, call.wide, scores)
    scores = scores.masked_fill(~seen.rows(slice(None), S, device), -torch.inf)
    call.weights = scores.softmax(-1).nan_to_num()
    return call


def given(heads: int | None, used: Use) -> Call:
    """Weights that a softmax of somebody's own code gave, and the values that they mixed."""
    weights, values, output = used.weights, used.values, used.output
    if weights.ndim == 5 and heads == weights.shape[1] * weights.shape[2]:
        # Groups of heads, which may share their values.
        weights, output = weights.flatten(1, 2), output.flatten(1, 2)
        values = values.squeeze(2) if values.shape[2] == 1 else values.flatten(1, 2)
    batch = torch.broadcast_shapes(weights.shape[:-3], values.shape[:-3])  # type: ignore[no-untyped-call]
    if values.ndim > 2 and weights.ndim == values.ndim == 3:
        shape = torch.broadcast_shapes(weights.shape[:1], values.shape[:1])  # type: ignore[no-untyped-call]
        weights, values = (x.expand(*shape, *x.shape[1:]) for x in (weights, values))
    w, v, y = (four(x.detach(), heads, batch) for x in (weights, values, output))
    B, H, T, S = w.shape
    v = v.expand(B, v.shape[1], *v.shape[2:])
    nothing = w.new_empty((B, H, T, 0)), w.new_empty((B, v.shape[1], S, 0))
    return Call("softmax", *nothing, v, y, 1.0, Visible.everything(S), weights=w, dropped=used.dropped)


def four(x: Tensor, heads: int | None, batch: torch.Size) -> Tensor:
    """(…, N, C) with exactly the axes (B, H, N, C); of three axes the first holds the heads, if there are any."""
    if x.ndim == 2:
        return x[None, None]
    if x.ndim == 3:
        if heads and x.shape[0] % heads == 0:
            return x.reshape(-1, heads, *x.shape[1:])
        return x[:, None]
    return x.expand(*batch, *x.shape[-3:]).reshape(prod(batch), *x.shape[-3:])


def four_or_fewer(mask: Tensor, heads: int | None, batch: torch.Size, ndim: int) -> Tensor:
    """A mask that broadcasts to the scores as (B or 1, H or 1, T or 1, S or 1)."""
    if mask.ndim <= 2:
        return mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if ndim == 3:
        if heads is None or mask.shape[0] == 1 or mask.shape[0] % heads:
            return mask[:, None]
        return mask.reshape(-1, heads, *mask.shape[1:])
    if mask.ndim == 4 and len(batch) == 1:
        return mask
    return mask.expand(*batch, *mask.shape[-3:]).reshape(-1, *mask.shape[-3:])
