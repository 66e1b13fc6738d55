"""Scaled dot-product attention, causal or not, of CPU tensors in few words, since short calls are mostly words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from overt import kernels

_NAMES = {torch.float32: "float32", torch.float64: "float64", torch.float16: "float16", torch.bfloat16: "bfloat16"}
_WIDE = {kind: torch.float64 if kind is torch.float64 else torch.float32 for kind in _NAMES}


def forward(q: Tensor, k: Tensor, v: Tensor, mask: Any, *, rows: bool = True) -> tuple[Tensor, Any] | None:
    """Output and, of all ``rows``, the lse of tensors that the kernels can read as they are; None for all others."""
    kind = q.dtype
    # A sign may only be noted down.
    if kind not in _NAMES or q.is_neg() or k.is_neg() or v.is_neg() or v.ndim < 3:
        return None
    same = q.shape[-1] == v.shape[-1]
    output = _room(q, kind) if same else q.new_empty((*q.shape[:-1], v.shape[-1]))
    lse = q.new_empty(q.shape[:-1], dtype=_WIDE[kind]) if rows else None
    done = kernels.plain_forward(q, k, v, _NAMES[kind], None, mask, output, lse, torch.get_num_threads())
    return (output, lse) if done else None


def gradients(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, found: tuple[Tensor, Tensor], dy: Tensor, wanted: Sequence[bool]
) -> list[Tensor | None] | None:
    """Those gradients of q, k and v that are wanted, from what ``forward`` found; None as there."""
    kind = q.dtype
    if kind not in _NAMES or q.is_neg() or k.is_neg() or v.is_neg() or dy.is_neg():
        return None
    wide = _WIDE[kind]
    slopes = dq, dk, dv = [_room(x, wide) if want else None for x, want in zip((q, k, v), wanted, strict=True)]
    threads = torch.get_num_threads()
    if not kernels.plain_gradient(q, k, v, _NAMES[kind], mask, *found, dy.contiguous(), dq, dk, dv, threads):
        return None
    return slopes if wide is kind else [None if x is None else x.to(kind) for x in slopes]


def _room(like: Tensor, kind: torch.dtype) -> Tensor:
    if like.dtype is kind and like.is_contiguous():
        return torch.empty_like(like)
    return like.new_empty(like.shape, dtype=kind)
