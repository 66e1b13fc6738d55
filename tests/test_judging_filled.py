"""Keys that fill up a block, weights that are not done, keys repeated along positions, vectors that nothing bends."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

CODE = '''
import numpy as np
import torch
from torch import nn


def in_blocks(q, k, v, late=0, size=4):
    """q (Tq, H, D), k and v (Tk, H, D); causal, the last query sees every key."""
    Tq, _, D = q.shape
    Tk = k.shape[0]
    n = -(-Tk // size)
    fill = ((0, n * size - Tk), (0, 0), (0, 0))
    k, v = np.pad(k, fill), np.pad(v, fill)
    row = np.arange(Tq)[:, None] + Tk - Tq - late
    top, sums, y = -np.inf, 0, 0
    for i in range(0, n * size, size):
        column = np.arange(i, i + size)
        s = np.einsum("qhd,khd->hqk", q, k[i : i + size]) * D**-0.5
        s = np.where((column < Tk) & (column <= row), s, -1e30)
        new = np.maximum(top, s.max(-1, keepdims=True))
        shrink, e = np.exp(top - new), np.exp(s - new)
        sums, y, top = sums * shrink + e.sum(-1, keepdims=True), y * shrink + e @ v[i : i + size].swapaxes(0, 1), new
    return (y / sums).swapaxes(0, 1)


def in_blocks_late(q, k, v):
    """q (Tq, H, D), k and v (Tk, H, D); causal, the last query sees every key."""
    return in_blocks(q, k, v, 1)


def competing(slots, x, w_k, w_v):
    """slots (B, K, D), x (B, N, C), w_k and w_v (C, D) -> slots (B, K, D), masks (B, K, N)"""
    k, v = x @ w_k, x @ w_v
    masks = torch.softmax(slots @ k.transpose(1, 2) * k.shape[-1] ** -0.5, 1)
    w = masks + 1e-8
    return w / w.sum(-1, keepdim=True) @ v, masks


def scores_for_weights(q, k, v):
    """q (B, T, D), k and v (B, S, D) -> output (B, T, D), weights (B, T, S)"""
    s = q @ k.transpose(1, 2) * q.shape[-1] ** -0.5
    return torch.softmax(s, -1) @ v, s


class Grouped(nn.Module):
    """x (B, L, 24), 4 heads of which two share keys."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = nn.Linear(24, 24), nn.Linear(24, 12), nn.Linear(24, 12), nn.Linear(24, 24)

    def repeated(self, x):
        return x.repeat_interleave(2, 2)

    def forward(self, x):
        B, L, _ = x.shape
        q, k, v = (f(x).view(B, L, -1, 6) for f in (self.q, self.k, self.v))
        k, v = self.repeated(k), self.repeated(v)
        w = torch.softmax(torch.einsum("bqhd,bkhd->bhqk", q, k) * 6**-0.5, -1)
        return self.o(torch.einsum("bhqk,bkhd->bqhd", w, v).reshape(B, L, -1))


class GroupedAlongPositions(Grouped):
    """x (B, L, 24), 4 heads of which two share keys."""

    def repeated(self, x):
        B, L, G, D = x.shape
        return x.repeat(1, 2, 1, 1).reshape(B, L, 2 * G, D)


class Decoder(nn.Module):
    """Luong et al.: words from tanh(W [context; state])."""

    def __init__(self, dim=12, words=20):
        super().__init__()
        self.match, self.join = nn.Linear(dim, dim, bias=False), nn.Linear(2 * dim, dim, bias=False)
        self.words = nn.Linear(dim, words)

    def bend(self, x):
        return torch.tanh(x)

    def forward(self, state, memory):
        """state (B, D), memory (B, S, D)"""
        w = torch.softmax(torch.einsum("bsd,bd->bs", memory, self.match(state)), -1)
        context = torch.einsum("bs,bsd->bd", w, memory)
        return self.words(self.bend(self.join(torch.cat([context, state], -1))))


class DecoderOfSums(Decoder):
    """Luong et al.: words from tanh(W [context; state])."""

    def bend(self, x):
        return x
'''

EXPECTED = {
    "in_blocks": [],
    "in_blocks_late": ["causal_off_by_one"],
    "competing": [],
    "scores_for_weights": ["returns_scores"],
    "Grouped": [],
    "GroupedAlongPositions": ["gqa_repeat_wrong_axis"],
    "Decoder": [],
    "DecoderOfSums": ["luong_no_tanh_out"],
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "filled.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("name", EXPECTED)
def test_what_fills_up_and_what_is_not_done_is_told_from_mistakes(session: Session, module: Path, name: str) -> None:
    report = examine(session, f"{module}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == EXPECTED[name]
