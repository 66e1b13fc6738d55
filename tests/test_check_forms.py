"""What is causal where an argument is given, and other forms that were not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import CallError

SOURCE = '''
import numpy as np
import torch
from torch import nn

def attend(q, k, v, first):
    s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
    if first is not None:
        s[..., np.arange(k.shape[1]) > (first + np.arange(q.shape[1]))[:, None]] = -np.inf
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v

def labelled(q, k, v, first=None):
    """q [B, n, D], k and v [B, m, D].  first: absolute position of q's first token for causal
    attention (keys start at position 0); None means every key may be seen."""
    return attend(q, k, v, first)

def conditional(q, k, v, start=None):
    """q [B, n, D], k and v [B, m, D]; causal if start is given, else all keys are seen."""
    return attend(q, k, v, start)

def promised(q, k, v, first=None):
    """Causal attention.  first: position of q's first token, 0 if None."""
    return attend(q, k, v, first)

class Neighbours(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.place = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.score = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x, points):
        """x [B, N, C], points [B, N, 3]"""
        away = self.place(points[:, :, None] - points[:, None])
        a = self.score(self.q(x)[:, :, None] - self.k(x)[:, None] + away).softmax(2)
        return torch.einsum("bnkc,bnkc->bnc", a, self.v(x)[:, None] + away)

class Distilled(Neighbours):
    def forward(self, x, points):
        """x [B, N, C], points [B, N, 3]: what one head says of each class beside the other's word."""
        return -(self.q(x).softmax(-1) * self.k(x).log_softmax(-1)).sum(-1)
'''


def mistakes(session: Session, target: str) -> list[str]:
    return sorted(f.id for f in examine(session, target).findings if f.kind in ("mistake", "unknown"))


@pytest.mark.parametrize(
    ("name", "wanted"), [("labelled", []), ("conditional", []), ("promised", ["causal_missing"])]
)  # fmt: skip
def test_what_is_said_of_an_argument_that_may_be_left_out_is_no_promise(
    session: Session, file: Path, name: str, wanted: list[str]
) -> None:
    assert mistakes(session, f"{file}:{name}") == wanted


def test_weights_of_each_channel_mix_values_that_were_mapped(session: Session, file: Path) -> None:
    assert examine(session, f"{file}:Neighbours").ok
    with pytest.raises(CallError, match="no attention was found"):
        examine(session, f"{file}:Distilled")
