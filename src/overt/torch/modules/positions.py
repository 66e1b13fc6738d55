"""What tells the positions of a sequence apart."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from overt import layers, positions
from overt.torch.modules.layer import Device, Layer


class SinusoidalPositions(nn.Module):
    """Adds the fixed encoding of Vaswani et al. 2017 to x (…, T, width)."""

    def forward(self, x: Tensor) -> Tensor:
        # torch.compile takes this into its graph, and no cache with it.
        encoding = (positions.sinusoidal if torch.compiler.is_compiling() else _sinusoidal)(x.shape[-2], x.shape[-1])
        return x + torch.from_numpy(encoding).to(x)


@lru_cache(maxsize=4)
def _sinusoidal(T: int, width: int) -> np.ndarray:
    return positions.sinusoidal(T, width)


class LearnedPositions(Layer):
    """Adds a learned vector for each of at most ``count`` positions to x (…, T, width).  Algorithm 2."""

    def __init__(self, count: int, width: int, *, device: Device = None, dtype: torch.dtype | None = None) -> None:
        super().__init__(shapes={"position_embedding": (count, width)}, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return x + layers.positional_embedding(self.tensors["position_embedding"], 0, x.shape[-2])
