"""Ranges that are told of numbers, memories beside a cache, and packed projections of any name."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

HEAD = '''
"""Lesekopf.

Speicher: (N, W), N Zeilen zu je W Zahlen.

    schluessel  (W,)       Suchmuster
    schaerfe    > 0        beta
    tor         in [0, 1]  g, 1 = nur Inhalt
    gamma       >= 1       Nachschärfung
"""
import numpy as np


class Head:
    def __init__(self, zeilen):
        self.gewichte = np.eye(zeilen)[0]

    def lies(self, speicher, schluessel, schaerfe, tor, gamma):
        z = schaerfe * (speicher @ schluessel) / np.sqrt(len(schluessel))
        e = np.exp(z - z.max())
        inhalt = e / e.sum()
        w = (tor * inhalt + (1.0 - tor) * self.gewichte) ** gamma
        self.gewichte = w / w.sum()
        return self.gewichte @ speicher
'''
BARE = HEAD.replace(HEAD[: HEAD.index("import")], "")
DECODER = '''
"""Decoder layer.

x      (B, T, D)  new tokens, after those in the cache
audio  (B, S, D)  states of the encoder
cache  dict       empty at first; the block keeps its keys and values there
Causal over the cache and the new tokens.
"""
import torch
from torch import nn


def attend(q, k, v, mask, h):
    q, k, v = (x.view(*x.shape[:2], h, -1).transpose(1, 2) for x in (q, k, v))
    s = q @ k.mT * q.shape[-1] ** -0.5
    return ((s + mask).softmax(-1) @ v).transpose(1, 2).flatten(2)


class Decoder(nn.Module):
    def __init__(self, d=32, h=4, room=40):
        super().__init__()
        self.h = h
        self.q, self.k, self.v, self.cq, self.ck, self.cv = (nn.Linear(d, d) for _ in range(6))
        self.register_buffer("mask", torch.full((room, room), float("-inf")).triu(1))

    def forward(self, x, audio, cache):
        k, v = self.k(x), self.v(x)
        if "k" in cache:
            k, v = torch.cat([cache["k"], k], 1), torch.cat([cache["v"], v], 1)
        cache["k"], cache["v"] = k, v
        T, S = x.shape[1], k.shape[1]
        x = x + attend(self.q(x), k, v, self.mask[S - T:S, :S], self.h)
        if "audio" not in cache:
            cache["audio"] = self.ck(audio), self.cv(audio)
        return x + attend(self.cq(x), *cache["audio"], 0.0, self.h)
'''
PACKED = '''
"""A layer that loads old weights.

`in_proj` is one matrix of 3 D rows, and they are grouped by HEAD: the D/heads query rows of head 0, its key rows, its
value rows, then the same for head 1.
"""
from torch import nn


class Packed(nn.Module):
    def __init__(self, D=32, heads=4):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(D, 3 * D)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.in_proj(x).view(B, N, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        w = (q @ k.mT * (D // self.heads) ** -0.5).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)
'''
SOURCE = {"Head.lies": HEAD, "Decoder": DECODER, "Packed": PACKED}
BOTH = [
    ("Head.lies", "e = np.exp(z - z.max())", "e = np.exp(z)  # here", "no_max"),
    ("Decoder", "self.mask[S - T:S, :S]", "self.mask[:T, :S]", {"causal_top_left": ""}),
    (
        "Packed",
        "view(B, N, self.heads, 3, -1).permute(3, 0, 2, 1, 4)",
        "view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # here",
        "qkv_order",
    ),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


def test_bare(check):
    """Nothing is told of its arguments, and one maximum for all is right where they are added up together."""
    report = check("Head.lies", BARE)
    assert report.ok, str(report)
