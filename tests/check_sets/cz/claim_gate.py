import torch
from torch import nn


class PlaceGate(nn.Module):
    def __init__(self, hidden, seq):
        super().__init__()
        self.norm = nn.LayerNorm(hidden // 2)
        self.across = nn.Conv1d(seq, seq, 1)
        nn.init.normal_(self.across.weight, std=1e-2)
        nn.init.ones_(self.across.bias)

    def forward(self, x):
        u, v = x.chunk(2, -1)
        return u * self.across(self.norm(v))


class ClaimMixer(nn.Module):
    """Scores the lines of an insurance claim. x (B, seq, D) -> (B, seq, D)"""

    def __init__(self, D=12, hidden=24, seq=7):
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up = nn.Linear(D, hidden)
        self.gate = PlaceGate(hidden, seq)
        self.down = nn.Linear(hidden // 2, D)

    def forward(self, x):
        y = nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(self.gate(y))
