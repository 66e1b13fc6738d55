"""What no name tells: documentation and use say it, or the report asks for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import Report
from overt.check.text.meaning import meaning
from swapped import right_and_wrong

SOURCE = '''
"""Attention whose arguments are called anything."""
import numpy as np
import torch
from torch import nn


def soft(a, axis=-1):
    e = np.exp(a - a.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def columns(rulu, ditu, one, two, tri):
    """Formal algorithms: rulu (d, n) primary tokens as columns, ditu (d, m) context; one, two, tri (p, d)."""
    Q, K, V = one @ rulu, two @ ditu, tri @ ditu
    return V @ soft(K.T @ Q / np.sqrt(Q.shape[0]), axis=0)


def signal(rulu, one, two, tri):
    """rulu: (d, N), one token a column.  Returns (d, N)."""
    Q, K, V = one @ rulu, two @ rulu, tri @ rulu
    return V @ soft(K.T @ Q / np.sqrt(len(Q)), 0)


def described(rulu, ditu, sona, pelo=None):
    """Dot-product attention.

    Parameters
    ----------
    rulu, ditu, sona : ndarray (B, L, d)
    pelo : bool ndarray (B, Lq, Lk), optional
        True at the positions which take part,
        False at the positions to be ignored.
    """
    s = rulu @ ditu.swapaxes(1, 2) / rulu.shape[-1] ** 0.5
    if pelo is not None:
        s = np.where(pelo, s, -np.inf)
    return soft(s) @ sona


def listed(rulu, pelo, one, two, tri):
    """rulu (B, L, D), pelo (B, L) True for padded tokens"""
    q, k, v = rulu @ one, rulu @ two, rulu @ tri
    s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
    return soft(np.where(pelo[:, None], -np.inf, s)) @ v


def recent(rulu, ditu, sona, pelo):
    """Causal, (H, T, d): a token attends to the last `pelo` tokens, the token itself being one of them."""
    i, j = np.arange(rulu.shape[-2])[:, None], np.arange(ditu.shape[-2])
    s = rulu @ ditu.swapaxes(-2, -1) / rulu.shape[-1] ** 0.5
    return soft(np.where((j <= i) & (i - j < pelo), s, -np.inf)) @ sona


def zeros(rulu, ditu, sona, pelo):
    s = rulu @ ditu.mT / rulu.shape[-1] ** 0.5
    return s.masked_fill(pelo == 0, -torch.inf).softmax(-1) @ sona


class Asked(nn.Module):
    """Attention, causal if asked."""

    def __init__(self, width, many, tela=False):
        super().__init__()
        self.many, self.tela = many, tela
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, rulu):
        q, k, v = (y.unflatten(-1, (self.many, -1)).transpose(1, 2) for y in self.qkv(rulu).chunk(3, -1))
        s = q @ k.mT / q.shape[-1] ** 0.5
        if self.tela:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Over(nn.Module):
    """Self-attention over x of shape (batch, seq_len, d_model)."""

    def __init__(self, width, many):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, many, batch_first=True)

    def forward(self, rulu):
        return self.inner(rulu, rulu, rulu, need_weights=False)[0]


def multiplied(rulu, ditu, sona, pelo=None):
    w = (rulu @ ditu.mT / rulu.shape[-1] ** 0.5).softmax(-1)
    return (w if pelo is None else w * pelo) @ sona


def unread(rulu, ditu, sona, pelo=None, tela=False):
    return (rulu @ ditu.mT / rulu.shape[-1] ** 0.5).softmax(-1) @ sona
'''
BOTH = [
    ("columns", "Q.shape[0]), axis=0)", "Q.shape[0]), axis=1)", "softmax_axis_q"),
    ("signal", "np.sqrt(len(Q))", "np.sqrt(Q.shape[1])", "scale_seqlen"),
    ("described", "np.where(pelo, s, -np.inf)", "np.where(pelo, -np.inf, s)", "mask_inverted"),
    ("listed", "pelo[:, None]", "pelo[:, :, None]", "pad_on_query"),
    ("recent", "i - j < pelo", "i - j <= pelo", "window_off_by_one"),
    ("zeros", "pelo == 0, -torch.inf", "pelo == 0, 1e-9", "mask_times_scores"),
    ("Asked", ".triu(1)", ".triu()", "causal_off_by_one"),
    ("Over", ", batch_first=True", "", "batch_first"),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


@pytest.mark.parametrize(
    ("name", "argument", "role", "found"),
    [
        ("multiplied", "pelo", "mask", "mask_after_softmax"),
        ("unread", "pelo", "mask", "not_inplace"),
        ("unread", "tela", "causal", "causal_missing"),
    ],
)
def test_what_only_a_name_would_tell_is_asked_for(
    check: Callable[..., Report], name: str, argument: str, role: str, found: str
) -> None:
    report = check(name, SOURCE)
    assert report.ok, str(report)
    asked = {entry.step: entry.why for entry in report.ledger if entry.outcome == "not tried"}
    assert f"--argument {argument}=ROLE" in asked[f"argument {argument}"]
    assert found in {f.id for f in check(name, SOURCE, **{argument: role}).findings}


@pytest.mark.parametrize(
    ("line", "means"),
    [
        ("(B, S) bool, true sur les jetons <pad>, qui doivent etre ignores", "drop"),
        ("true para los tokens de relleno", "drop"),
        ("true bei auffülltokens", "drop"),
        ("true pour les vrais tokens", "keep"),
        ("1 für echte tokens", "keep"),
        # A number of things is no value.
        ("one token a column", None),
        ("one row for each token", None),
    ],
)
def test_what_a_line_says_of_a_mask(line: str, means: str | None) -> None:
    assert meaning(line, "bool" in line) == means
