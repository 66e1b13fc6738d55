"""Attention by torch's own fused kernels, which other devices have, where these can do what is asked."""

from __future__ import annotations

from typing import Any

import array_api_compat.torch as xp
import torch
from torch import Tensor
from torch.nn import functional

from overt.biases import Dense
from overt.masks import Window
from overt.problem import Problem
from overt.scores import Product
from overt.torch.call import Call


def can(call: Call, q: Tensor, k: Tensor) -> bool:
    """Whether ``scaled_dot_product_attention`` can do it without a mask or a bias of its own making."""
    plain = isinstance(call.score, Product) and call.score.identity
    asked = call.softcap is None and call.sinks is None and call.dropout is None
    # A bias that is wider than the rest would be rounded to it.
    array = call.bias is None or (isinstance(call.bias, Dense) and call.bias.parameter.dtype == q.dtype)
    return plain and asked and array and (call.mask is None or isinstance(call.mask, Tensor) or _square(call, q, k))


def fused(call: Call, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Output, on any device.  NaN behind a mask may reach it."""
    options: dict[str, Any] = {"score": call.score, "mask": None, "bias": call.bias}
    problem = Problem.of(q, k, v, **options)
    # torch's kernels want exactly four axes.
    (B, H, T, _), S = problem.q.shape, problem.k.shape[2]
    full, four = problem.shape.full, (B, H, T, S)
    left, right, scale = call.score.factors(xp, problem.q, problem.k)
    same: dict[str, Any] = {"scale": scale, "enable_gqa": left.shape[1] != right.shape[1]}
    if call.mask is not None and not isinstance(call.mask, Tensor):
        y = functional.scaled_dot_product_attention(left, right, problem.v, is_causal=True, **same)
        return problem.outward(y)
    seen = None if call.bias is None else call.bias.parameter.expand(full).reshape(four)
    if call.mask is None:
        return problem.outward(functional.scaled_dot_product_attention(left, right, problem.v, attn_mask=seen, **same))
    keep = call.mask.to(q.device).expand(full).reshape(four)
    some = keep.any(dim=-1, keepdim=True)
    # A row that sees nothing sees everything here and becomes zeros below, so that no NaN arises on the way.
    keep = keep | ~some
    seen = keep if seen is None else torch.where(keep, seen, float("-inf"))
    y = functional.scaled_dot_product_attention(left, right, problem.v, attn_mask=seen, **same)
    return problem.outward(torch.where(some, y, 0.0))


def _square(call: Call, q: Tensor, k: Tensor) -> bool:
    """Whether the mask is torch's own causal one, which is aligned at the first key."""
    mask = call.mask
    causal = isinstance(mask, Window) and (mask.left, mask.right) == (None, 0) and mask.offset is None
    return causal and q.shape[-2] == k.shape[-2] and call.bias is None
