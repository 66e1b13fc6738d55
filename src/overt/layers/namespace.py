"""The array library that an array is of."""

from __future__ import annotations

import sys
from typing import Any

import array_api_compat

from overt.grid import Array, plain


def array_namespace(x: Array, name: str = "x") -> Any:
    """As in array_api_compat, whose caches ``torch.compile`` warns of; a masked array is refused by its name."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        import array_api_compat.torch as xp

        return xp
    return array_api_compat.array_namespace(plain(name, x))


def unstack(x: Array, axis: int) -> tuple[Array, ...]:
    """All parts along an axis, cut at once, so that the gradient is put together at once."""
    xp = array_namespace(x)
    # That of array_api_compat knows no torch.func.vmap.
    return xp.unbind(x, axis) if hasattr(xp, "unbind") else xp.unstack(x, axis=axis)
