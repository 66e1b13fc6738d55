"""Beside what is seen first: keys that no mask is of, biases in loops, blocks that are merged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import Report
from overt.check.text.meaning import meaning
from swapped import right_and_wrong

SOURCE = '''
"""Attention beside other keys, other scores and other blocks."""
import math

import numpy as np
import torch
from torch import nn


class First(nn.Module):
    """particles (B, N, dim), present (B, N) bool, True for a particle, False for an empty slot -> (B, dim).

    A learned token asks; it answers too, beside all particles that are there.
    """

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.q, self.kv, self.out = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, particles, present=None):
        B, N, D = particles.shape
        d = D // self.heads
        u = torch.cat([self.token.expand(B, 1, D), particles], 1)
        q = self.q(u[:, :1]).reshape(B, 1, self.heads, d).transpose(1, 2)
        k, v = self.kv(u).reshape(B, N + 1, 2, self.heads, d).permute(2, 0, 3, 1, 4)
        s = q @ k.mT / d**0.5
        if present is not None:
            absent = torch.cat([torch.zeros(B, 1, dtype=torch.bool), ~present], 1)
            s = s.masked_fill(absent[:, None, None, :], -torch.inf)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, D))


class Time(nn.Module):
    """x (L, B, features), time first; pad (L, B) bool or None, True marks what is to be left out."""

    def __init__(self, features=32):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(features, features) for _ in range(3))

    def forward(self, x, pad=None):
        s = torch.einsum("lbd,mbd->blm", self.q(x), self.k(x)) * x.shape[-1] ** -0.5
        if pad is not None:
            s = s.masked_fill(pad.T[:, None, :], -1e30)
        return torch.einsum("blm,mbd->lbd", s.softmax(-1), self.v(x))


class Levelled(nn.Module):
    """clicks (B, T, 12), items (B, S, 12), mask (B, S) bool, True = the item is there -> (B, T, 12).

    The weights are drawn towards the mean over all items that are there.
    """

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(12, 12) for _ in range(3))

    def forward(self, clicks, items, mask=None):
        s = self.q(clicks) @ self.k(items).mT / 12**0.5
        there = torch.ones_like(s) if mask is None else mask[:, None, :].to(s.dtype).expand(s.shape)
        w = (s - 1e9 * (1 - there)).softmax(-1)
        return (0.9 * w + 0.1 * there / there.sum(-1, keepdim=True)) @ self.v(items)


def part(q, k, v, start, late):
    s = q @ k.mT * (math.log2(math.e) / q.shape[-1] ** 0.5)
    here = torch.arange(q.shape[-2])[:, None] + late
    s = s.masked_fill(start + torch.arange(k.shape[-2]) > here, -math.inf)
    m = s.amax(-1, keepdim=True)
    m = m.masked_fill(m == -math.inf, 0)
    p = torch.exp2(s - m)
    l = p.sum(-1, keepdim=True)
    return p @ v / l.clamp_min(1e-30), torch.where(l > 0, m + torch.log2(l.clamp_min(1e-30)), -math.inf)


def split(q, k, v, block=4):
    """q (B, H, T, d), k, v (B, H, S, d) -> (B, H, T, d), the keys in blocks.  Query i sits at position S - T + i."""
    late = k.shape[-2] - q.shape[-2]
    outs, logs = zip(*[part(q, k[..., a : a + block, :], v[..., a : a + block, :], a, late)
                       for a in range(0, k.shape[-2], block)])
    logs = torch.stack(logs)
    w = torch.exp2(logs - logs.amax(0))
    return (torch.stack(outs) * w).sum(0) / w.sum(0)


def slopes(n):
    """Press et al. 2022: of the nearest power of two below, and every second of twice as many."""
    p = 2 ** int(math.log2(n))
    return [2.0 ** (-8.0 * h / p) for h in range(1, p + 1)] + [2.0 ** (-4.0 * h / p) for h in range(1, 2 * (n - p), 2)]


def loops(q, k, v):
    """q, k, v (H, T, d), causal, with the linear biases of ALiBi -> (H, T, d)."""
    H, T, d = q.shape
    m, y = slopes(H), np.zeros(v.shape)
    for h in range(H):
        for i in range(T):
            row = np.empty(i + 1)
            for j in range(i + 1):
                row[j] = sum(q[h, i, n] * k[h, j, n] for n in range(d)) / d**0.5 + m[h] * j
            w = np.exp(row - row.max())
            for j in range(i + 1):
                y[h, i] += w[j] / w.sum() * v[h, j]
    return y


def penalty(H, T):
    steps = torch.arange(T)[:, None] - torch.arange(T)
    return torch.tensor(slopes(H))[:, None, None] * -steps


def biased(q, k, v):
    """q, k, v (H, T, d), causal, with the linear biases of ALiBi -> (H, T, d)."""
    s = q @ k.mT / q.shape[2] ** 0.5
    s = s + penalty(*s.shape[:2])
    return s.masked_fill(torch.ones(s.shape[1:]).triu(1) > 0, -torch.inf).softmax(-1) @ v
'''
# A candidate, what is changed in it, and mistakes with what stands in their lines.
BOTH = [
    ("First", "~present]", "present]", {"mask_inverted": "absent[:, None, None, :]"}),
    ("Time", "(pad.T[:, None, :]", "(~pad.T[:, None, :]", {"mask_inverted": "pad.T"}),
    ("Levelled", "there.sum(-1, keepdim=True)", "there.sum(-2, keepdim=True)", {"unknown": "there.sum"}),
    ("split", "w = torch.exp2(logs", "w = torch.exp(logs", {"lse_base2": "torch.exp(logs"}),
    ("split", " + late", "", {"causal_top_left": "start + torch.arange"}),
    ("loops", "+ m[h] * j", "- m[h] * j", {"alibi_sign": "def loops"}),
    ("biased", "* -steps", "* steps", {"alibi_sign": "[:, None, None] * steps"}),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


def test_where_the_queries_stand_is_told_beside_what_merges_blocks_wrongly(
    check: Callable[[str, str], Report],
) -> None:
    report = check("split", SOURCE.replace(" + late", "").replace("w = torch.exp2(logs", "w = torch.exp(logs"))
    assert {f.id for f in report.findings if f.kind == "mistake"} == {"lse_base2", "causal_top_left"}, str(report)


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("true for a particle, false for an empty slot", "keep"),
        ("false for frames that were only there to fill the clip", "keep"),
        ("false where the detector lost the person", "keep"),
        ("false for tokens that may be seen", "drop"),
        ("true = leave out", "drop"),
        ("true for cells outside of the picture", "drop"),
        ("true = a click; padding is never attended to", None),
        # Of numbers much is said that is no mask.
        ("0 = empty slot", None),
        ("0 for visible keys, a large negative number elsewhere", "additive"),
    ],
)
def test_what_a_line_says_of_a_mask(line: str, means: str | None) -> None:
    assert meaning(line, booleans=False) == means
