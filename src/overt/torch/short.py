"""Scaled dot-product attention, causal or not, of CPU tensors in few words, since short calls are mostly words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from overt import kernels

_NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_WIDE = {kind: torch.float64 if kind is torch.float64 else torch.float32 for kind in _NAMES}
# Of an lse, which is made in a third of a tensor's time as an array.
_ROWS = {kind: np.dtype(np.float64 if kind is torch.float64 else np.float32) for kind in _NAMES}


def forward(q: Tensor, k: Tensor, v: Tensor, mask: Any, *, rows: bool = True) -> tuple[Tensor, Any] | None:
    """Output and, of all ``rows``, the lse of tensors that the kernels can read as they are; None for all others."""
    kind = q.dtype
    # A sign may only be noted down, and a nested tensor has no shape.
    if kind not in _NAMES or q.is_neg() or k.is_neg() or v.is_neg() or v.ndim < 3:
        return None
    if q.is_nested or k.is_nested or v.is_nested:
        return None
    shape, E = q.shape, v.shape[-1]
    output = _room(q, kind) if shape[-1] == E else q.new_empty((*shape[:-1], E))
    lse = np.empty(shape[:-1], _ROWS[kind]) if rows else None
    done = kernels.plain_forward(q, k, v, _NAMES[kind], None, mask, output, lse, torch.get_num_threads())
    return (output, lse) if done else None


def gradients(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, output: Tensor, lse: Any, dy: Tensor, wanted: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None, Tensor | None] | None:
    """Those gradients of q, k and v that are wanted, from output and lse, a tensor or an array; None as there."""
    kind = q.dtype
    if kind not in _NAMES or q.is_neg() or k.is_neg() or v.is_neg() or dy.is_neg():
        return None
    wide = _WIDE[kind]
    of_q, of_k, of_v = wanted
    dq = _room(q, wide) if of_q else None
    dk = _room(k, wide) if of_k else None
    dv = _room(v, wide) if of_v else None
    threads = torch.get_num_threads()
    if not kernels.plain_gradient(q, k, v, _NAMES[kind], mask, output, lse, dy.contiguous(), dq, dk, dv, threads):
        return None
    if wide is kind:
        return dq, dk, dv
    dq, dk, dv = (None if x is None else x.to(kind) for x in (dq, dk, dv))
    return dq, dk, dv


def _room(like: Tensor, kind: torch.dtype) -> Tensor:
    if like.dtype is kind and like.is_contiguous():
        return torch.empty_like(like)
    return like.new_empty(like.shape, dtype=kind)
