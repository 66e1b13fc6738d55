"""Tensors as arrays and back, without a copy where they lie on the CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None


def array(x: Tensor) -> np.ndarray:
    """A tensor of any device as an array; bfloat16 stays so where NumPy can know it, and else becomes float32."""
    x = x.detach().cpu()
    if x.dtype != torch.bfloat16:
        return x.resolve_neg().numpy()
    if bfloat16 is None:
        return x.float().numpy()
    # A view of another dtype wants a last axis that lies in one piece.
    x = x if x.stride(-1) == 1 else x.contiguous()
    return x.view(torch.int16).numpy().view(bfloat16)


def tensor(x: np.ndarray, like: Tensor) -> Tensor:
    """An array that is nobody else's as a tensor of the dtype and on the device of another."""
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).to(like.device)
    return torch.from_numpy(x).to(like.device, like.dtype)


def owned(x: np.ndarray) -> Tensor:
    """A result that may not be written to, as a tensor of its own."""
    return torch.from_numpy(np.array(x))
