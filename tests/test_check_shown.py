"""What shows nothing is not called right; what shows in further calls alone; lines that are far from what shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import CallError
from swapped import right_and_wrong

SOURCE = '''
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class Leaven:
    """step takes one row (H, D), run all rows (T, H, D); a row sees itself and all before it.  Linear attention."""

    def __init__(self, heads, d_k, d_v):
        self.s, self.z = np.zeros((heads, d_k, d_v)), np.zeros((heads, d_k))

    def step(self, q, k, v):
        fq, fk = phi(q), phi(k)
        self.s = self.s + fk[:, :, None] * v[:, None, :]
        self.z = self.z + fk
        return np.einsum("hk,hkv->hv", fq, self.s) / np.einsum("hk,hk->h", fq, self.z)[:, None]

    def run(self, q, k, v):
        return np.stack([self.step(a, b, c) for a, b, c in zip(q, k, v)])


class Bag(nn.Module):
    """Learned queries.  x [bags, items, dim]"""

    def __init__(self, dim=32, heads=4, seeds=2):
        super().__init__()
        self.heads, self.seeds = heads, nn.Parameter(torch.randn(seeds, dim))
        self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(3))

    def split(self, t):
        return t.unflatten(-1, (self.heads, -1)).movedim(-2, -3)

    def forward(self, x):
        q, k, v = self.split(self.seeds)[None], self.split(self.k(x)), self.split(self.v(x))
        w = torch.einsum("xgqd,bgkd->bgqk", q, k).div(q.shape[-1] ** 0.5)
        return self.o((w.softmax(-1) @ v).movedim(-3, -2).flatten(-2))


class Masked(nn.Module):
    """x [B, T, D] of any sort, masker [B, T] additief (0 / -inf) of None."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.qkv, self.o = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, masker=None):
        B, T, D = x.shape
        q, k, v = (t.reshape(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if masker is not None:
            masker = masker[:, None, None, :].to(q.dtype)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=masker)
        return self.o(y.transpose(1, 2).reshape(B, T, D))


class Flagged(nn.Module):
    """x (B, T, D); with weights, also the weights, whose rows sum to 1."""

    def __init__(self, dim=32, heads=4, dropout=0.2):
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(dropout)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, weights=False):
        B, T, D = x.shape
        q, k, v = (t.reshape(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        p = F.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        a = self.drop(p)
        y = self.o((a @ v).transpose(1, 2).reshape(B, T, D))
        return y, (p if weights else None)


def feature(x, omega):
    return np.exp(x @ omega - 0.5 * (x * x).sum(-1, keepdims=True)) + 1e-6


def causal_kernel(q, k, v, omega, chunk=8):
    """Causal.  q, k [T, d], v [T, e], omega [d, m] -> [T, e]"""
    fq, fk = feature(q, omega), feature(k, omega)
    s, z = np.zeros((fk.shape[1], v.shape[1])), np.zeros(fk.shape[1])
    out = np.empty((len(q), v.shape[1]))
    for a in range(0, len(q), chunk):
        b = min(a + chunk, len(q))
        within = np.tril(fq[a:b] @ fk[a:b].T)
        out[a:b] = (fq[a:b] @ s + within @ v[a:b]) / (fq[a:b] @ z + within.sum(1))[:, None]
        s, z = s + fk[a:b].T @ v[a:b], z + fk[a:b].sum(0)
    return out


def plain(scores):
    top = scores.max(-1, keepdims=True)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    return powers / total


def nearby(q, k, v, window):
    """Causal.  q, k, v (B, H, T, D); window: how many keys a query sees, its own among them."""
    age = np.arange(q.shape[-2])[:, None] - np.arange(k.shape[-2])
    allowed = (age >= 0) & (age < window)
    allowed = np.broadcast_to(allowed, (*q.shape[:-1], k.shape[-2]))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    s = np.where(allowed, s, -np.inf)
    return plain(s) @ v


class Recent(dict):
    def ask(self, key, make):
        if key not in self:
            self[key] = make()
        return self[key]


class Guide:
    """q (T, D), k and v (S, D); remembers weights."""

    def __init__(self):
        self.recent = Recent()

    def __call__(self, q, k, v):
        key = q.tobytes(), k.tobytes()
        return self.recent.ask(key, lambda: plain(q @ k.T / np.sqrt(q.shape[-1]))) @ v


def slopes(heads):
    return np.array([2.0 ** (-8.0 * (h + 1) / heads) for h in range(heads)])


def distances(heads, length):
    away = np.arange(length)[:, None] - np.arange(length)
    bias = -slopes(heads)[:, None, None] * away
    bias[:, away < 0] = -np.inf
    return torch.from_numpy(bias)


def capped(scores, cap):
    return cap * torch.tanh(scores / cap)


class Sloped(nn.Module):
    """Causal, with the linear biases of Press et al. (ALiBi).  x (B, T, D); 2, 4, 8 … heads.  Scores are capped."""

    def __init__(self, dim=32, heads=8, longest=64, cap=5.0):
        super().__init__()
        self.heads, self.cap, self.qkv = heads, cap, nn.Linear(dim, 3 * dim)
        self.register_buffer("bias", distances(heads, longest))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (t.reshape(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        s = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        s = capped(s, self.cap)
        s = s + self.bias[:, :T, :T].to(s.dtype)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)


class Head(nn.Module):
    def __init__(self, dim, words):
        super().__init__()
        self.out = nn.Linear(dim, words)

    def forward(self, x):
        return capped(self.out(x), 30.0)
'''
# What is changed in a candidate, and the mistake that it is then.
WRONG = [
    ("Masked", "[:, None, None, :].to(q.dtype)", "[:, None, None, :].bool()  # here", "mask_float_as_bool"),
    ("causal_kernel", "np.zeros(fk.shape[1])", "fk.sum(0)", "unknown"),
    ("nearby", "(age < window)", "(age <= window)  # here", "window_off_by_one"),
    ("nearby", "total = powers.sum", "total = np.exp(scores).sum(-1, keepdims=True)  # here\n    _ = powers.sum",
     "softmax_partial_max"),
    ("Guide", "key = q.tobytes(), k.tobytes()", "key = len(q), k.tobytes()  # here", "cache_key"),
    ("Sloped", "(h + 1) / heads) for h in range", "h / heads)  # here\n        for h in range", "alibi_slopes"),
    (
        "Sloped",
        """        s = capped(s, self.cap)
        s = s + self.bias[:, :T, :T].to(s.dtype)
""",
        """        s = s + self.bias[:, :T, :T].to(s.dtype)
        s = capped(s, self.cap)  # here
""",
        "softcap_after_mask",
    ),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(
    SOURCE, WRONG, right=["Leaven", "Bag", "Flagged", "Masked", "nearby", "Guide", "Sloped", "causal_kernel"]
)


def test_weights_that_a_flag_asks_for_are_looked_at(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "shown_flagged_wrong.py"
    file.write_text(SOURCE.replace("(p if weights", "(a if weights"))
    assert "weights_after_dropout" in [finding.id for finding in examine(session, f"{file}:Flagged").findings]


def test_what_shows_nothing_is_not_called_right(session: Session, tmp_path: Path) -> None:
    # Of one step that begins with nothing kept there is one key.
    file = tmp_path / "shown_once.py"
    file.write_text(SOURCE.replace("    def run(", "    def _run("))
    with pytest.raises(CallError, match="no step of it could be judged: scores"):
        examine(session, f"{file}:Leaven")
