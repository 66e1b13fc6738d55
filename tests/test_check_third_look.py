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
REL = '''
import torch
from torch import nn


class Rel(nn.Module):
    """x (B, T, D), lengths (B,): real tokens of each. Causal, with products of queries and vectors of distances."""

    def __init__(self, D=32, heads=4):
        super().__init__()
        self.h, self.d = heads, D // heads
        self.wq, self.wk, self.wv, self.wr = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x, lengths):
        B, T, D = x.shape
        q, k, v = (w(x).view(B, T, self.h, self.d) for w in (self.wq, self.wk, self.wv))
        n = torch.arange(T)
        a = n[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
        r = self.wr(torch.cat([a.sin(), a.cos()], 1)).view(T, self.h, self.d)
        away = (n[:, None] - n).clamp(min=0)
        far = torch.einsum("bihd,nhd->bhin", q, r).gather(3, away.expand(B, self.h, T, T))
        s = (torch.einsum("bihd,bjhd->bhij", q, k) + far) / self.d**0.5
        hides = (n[:, None] < n) | (n >= lengths[:, None])[:, None, None]
        return torch.einsum("bhij,bjhd->bihd", s.masked_fill(hides, -torch.inf).softmax(-1), v).reshape(B, T, D)
'''
SLOPES = '''
"""A decoder's attention with ALiBi.

slopes_in(x, w, b, n)
    x (L, D); w (D, 3 D) and b (3 D,) packed so that the columns of head h are its query, its key, its value
    n heads, a power of two
"""
import numpy as np


def slopes_in(x, w, b, n):
    L, D = x.shape
    q, k, v = np.moveaxis((x @ w + b).reshape(L, n, 3, D // n), 2, 0)
    at, base = np.arange(L), 2.0 ** (-8.0 / n)
    s = np.einsum("ihd,jhd->hij", q, k) / (D // n) ** 0.5
    s += (base ** np.arange(1, n + 1))[:, None, None] * (at - at[:, None])
    s = np.where(at > at[:, None], -np.inf, s)
    s = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", s / s.sum(-1, keepdims=True), v).reshape(L, D)
'''
FOLDED = '''
"""folded(params, x, heads): params  dict with "wq", "bq", "wk", "bk", "wv", "bv"; x (B, T, D)"""
import numpy as np


def folded(params, x, heads):
    p = params
    B, T, D = x.shape

    def fold(x):
        return x.reshape(B, T, heads, -1).transpose(0, 2, 1, 3).reshape(B * heads, T, -1)

    q, k, v = fold(x @ p["wq"] + p["bq"]), fold(x @ p["wk"] + p["bk"]), fold(x @ p["wv"] + p["bv"])
    s = q @ k.swapaxes(1, 2) * (D // heads) ** -0.5
    s = np.exp(s - s.max(-1, keepdims=True))
    y = s / s.sum(-1, keepdims=True) @ v
    return y.reshape(B, heads, T, -1).transpose(0, 2, 1, 3).reshape(B, T, D)
'''
PADDED = '''
import torch
from torch import nn


class Padded(nn.Module):
    """tgt (B, T, D), memory (B, S, D), valid (B, S) bool: True = a real pixel."""

    def __init__(self, D=32, heads=4):
        super().__init__()
        self.mix = nn.MultiheadAttention(D, heads, batch_first=True)

    def forward(self, tgt, memory, valid):
        return self.mix(
            tgt,
            memory,
            memory,
            key_padding_mask=~valid,
            need_weights=False,
        )[0]
'''
SOURCE = {"Head.lies": HEAD, "Decoder": DECODER, "Packed": PACKED, "Rel": REL}
SOURCE |= {"slopes_in": SLOPES, "folded": FOLDED, "Padded": PADDED}
BOTH = [
    ("Head.lies", "e = np.exp(z - z.max())", "e = np.exp(z)  # here", "no_max"),
    ("Decoder", "self.mask[S - T:S, :S]", "self.mask[:T, :S]", {"causal_top_left": ""}),
    (
        "Packed",
        "view(B, N, self.heads, 3, -1).permute(3, 0, 2, 1, 4)",
        "view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # here",
        "qkv_order",
    ),
    ("Rel", "gather(3, away.", "gather(3, (T - 1 - away).", {"unknown": "gather"}),
    ("slopes_in", "np.arange(1, n + 1)", "np.arange(n)", {"alibi_slopes": "np.arange(n)"}),
    (
        "folded",
        "y.reshape(B, heads, T, -1).transpose(0, 2, 1, 3)",
        "y.reshape(heads, B, T, -1).transpose(1, 2, 0, 3)",
        {"fold_batch_head_swap": "heads, B"},
    ),
    ("Padded", "=~valid", "=valid", {"mask_inverted": "key_padding_mask"}),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


def test_bare(check):
    """Nothing is told of its arguments, and one maximum for all is right where they are added up together."""
    report = check("Head.lies", BARE)
    assert report.ok, str(report)
