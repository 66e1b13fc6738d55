"""CPU tensors as the arrays that kernels read, and back: the same memory, never a copy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from overt.grid import WORDS


def array(x: Tensor) -> np.ndarray:
    """The memory of a CPU tensor; NumPy sees bfloat16 as the words that it consists of."""
    x = x.detach()
    if x.dtype is torch.bfloat16:
        return x.resolve_neg().view(torch.int16).numpy().view(WORDS)
    try:
        return x.numpy()
    except RuntimeError:
        # A sign that was only noted down is written out.
        return x.resolve_neg().numpy()


def tensor(x: np.ndarray) -> Tensor:
    """An array that is nobody else's as a tensor, which knows no negative strides."""
    x = np.asarray(x)
    if any(stride < 0 for stride in x.strides):
        x = x.copy()
    return torch.from_numpy(x) if x.dtype != WORDS else torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
