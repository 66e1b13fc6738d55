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
    """Output, on any device.

    What stands behind a mask does not reach it.  A row that sees a key or a value that is not finite is NaN where there
    is a mask: torch's kernels would multiply hidden ones by 0, and so never get to see any.
    """
    options: dict[str, Any] = {"score": call.score, "mask": None, "bias": call.bias}
    problem = Problem.of(q, k, v, **options)
    # torch's kernels want exactly four axes.
    (B, H, T, _), S = problem.q.shape, problem.k.shape[2]
    full, four = problem.shape.full, (B, H, T, S)
    left, right, scale = call.score.factors(xp, problem.q, problem.k)
    same: dict[str, Any] = {"scale": scale, "enable_gqa": left.shape[1] != right.shape[1]}
    if call.mask is not None and not isinstance(call.mask, Tensor):
        right, values, wild = _finite(problem, right)
        y = functional.scaled_dot_product_attention(left, right, values, is_causal=True, **same)
        return problem.outward(torch.where(wild.cumsum(dim=-1)[..., None] > 0, torch.nan, y))
    seen = None if call.bias is None else call.bias.parameter.expand(full).reshape(four)
    if call.mask is None and seen is None:
        return problem.outward(functional.scaled_dot_product_attention(left, right, problem.v, **same))
    right, values, wild = _finite(problem, right)
    keep = q.new_ones((), dtype=torch.bool) if call.mask is None else call.mask.to(q.device)
    keep = keep.expand(full).reshape(four)
    if seen is not None:
        keep = keep & (seen != -torch.inf)
    spoiled = (keep & wild[:, :, None]).any(dim=-1, keepdim=True)
    some = keep.any(dim=-1, keepdim=True)
    # A row that sees nothing sees everything here and becomes zeros below, so that no NaN arises on the way.
    keep = keep | ~some
    seen = keep if seen is None else torch.where(keep, seen, float("-inf"))
    y = functional.scaled_dot_product_attention(left, right, values, attn_mask=seen, **same)
    return problem.outward(torch.where(spoiled, torch.nan, torch.where(some, y, 0.0)))


def _finite(problem: Problem, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and values with zeros for what is not finite, and the keys (B, H, S) where there was any."""
    finite = k.isfinite(), problem.v.isfinite()
    wild = problem.heads(~(finite[0].all(dim=-1) & finite[1].all(dim=-1)))
    return torch.where(finite[0], k, 0.0), torch.where(finite[1], problem.v, 0.0), wild


def _square(call: Call, q: Tensor, k: Tensor) -> bool:
    """Whether the mask is torch's own causal one, which is aligned at the first key."""
    mask = call.mask
    causal = isinstance(mask, Window) and (mask.left, mask.right) == (None, 0) and mask.offset is None
    return causal and q.shape[-2] == k.shape[-2] and call.bias is None
