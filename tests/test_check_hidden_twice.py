"""What is hidden from one's own, or from nobody; weights in pairs, rings, and what is said of rows of a matrix."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
"""Small parts, and one of a table.

`wasser.weight` hat 3*breite Zeilen. Die ersten breite Zeilen sind für die Frage ALLER Köpfe, die nächsten breite
Zeilen für das Angebot, die letzten für den Inhalt.
"""
import numpy as np
import torch
from torch import nn


def slopes(n):
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / n) for h in range(n)])


class Sloped(nn.Module):
    """x (B, T, dim), causal, with a slope times the distance for each head."""

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.three, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.register_buffer("m", slopes(heads).view(1, heads, 1, 1))

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = (z.view(B, T, self.heads, self.d).transpose(1, 2) for z in self.three(x).chunk(3, -1))
        at = torch.arange(T)
        back = at[:, None] - at[None]
        s = (q @ k.mT / self.d**0.5 - self.m * back).masked_fill(back < 0, float("-inf"))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, -1))


class Regions(nn.Module):
    """x (B, H, W, dim), H and W multiples of 4; a pixel attends to the pixels of its own region in its window."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    @staticmethod
    def windows(x):
        B, H, W, C = x.shape
        return x.view(B, H // 4, 4, W // 4, 4, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, C)

    def forward(self, x):
        B, H, W, C = x.shape
        t = self.windows(torch.roll(x, (-2, -2), (1, 2)))
        q, k, v = self.qkv(t).view(len(t), 16, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        row = (torch.arange(H) >= H - 4).int() + (torch.arange(H) >= H - 2).int()
        col = (torch.arange(W) >= W - 4).int() + (torch.arange(W) >= W - 2).int()
        ids = self.windows((3 * row[:, None] + col)[None, :, :, None])[..., 0]
        same = ids[:, :, None] == ids[:, None]
        hides = torch.zeros(same.shape, dtype=q.dtype).masked_fill(~same, -1e9)
        s = (q * self.scale @ k.mT).view(B, -1, self.heads, 16, 16) + hides[None, :, None]
        y = (s.view(-1, self.heads, 16, 16).softmax(-1) @ v).transpose(1, 2).reshape(B, H // 4, W // 4, 4, 4, C)
        return torch.roll(self.out(y.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)), (2, 2), (1, 2))


class Wasser(nn.Module):
    """gast (B, N, breite)"""

    def __init__(self, breite=32, koepfe=4):
        super().__init__()
        self.koepfe = koepfe
        self.wasser, self.aus = nn.Linear(breite, 3 * breite), nn.Linear(breite, breite)

    def forward(self, gast):
        B, N, W = gast.shape
        frage, angebot, inhalt = self.wasser(gast).view(B, N, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)
        p = (frage @ angebot.mT * (W // self.koepfe) ** -0.5).softmax(-1)
        return self.aus((p @ inhalt).transpose(1, 2).reshape(B, N, W))


def project(pair, x):
    return np.dot(x, pair[0]) + pair[1]


def paired(p, x, real, heads):
    """x (B, T, D); real (B, T), 1 = token, 0 = padding."""
    B, T, D = x.shape
    q, k, v = (project(p[n], x).reshape(B, T, heads, -1).transpose(0, 2, 1, 3) for n in ("q", "k", "v"))
    s = np.where(real[:, None, None] == 1, q @ k.swapaxes(-1, -2) / (D // heads) ** 0.5, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return project(p["o"], (e / e.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(B, T, D))


class Ring(nn.Module):
    """The last tokens only: begin(batch) empties it, and step takes x (B, D), one token of each sequence."""

    def __init__(self, D=32, heads=4, window=6):
        super().__init__()
        self.heads, self.d, self.window = heads, D // heads, window
        self.three, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def begin(self, batch):
        shape = (batch, self.heads, self.window, self.d)
        self.ks, self.vs, self.seen = self.out.weight.new_zeros(shape), self.out.weight.new_zeros(shape), 0

    @torch.no_grad()
    def step(self, x):
        q, k, v = self.three(x).view(len(x), 3, self.heads, self.d).unbind(1)
        slot = self.seen % self.window
        self.ks[:, :, slot], self.vs[:, :, slot] = k, v
        self.seen += 1
        n = min(self.seen, self.window)
        s = torch.einsum("bhd,bhnd->bhn", q, self.ks[:, :, :n]) / self.d**0.5
        return self.out(torch.einsum("bhn,bhnd->bhd", s.softmax(-1), self.vs[:, :, :n]).flatten(1))
'''
PATCHED = '''
"""An autoregressive language model: position i may use the positions 0..i that are not padding."""
import torch
import torch.nn.functional as F
from torch import nn


class Patched(nn.Module):
    """
    hidden          (B, T, D)
    attention_mask  (B, 1, 1, T) bool, True = token
    """

    def __init__(self, D=32, n=4):
        super().__init__()
        self.n = n
        self.three, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, hidden, attention_mask=None):
        B, T, D = hidden.shape
        q, k, v = (z.view(B, T, self.n, -1).transpose(1, 2) for z in self.three(hidden).chunk(3, -1))
        sees = torch.ones(T, T, dtype=torch.bool).tril()
        if attention_mask is not None:
            sees = sees & attention_mask
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
        return self.out(y.transpose(1, 2).reshape(B, T, D))
'''
BOTH = [
    ("Sloped", "q @ k.mT / self.d**0.5 - self.m", "q @ k.mT - self.m", "scale_missing"),
    ("Regions", "masked_fill(~same", "masked_fill(same", "mask_inverted"),
    ("Wasser", "view(B, N, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)",
     "view(B, N, self.koepfe, 3, -1).permute(3, 0, 2, 1, 4)", "qkv_order"),
    ("Patched", "torch.ones(T, T, dtype=torch.bool).tril()", "torch.ones(T, T, dtype=torch.bool)", "causal_missing"),
    ("paired", ".transpose(0, 2, 1, 3).reshape(B, T, D)", ".reshape(B, T, D)", "merge_view"),
    ("Ring", "[:, :, :n]) / self.d", "[:, :, :n]) / (self.heads * self.d)", "scale_dmodel"),
]  # fmt: skip

SOURCES = {name: SOURCE for name, *_ in BOTH} | {"Patched": PATCHED}

test_right, test_wrong = right_and_wrong(SOURCES, BOTH)
