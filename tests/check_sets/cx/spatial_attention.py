"""Block of our fluid surrogate. Points of the mesh are mixed by a gated linear map over positions."""
import torch
from torch import nn


class SpatialAttention(nn.Module):
    """x [B, n_points, width] -> same shape. Works only with the n_points it was built for."""

    def __init__(self, n_points, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * hidden)
        self.gate_norm = nn.LayerNorm(hidden)
        self.over_points = nn.Linear(n_points, n_points)
        nn.init.normal_(self.over_points.weight, std=1e-2)
        nn.init.ones_(self.over_points.bias)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        query, key = self.up(self.norm(x)).chunk(2, dim=-1)
        query = torch.nn.functional.gelu(query)
        key = self.gate_norm(key).transpose(1, 2)
        score = self.over_points(key).transpose(1, 2)
        value = query * score
        return x + self.down(value)


def count_weights(block):
    return sum(p.numel() for p in block.parameters())
