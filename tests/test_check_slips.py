"""One slip of the pen in right attention: an operator, a sign or a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

SOURCE = '''
import math
import numpy as np
import torch
from torch import nn

class Base(nn.Module):
    """x (B, T, D)"""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.head = heads, width // heads
        self.q, self.k, self.v = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)

    def split(self, x):
        return (p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))

    def join(self, s, v):
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

class SignOfScale(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        q = q * (self.head * -0.5)  # SignOfScale
        return self.join(q @ k.mT, v)

class BothSigns(Base):
    def forward(self, x):
        q, k, v = self.split(x)
        return self.join((-q / math.sqrt(self.head)) @ -k.mT, v)

class Raised(Base):
    def forward(self, x, mask=None):
        """mask (B, T), 1 for tokens and 0 for padding"""
        q, k, v = self.split(x)
        s = q @ k.mT / math.sqrt(self.head)
        if mask is not None:
            s = s - 1e9 * (mask[:, None, None] - 1)  # Raised
        return self.join(s, v)

class Lowered(Base):
    def forward(self, x, mask=None):
        """mask (B, T), 1 for tokens and 0 for padding"""
        q, k, v = self.split(x)
        s = q @ k.mT / math.sqrt(self.head)
        if mask is not None:
            s = s - 1e9 * (1 - mask[:, None, None])
        return self.join(s, v)

def uncapped(q, k, v, softcap=None):
    s = q @ k.mT / math.sqrt(q.size(-1))
    if softcap:
        s = torch.tanh(s / softcap) + softcap  # uncapped
    return s.softmax(-1) @ v

def capped(q, k, v, softcap=5.0):
    s = q @ k.mT / math.sqrt(q.size(-1))
    return (torch.tanh(s / softcap) * softcap).softmax(-1) @ v

def pointed(q, k, v):
    "The logits of Bello et al. 2016, clipped to [-10, 10]"
    return (10 * torch.tanh(q @ k.mT / math.sqrt(q.size(-1)))).softmax(-1) @ v

def alibi_slopes(n_heads):
    n = 2 ** math.floor(math.log2(n_heads))
    slopes = 2.0 ** (-8 / n * torch.arange(1, n + 1))
    more = 2.0 ** (-(4 ** -(math.log2(2 * n) - 3)) * torch.arange(1, 2 * n, 2)[: n_heads - n])
    return torch.cat([slopes, more])

def alibi_slopes_of_any(n_heads):
    n = 2 ** math.floor(math.log2(n_heads))
    slopes = 2.0 ** (-8 / n * torch.arange(1, n + 1))
    more = 2.0 ** (-(2 ** -(math.log2(2 * n) - 3)) * torch.arange(1, 2 * n, 2)[: n_heads - n])
    return torch.cat([slopes, more])

def late(q, k, v, chunk=2):
    parts = []
    for at in range(1, q.shape[-2], chunk):
        s = q[..., at : at + chunk, :] @ k.mT * q.shape[-1] ** -0.5
        parts.append(torch.softmax(s, -1) @ v)  # late
    return torch.cat(parts, -2)

def newest(q, k, v):
    s = q[..., -1:, :] @ k.mT * q.shape[-1] ** -0.5
    return torch.softmax(s, -1) @ v

def online(q, k, v):
    "q, k, v: (T, D), one key at a time."
    out = np.zeros((len(q), v.shape[1]))
    for i, query in enumerate(q):
        m, total, acc = -np.inf, 0.0, np.zeros(v.shape[1])
        for key, value in zip(k, v):
            s = query @ key / math.sqrt(q.shape[1])
            new = max(m, s)
            acc = acc * np.exp(m - new) - np.exp(s - new) * value  # online
            total = total * np.exp(m - new) + np.exp(s - new)
            m = new
        out[i] = acc / total
    return out

class TimesHeads(Base):
    def __init__(self, width=24, heads=4):
        super().__init__(width, heads)
        self.width = width

    def forward(self, x):
        q, k, v = self.split(x)
        return self.join(q @ k.mT / math.sqrt(self.width * self.heads), v)  # TimesHeads

def undivided(q, k, v):
    s = q @ k.mT * q.shape[-1] ** -0.5
    return (s + s.logsumexp(-1, keepdim=True)).exp() @ v  # undivided

def of_some_keys(q, k, v):
    s = q @ k.mT * q.shape[-1] ** -0.5
    lse = s.logsumexp(-1)
    return (s - s.amax(-1, keepdim=True)).exp() @ v, lse

def halved(q, k, v):  # halved
    "q, k, v: (T, D)"
    out = np.zeros((len(q), v.shape[1]))
    for i, query in enumerate(q.tolist()):
        s = [sum(a * b for a, b in zip(query, key)) / (q.shape[1] * 0.5) for key in k.tolist()]
        e = [math.exp(x - max(s)) for x in s]
        out[i] = sum(x / sum(e) * value for x, value in zip(e, v))
    return out
'''
WRONG = dict.fromkeys(("SignOfScale", "uncapped", "late", "online", "TimesHeads", "halved", "undivided"), "unknown") | {
    "Raised": "mask_sign_inf"
}
RIGHT = ("BothSigns", "Lowered", "capped", "pointed", "newest", "alibi_slopes_of_any", "of_some_keys")


@pytest.mark.parametrize("name", WRONG)
def test_it_is_found_on_its_line(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    found = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    assert [f.id for f in found] == [WRONG[name]], str(report)
    assert SOURCE.splitlines()[found[0].where["line"] - 1].endswith(f"# {name}")


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_as_right_is_not_accused(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert not [f for f in report.findings if f.kind in ("mistake", "unknown")], str(report)


def test_slopes_of_twelve_heads_are_not_those_of_six(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:alibi_slopes")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")], str(report)
