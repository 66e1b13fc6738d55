"""Attention of recognisers and decoders: weights that are changed and normalised again, keys that are kept, rows."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import math
import torch
from torch import nn

class Onward(nn.Module):
    """Weights that may only go on from where they were."""
    def __init__(self, width, units, dim):
        super().__init__()
        self.key, self.query, self.energy = nn.Linear(width, dim), nn.Linear(units, dim), nn.Linear(dim, 1)

    def forward(self, memory, lengths, state, before=None):
        """memory (B, T, width), lengths (B,), state (B, units), before (B, T): the weights of the step before."""
        if before is None:
            before = torch.zeros_like(memory[:, :, 0])
            before[:, 0] = 1
        e = self.energy(torch.tanh(self.key(memory) + self.query(state).unsqueeze(1))).squeeze(2)
        e = e.masked_fill(torch.arange(memory.shape[1]) >= lengths[:, None], -math.inf)
        w = e.softmax(1)
        w = (before + nn.functional.pad(before, (1, 0))[:, :-1]) * w
        w = nn.functional.normalize(w.clamp(min=1e-6), p=1, dim=1)
        return torch.bmm(w.unsqueeze(1), memory).squeeze(1), w

class Placed(nn.Module):
    """Each query says around which place it looks."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.q, self.k, self.v = heads, nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.place = nn.Linear(dim, heads)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (f(x).view(b, n, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        w = (q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)).softmax(-1)
        middle = n * torch.sigmoid(self.place(x)).transpose(1, 2).unsqueeze(-1)
        w = w * torch.exp(-(torch.arange(n) - middle) ** 2 / 2)
        w = w / w.sum(-1, keepdim=True)
        return (w @ v).transpose(1, 2).reshape(b, n, d)
'''

BOTH = [
    ("Onward", "torch.tanh(self.key(memory) + self.query(state).unsqueeze(1))",
     "(self.key(memory) + self.query(state).unsqueeze(1))", "additive_no_tanh"),
    ("Placed", "math.sqrt(d // self.heads)", "math.sqrt(d)", "scale_dmodel"),
]  # fmt: skip

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
