import torch
from torch import nn


class VitalsEncoder(nn.Module):
    """Hourly vital signs of a ward, (patients, hours, signs) -> (patients, hours, dim)."""

    def __init__(self, signs=7, dim=16, heads=4):
        super().__init__()
        self.inp = nn.Linear(signs, dim)
        self.attn = nn.MultiheadAttention(dim, heads)
        self.norm = nn.LayerNorm(dim)

    def forward(self, vitals):
        x = self.inp(vitals)
        y, _ = self.attn(x, x, x, need_weights=False)
        return self.norm(x + y)
