import torch
from torch import nn


class TemporalEncoder(nn.Module):
    """x (batch, time, features); frames of a video attend to each other."""

    def __init__(self, features=32, heads=4):
        super().__init__()
        self.attention = nn.MultiheadAttention(features, heads)
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        y, _ = self.attention(x, x, x)
        return self.norm(x + y)
