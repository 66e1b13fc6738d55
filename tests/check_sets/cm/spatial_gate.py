"""gMLP block (Liu et al., 2021), causal variant for text."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpatialGate(nn.Module):
    """Splits the channels in two and gates one half by a learned mixing over time of the other.
    The mixing matrix is lower triangular: step t takes from steps <= t."""

    def __init__(self, half, max_len):
        super().__init__()
        self.norm = nn.LayerNorm(half)
        self.weight = nn.Parameter(torch.randn(max_len, max_len) * 0.05)
        self.bias = nn.Parameter(torch.ones(max_len, 1))

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        L = x.shape[1]
        w = self.weight[:L, :L].tril()
        v = torch.einsum("ij,bjc->bic", w, self.norm(v)) + self.bias[:L]
        return u * v


class GMLPBlock(nn.Module):
    """(B, L, dim) -> (B, L, dim), L <= max_len."""

    def __init__(self, dim=16, ff=32, max_len=32):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.proj_in = nn.Linear(dim, ff)
        self.gate = SpatialGate(ff // 2, max_len)
        self.proj_out = nn.Linear(ff // 2, dim)

    def forward(self, x):
        return x + self.proj_out(self.gate(F.gelu(self.proj_in(self.norm(x)))))
