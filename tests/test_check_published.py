"""What published layers do: comments that speak of caches, keys that are shared among queries."""

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


class Groups(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.scale = width**-0.5
        self.ask, self.own, self.give, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, groups, pixels):
        soft = (self.ask(groups) @ self.own(pixels).transpose(-2, -1) * self.scale).softmax(-2)
        hard = torch.zeros_like(soft).scatter_(-2, soft.argmax(-2, keepdim=True), 1.0)
        shared = hard - soft.detach() + soft
        shared = shared / (shared.sum(-1, keepdim=True) + 1.0)
        return self.out(shared @ self.give(pixels)), soft
"""

LATER = "        # auto-regressive: what comes later is not seen\n        s = q @"
BOTH = [
    ("Layer", "        s = q @", LATER, "causal_missing"),
    ("Groups", "        shared = shared / (shared.sum(-1, keepdim=True) + 1.0)\n", "", "softmax_axis_q"),
]  # fmt: skip

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
