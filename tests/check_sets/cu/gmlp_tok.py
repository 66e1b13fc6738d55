"""Token mixing block for the char model (gMLP, Liu et al. 2021), causal variant.

The T x T matrix is a learned parameter, kept lower triangular so that position t only
receives from 0..t. It does not depend on the input.
"""
import torch
import torch.nn as nn


class SpatialGate(nn.Module):
    def __init__(self, width, max_len):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.weight = nn.Parameter(torch.randn(max_len, max_len) * 0.02)
        self.bias = nn.Parameter(torch.ones(max_len))

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        T = x.size(1)
        w = torch.tril(self.weight[:T, :T])
        v = torch.einsum("ts,bsc->btc", w, self.norm(v)) + self.bias[:T, None]
        return u * v


class TokenMixer(nn.Module):
    def __init__(self, dim=32, hidden=64, max_len=32):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, hidden)
        self.gate = SpatialGate(hidden // 2, max_len)
        self.down = nn.Linear(hidden // 2, dim)

    def forward(self, x):
        """x (B, T, dim), T <= max_len"""
        h = nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(self.gate(h))
