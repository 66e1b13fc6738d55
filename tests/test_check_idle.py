"""What changes nothing, what is undone once too often, and what may cancel: one right and one wrong of each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import Report

pytest.importorskip("torch")

SOURCE = '''
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def row_by_row(q, k, v):
    """q (T, D); k, v (S, D)"""
    out = np.empty((len(q), v.shape[1]))
    for t, one in enumerate(q):
        s = np.array([sum(x * y for x, y in zip(one, key)) for key in k]) / len(one) ** 0.5
        w = np.exp(s - s.max())
        out[t] = sum(a * b for a, b in zip(w / w.sum(), v))
    return out


def two_terms(q, k, v, places):
    """q, k (B, T, D), v (B, T, E); places (B, T, D), added to the keys"""
    s = (q @ k.mT + q @ places.mT) / math.sqrt(q.shape[-1])
    return s.softmax(-1) @ v


def capped(q, k, v):
    """Attention (B, H, T, D) with scores that stay between -20 and 20."""
    s = q @ k.mT / math.sqrt(q.size(-1))
    return (torch.tanh(s / 20) * 20).softmax(-1) @ v


def rows_of_sequences(m, wq, wk, wv, real):
    """m (B, N, L, d): N sequences of L places each; real (B, N, L), 1 for a place that is there and 0 for a gap.

    wq, wk, wv (d, d).  Nobody reads a gap.
    """
    q, k, v = m @ wq, m @ wk, m @ wv
    s = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1]) + 1e9 * (real - 1.0)[:, :, None, :]
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


class Stream(nn.Module):
    """Causal linear attention over x (B, T, dim)."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1) for f in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        S, z = x.new_zeros(B, self.heads, q.shape[-1], q.shape[-1]), x.new_zeros(B, self.heads, q.shape[-1])
        ys = []
        for t in range(T):
            S = S + k[:, t, :, :, None] * v[:, t, :, None, :]
            z = z + k[:, t]
            ys.append(torch.einsum("bhd,bhde->bhe", q[:, t], S) / (q[:, t] * z).sum(-1, keepdim=True).clamp_min(1e-6))
        return self.o(torch.stack(ys, dim=1).reshape(B, T, C))
'''

WRONG = [
    # What is added for a query is the same for all keys.
    ("row_by_row", "x * y for", "x + y for", "queries change no weight"),
    # The same where it is recorded.
    (
        "two_terms",
        "q @ k.mT + q @ places.mT",
        "k.sum(-1)[:, None] + q.sum(-1)[..., None] + 0 * places.sum()",
        "depends on q",
    ),
    ("capped", "/ 20) * 20", "/ 20) / 20", "divided by 20 is not multiplied"),
    ("capped", "/ 20) * 20", "/ 20)", "divided by 20 is not multiplied"),
    ("Stream", "F.elu(q) + 1, F.elu(k) + 1", "F.elu(q) + 1, F.elu(k)", "Features are negative"),
    ("Stream", "torch.stack(ys, dim=1)", "torch.stack(ys, dim=2)", "promises causal"),
]


@pytest.mark.parametrize("name", ["row_by_row", "two_terms", "capped", "rows_of_sequences", "Stream"])
def test_what_is_right_is_called_right(check: Callable[[str, str], Report], name: str) -> None:
    report = check(name, SOURCE)
    assert report.ok, report.findings


@pytest.mark.parametrize(("name", "right", "wrong", "says"), WRONG)
def test_what_is_wrong_is_told(
    check: Callable[[str, str], Report], name: str, right: str, wrong: str, says: str
) -> None:
    assert SOURCE.count(right) == 1
    report = check(name, SOURCE.replace(right, wrong))
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == ["unknown"], report.findings
    assert says in " ".join(f.message for f in report.findings)


def test_a_mask_on_queries_takes_nothing_from_any_sequence(check: Callable[[str, str], Report]) -> None:
    report = check("rows_of_sequences", SOURCE.replace("[:, :, None, :]", "[:, :, :, None]"))
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["pad_on_query"], report.findings
