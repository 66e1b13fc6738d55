"""Convolution module of the streaming speech encoder.

Pointwise expansion with a GLU gate, causal depthwise convolution, RMS norm, SiLU,
pointwise projection.  ``forward`` accepts the cache of the previous chunk (the
last kernel_size - 1 gated frames) and returns the new one, so chunked processing
equals processing in one go.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class StreamingConvGate(nn.Module):
    def __init__(self, dim: int = 32, kernel_size: int = 7, expansion: int = 2):
        super().__init__()
        inner = dim * expansion
        self.context = kernel_size - 1
        self.norm = nn.LayerNorm(dim)
        self.pointwise_in = nn.Conv1d(dim, 2 * inner, 1)
        self.depthwise = nn.Conv1d(inner, inner, kernel_size, groups=inner)
        self.inner_norm = nn.RMSNorm(inner, eps=1e-6)
        self.pointwise_out = nn.Conv1d(inner, dim, 1)

    def init_cache(self, batch: int, like: torch.Tensor) -> torch.Tensor:
        return like.new_zeros(batch, self.depthwise.in_channels, self.context)

    def forward(
        self, x: torch.Tensor, cache: Optional[torch.Tensor] = None
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        """x: [B, T, dim] -> ([B, T, dim], cache)"""
        if cache is None:
            cache = self.init_cache(x.size(0), x)
        h = self.norm(x).transpose(1, 2)
        value, gate = self.pointwise_in(h).chunk(2, dim=1)
        h = value * torch.sigmoid(gate)
        h = torch.cat([cache, h], dim=2)
        new_cache = h[:, :, h.size(2) - self.context:]
        h = self.depthwise(h)
        h = self.inner_norm(h.transpose(1, 2)).transpose(1, 2)
        h = self.pointwise_out(F.silu(h)).transpose(1, 2)
        return x + h, new_cache


class SubsampledFrontEnd(nn.Module):
    """Fourfold time reduction, followed by two gated convolutions."""

    def __init__(self, n_mels: int = 40, dim: int = 32):
        super().__init__()
        self.down = nn.Sequential(nn.Conv1d(n_mels, dim, 4, stride=2, padding=1), nn.GELU(),
                                  nn.Conv1d(dim, dim, 4, stride=2, padding=1), nn.GELU())
        self.gates = nn.ModuleList(StreamingConvGate(dim) for _ in range(2))

    def forward(self, mel):
        # mel: [B, n_mels, T]
        x = self.down(mel).transpose(1, 2)
        for g in self.gates:
            x, _ = g(x)
        return x
