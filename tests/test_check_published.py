"""What published layers do that small ones do not: caches that comments speak of, keys that are shared among queries."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = """
import math
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def split(self, x):
        return x.view(x.shape[0], -1, self.heads, self.head).transpose(1, 2)

    def forward(self, hidden, hides=None, kept=None):
        q, k, v = self.split(self.query(hidden)), self.split(self.key(hidden)), self.split(self.value(hidden))
        if kept is not None:
            # what was seen before stands first, for fast auto-regressive generation
            k, v = torch.cat([kept[0], k], dim=2), torch.cat([kept[1], v], dim=2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.head)
        if hides is not None:
            s = s + hides
        p = s.softmax(-1)
        return (p @ v).transpose(1, 2).flatten(2)
"""

BOTH = [
    ("Layer", "        s = q @", "        # auto-regressive: what comes later is not seen\n        s = q @", "causal_missing"),
]  # fmt: skip

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
