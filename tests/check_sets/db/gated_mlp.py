import torch
from torch import nn


class SpatialGate(nn.Module):
    """gMLP block: tokens are mixed by a learned matrix over positions.

    x: (B, T, dim) with T == tokens
    """

    def __init__(self, dim=16, hidden=32, tokens=10):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inp = nn.Linear(dim, 2 * hidden)
        self.gate_norm = nn.LayerNorm(hidden)
        self.mix = nn.Conv1d(tokens, tokens, 1)
        nn.init.ones_(self.mix.bias)
        self.out = nn.Linear(hidden, dim)

    def forward(self, x):
        u, g = torch.nn.functional.gelu(self.inp(self.norm(x))).chunk(2, -1)
        return x + self.out(u * self.mix(self.gate_norm(g)))
