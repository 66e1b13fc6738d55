"""Token mixing for tabular time series without any comparison of tokens."""
import torch
import torch.nn as nn


class SpatialGate(nn.Module):
    """
    x: (B, L, 2*d) -> (B, L, d). One half is mixed along the L axis by a fixed
    learned L x L matrix (lower triangle only, so a step never uses later
    steps) and multiplies the other half.
    """

    def __init__(self, d=16, length=12):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.mix = nn.Parameter(torch.randn(length, length) * 0.02)
        self.shift = nn.Parameter(torch.ones(length, 1))

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        L = x.size(1)
        v = self.mix.tril()[:L, :L] @ self.norm(v) + self.shift[:L]
        return u * v


class MixerBlock(nn.Module):
    """x: (B, L, dim) with L <= length; same shape out, residual inside."""

    def __init__(self, dim=24, d=16, length=12):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.key = nn.Linear(dim, 2 * d)
        self.gate = SpatialGate(d, length)
        self.value = nn.Linear(d, dim)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.key(self.norm(x)))
        return x + self.value(self.gate(h))
