"""Gradients for the vmap of ``torch.autograd``: ``is_grads_batched=True``, ``jacobian(…, vectorize=True)``.

Its tensors have no numbers that anybody could read.  An operator that it does not know it calls once for each entry,
with plain tensors, as long as the operator takes tensors and gives tensors; so what is to be mapped goes through one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

Maybe = Tensor | None

_BATCHED = torch._C._dispatch_key_parse("Batched")
# What each call of the operator is about.
_functions: dict[int, Callable[[Tensor], Tensor]] = {}


def is_batched(*tensors: Maybe) -> bool:
    """Whether that vmap maps over one of these."""
    return any(x is not None and torch._C._dispatch_keys(x).has(_BATCHED) for x in tensors)


def each(function: Callable[..., Sequence[Maybe]], *tensors: Maybe) -> list[Maybe]:
    """What a function gives for each entry of batched tensors."""
    given = [x if x is None else (x.shape, x.dtype) for x in tensors]
    found: list[Any] = []

    def of_entry(packed: Tensor) -> Tensor:
        # Blocks of rows are differentiated by torch, and operators are computed where it records nothing.
        with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False):
            results = function(*_unpacked(packed, given))
        found[:] = [x if x is None else (x.shape, x.dtype) for x in results]
        return _packed(results)

    place = id(of_entry)
    _functions[place] = of_entry
    try:
        packed = torch.ops.overt.each(_packed(tensors), place)
    finally:
        del _functions[place]
    return _unpacked(packed, found)


def _packed(tensors: Sequence[Maybe]) -> Tensor:
    some = [x for x in tensors if x is not None]
    # Which holds all of them exactly.
    kind = reduce(torch.promote_types, [x.dtype for x in some])
    return torch.cat([x.reshape(-1).to(kind) for x in some])


def _unpacked(packed: Tensor, like: Sequence[Any]) -> list[Maybe]:
    tensors: list[Maybe] = []
    start = 0
    for one in like:
        if one is None:
            tensors.append(None)
            continue
        shape, kind = one
        end = start + shape.numel()
        tensors.append(packed[start:end].reshape(shape).to(kind))
        start = end
    return tensors


def _each(packed: Tensor, place: int) -> Tensor:
    return _functions[place](packed)


# Kept, since operators go with their library.
_LIBRARY: Any = torch.library.Library("overt", "FRAGMENT")  # type: ignore[no-untyped-call]
_LIBRARY.define("each(Tensor packed, int place) -> Tensor")
_LIBRARY.impl("each", _each, "CompositeExplicitAutograd")
