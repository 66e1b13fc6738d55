"""Lines that decide what another line does: where a factor, an axis or a mask was made."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

CODE = '''
import math
import numpy as np
import torch
from torch import nn

class Base(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.root = width ** -0.5  # Base
        self.norm = nn.Softmax(dim=2)  # Queries
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def split(self, x):
        return (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))

    def forward(self, x):
        q, k, v = self.split(x)
        s = q @ k.mT * self.root
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

class Queries(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        p = self.norm(q @ k.mT / math.sqrt(q.shape[-1]))
        return (p @ v).transpose(1, 2).flatten(2)

class Core(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, q, k, v):
        return (q @ k.mT * self.factor).softmax(-1) @ v

class Holds(Base):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.core = Core(width ** -0.5)  # Holds

    def forward(self, x):
        return self.core(*self.split(x)).transpose(1, 2).flatten(2)

class Local(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        root = math.sqrt(x.shape[-1])  # Local
        return ((q @ k.mT / root).softmax(-1) @ v).transpose(1, 2).flatten(2)

class Here(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        s = q @ k.mT / math.sqrt(x.shape[-1])  # Here
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

def inner(q, k, v, c):
    return ((q @ k.mT) / c).softmax(-1) @ v

def handed(q, k, v):
    return inner(q, k, v, q.shape[-1])  # handed

def causal(q, k, v):
    """Causal attention."""
    seen = np.tri(q.shape[-2], k.shape[-2], 1, dtype=bool)  # causal
    s = np.where(seen, q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v

class Padded(Base):
    def hidden(self, tokens):
        there = (tokens != 0).long()
        return there.unsqueeze(1).unsqueeze(3)  # Padded

    def forward(self, x, tokens):
        """x (B, T, W), tokens (B, T), 0 is padding"""
        q, k, v = self.split(x)
        s = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(self.hidden(tokens) == 0, -1e9)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)
'''
NAMES = ("Base", "Queries", "Holds", "Local", "Here", "handed", "causal", "Padded")


@pytest.mark.parametrize("name", NAMES)
def test_the_line_is_where_it_was_decided(session: Session, tmp_path: Path, name: str) -> None:
    file = tmp_path / "lines.py"
    file.write_text(CODE)
    found = [f for f in examine(session, f"{file}:{name}").findings if f.kind == "mistake"]
    assert len(found) == 1
    where = found[0].where
    assert where is not None
    assert CODE.splitlines()[where["line"] - 1].endswith(f"# {name}")
