"""``scaled_dot_product_attention``, and what runs it on the inside: ``multi_head_attention_forward``, FlexAttention."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention.bias import CausalBias, CausalVariant

from overt.torch.record import visible
from overt.torch.record.call import Call
from overt.torch.record.cells import Operand, Rows
from overt.torch.record.kernel import SDPA, Tap, lse_of
from overt.torch.record.mixing import ordered, swapped, unfolded
from overt.torch.record.origins import Origins
from overt.torch.record.softmaxes import Use
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
    origins: Origins,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Call]:
    """Run it, and say what it was.  origins: of what was multiplied, which tell samples from heads."""
    output = tap.run(
        SDPA, (query, key, value, attn_mask, dropout_p, is_causal), {"scale": scale, "enable_gqa": enable_gqa}
    )
    mixed, places = output, None
    # Who aligns queries with keys by their numbers has no heads there.
    aligned = is_causal or isinstance(attn_mask, CausalBias)
    order, rows = (None, []) if enable_gqa else _order(origins, query, key, value, not aligned)
    if rows or order is not None:
        places = torch.arange(prod(output.shape[:-1])).reshape(*output.shape[:-1], 1)
    if rows:
        shared = query.ndim > 2 and query.shape[-3] > 1 and all(x.ndim < 3 or x.shape[-3] == 1 for x in (key, value))
        turn: tuple[Any, ...] = unfolded, rows, -2
        if len(rows) == 1 and shared:
            # Heads stand where queries do, and queries where samples do that share their keys.
            turn = (swapped,)
        else:
            key, value = (origins.moved(Tensor.unsqueeze, x, -3) for x in (key, value))
        if attn_mask is not None:
            more = (1,) * (3 - attn_mask.ndim)
            attn_mask = attn_mask.expand(*more, *attn_mask.shape[:-2], query.shape[-2], -1)
        query = origins.moved(turn[0], query, *turn[1:])
        mixed, places, attn_mask = (None if x is None else turn[0](x, *turn[1:]) for x in (mixed, places, attn_mask))
        order, _ = _order(origins, query, key, value)
    batch = torch.broadcast_shapes(query.shape[:-3], key.shape[:-3], value.shape[:-3])  # type: ignore[no-untyped-call]
    leading = mixed.shape[:-2]
    q, k, v, y = (four(x.detach(), batch, order, leading) for x in (query, key, value, mixed))
    places = None if places is None else four(places, batch, order, leading)
    (B, H, T, D), S = q.shape, k.shape[2]
    if not enable_gqa and not H == k.shape[1] == v.shape[1] == y.shape[1]:
        # torch broadcasts the axis of heads too.
        H = y.shape[1]
        q, k, v = (x.expand(B, H, *x.shape[2:]) for x in (q, k, v))
    seen, bias = Visible.causal(T, S, 0) if is_causal else Visible.everything(S), None
    if isinstance(attn_mask, CausalBias):
        offset = S - T if attn_mask.variant == CausalVariant.LOWER_RIGHT else 0
        seen = seen.both(Visible.causal(T, S, offset))
    elif attn_mask is not None:
        mask = four_or_fewer(attn_mask, batch, query.ndim, order, leading)
        seen, bias = visible.split(mask if mask.shape[3] == S else mask.expand(-1, -1, -1, S))
    scale = scale if scale is not None else D**-0.5 if D else 1.0
    grad = any(x.requires_grad for x in (query, key, value))
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    lse = lse_of(tap, B, H, T, wide) if places is None else lse_of(tap, 1, 1, prod(places.shape), wide)
    if places is not None and lse is not None:
        lse = lse.reshape(-1)[places[..., 0].to(lse.device)]
    return output, Call(
        "sdpa", q, k, v, y, float(scale), seen, bias, lse=lse, dropped=dropout_p > 0, grad=grad, places=places
    )


def placed(call: Call, like: Tensor) -> Tensor:
    """The output of a call with the axes that the model has."""
    if call.places is None:
        return call.output.reshape(like.shape)
    output = torch.empty_like(like).flatten(0, -2)
    output[call.places.flatten()] = call.output.flatten(0, 2)
    return output.view(like.shape)


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


def given(used: Use) -> Call:
    """Weights that a softmax of somebody's own code gave, and the values that they mixed."""
    weights, values, output, order = used.weights, used.values, used.output, used.order
    leading = output.shape[:-2]
    # Weights may be shared by samples and heads; values that heads share are so kept.
    weights, values = weights.detach().expand(*leading, *weights.shape[-2:]), values.detach()
    w, y = (four(x, leading[:-1], order, leading) for x in (weights, output.detach()))
    if order is not None:
        v = _shared(values, order, leading)
    else:
        values = values[(None,) * (output.ndim - values.ndim)]
        own = leading if len(leading) < 2 else (*leading[:-1], values.shape[-3])
        v = four(values.expand(*own, *values.shape[-2:]), leading[:-1], None, leading)
    B, H, T, S = w.shape
    nothing = w.new_empty((B, H, T, 0)), w.new_empty((B, v.shape[1], S, 0))
    return Call("softmax", *nothing, v, y, 1.0, Visible.everything(S), weights=w, dropped=used.dropped)


