"""Arrays of other libraries that lie in the memory of the CPU, as NumPy arrays without a copy, and the way back."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from overt.errors import QuadraticWarning
from overt.grid import Array, Shape
from overt.problem import namespace

# Cells of a score matrix that nobody need be told of.
SMALL = 1 << 24
# DLPack's number for memory that every processor core can read.
_CPU = 1


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor of torch, which a program that holds one has imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def lent(*arrays: Array) -> tuple[list[np.ndarray], Callable[[np.ndarray], Array]] | None:
    """NumPy's view of arrays of one other library, and what makes its own of a result; None where there is none.

    What follows how its numbers come about, a tensor of torch or a tracer of JAX, is never lent: that would be lost.
    """
    if any(isinstance(x, np.ndarray) or is_tensor(x) or not hasattr(x, "__dlpack_device__") for x in arrays):
        return None
    try:
        if any(x.__dlpack_device__()[0] != _CPU for x in arrays):
            return None
        xp = namespace(**{f"array {i}": x for i, x in enumerate(arrays)})
        return [_view(x) for x in arrays], xp.asarray
    # Each library has its own way to say that it has no numbers yet, or none here.
    except Exception:
        return None


def warn_of_quadratic(shape: Shape, why: str) -> None:
    """Say that a whole matrix of weights is held, where it is large."""
    cells = prod(shape.full)
    if cells > SMALL:
        # As if said by who called attention.
        warnings.warn(f"{why}: {cells:,} weights (…, H, T, S) = {shape.full} at once", QuadraticWarning, stacklevel=5)


def _view(x: Array) -> np.ndarray:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError):
        # DLPack of NumPy knows no bfloat16, and none that may not be written to.
        return np.asarray(x)
