"""Tensors of any device as arrays, without a copy where they lie on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from overt.torch import arrays


def array(x: Tensor | np.ndarray) -> np.ndarray:
    """A tensor of any device and any strides as an array; bfloat16 as words, see ``overt.torch.arrays``."""
    if isinstance(x, np.ndarray):
        return x
    x = x.detach().cpu()
    # Words of another type want a last axis that lies in one piece.
    return arrays.array(x if x.dtype != torch.bfloat16 or x.stride(-1) == 1 else x.contiguous())


def owned(x: np.ndarray) -> Tensor:
    """A result that may not be written to, as a tensor of its own."""
    return torch.from_numpy(np.array(x))