def _order(
    origins: Origins, query: Tensor, key: Tensor, value: Tensor, rows: bool = False
) -> tuple[np.ndarray | None, Rows]:
    """Which of the leading axes hold samples and which heads; rows: whether queries may be heads too, and which are."""
    shapes = [x.shape[:-2] for x in (query, key, value)]
    leading = tuple(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]
    operands = []
    for x, own in zip((query, key, value), shapes, strict=True):
        missing = len(leading) - len(own)
        axes = [None if i < missing or own[i - missing] < n else i - missing for i, n in enumerate(leading)]
        if (origin := origins.of(x)) is not None:
            queries = x.ndim - 2 if rows and x is query else None
            operands.append(Operand(origin, tuple(axes), x.ndim - 1, queries))
    return origins.order(leading, operands)


def _shared(values: Tensor, order: np.ndarray, leading: torch.Size) -> Tensor:
    """Values (B, G, S, E), which the last of the leading axes may share."""
    B, H = order.shape
    own, n = values.shape[:-2], len(leading)
    straight = np.array_equal(order.ravel(), np.arange(B * H))
    if straight and n > 2 and own == (*leading[:-1], 1) and prod(own) % B == 0:
        return values.reshape(B, -1, *values.shape[-2:])
    return four(values, torch.Size(), order, leading)


def four(x: Tensor, batch: torch.Size, order: np.ndarray | None, leading: torch.Size) -> Tensor:
    """(…, N, C) with exactly the axes (B, H, N, C); where nothing tells, the first of three holds samples."""
    if order is not None:
        return ordered(x.expand(*leading, *x.shape[-2:]).reshape(-1, *x.shape[-2:]), order)
    if x.ndim == 2:
        return x[None, None]
    if x.ndim == 3:
        return x[:, None]
    return x.expand(*batch, *x.shape[-3:]).reshape(prod(batch), *x.shape[-3:])


def four_or_fewer(mask: Tensor, batch: torch.Size, ndim: int, order: np.ndarray | None, leading: torch.Size) -> Tensor:
    """A mask that broadcasts to the scores as (B or 1, H or 1, T or 1, S or 1)."""
    if mask.ndim <= 2 or prod(mask.shape[:-2]) == 1:
        return mask.reshape(1, 1, *((1,) * (2 - mask.ndim)), *mask.shape[-2:])
    if order is not None:
        return four(mask, batch, order, leading)
    if ndim == 3:
        return mask[:, None]
    if mask.ndim == 4 and len(batch) == 1:
        return mask
    return mask.expand(*batch, *mask.shape[-3:]).reshape(-1, *mask.shape[-3:])
