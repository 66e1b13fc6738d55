"""Columns and blocks that are folded back, lists that a column of names tells of, and numbers that shift."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = {
    "listen": '''"""Guests and hosts.

listen(guests, hosts, gifts, gone)

    guests   one list of floats per guest
    hosts    list of lists of floats, one per host
    gifts    list of vectors (any length), one per host
    gone     list of bools, one per host: True = not at home, gives nothing
"""
from math import exp, sqrt


def listen(guests, hosts, gifts, gone):
    out = []
    for guest in guests:
        s = [sum(a * b for a, b in zip(guest, host)) / sqrt(len(guest)) for host in hosts]
        home = [x for x, g in zip(s, gone) if not g]
        if not home:
            out.append([0.0] * len(gifts[0]))
            continue
        top = max(home)
        e = [0.0 if g else exp(x - top) for x, g in zip(s, gone)]
        out.append([sum(w * gift[j] for w, gift in zip(e, gifts)) / sum(e) for j in range(len(gifts[0]))])
    return out
''',
    "Shifted": '''import torch
from torch import nn


class Shifted(nn.Module):
    """Attention within windows of a row x (B, N, dim), which is rolled by shift first; N is a multiple of win."""

    def __init__(self, dim, heads, win, shift):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        B, N, C = x.shape
        x = x.roll(-self.shift, 1).view(B, N // self.win, self.win, C)
        q, k, v = self.qkv(x).view(B, -1, self.win, 3, self.heads, C // self.heads).permute(3, 0, 1, 4, 2, 5)
        place = torch.arange(N).roll(-self.shift).view(-1, self.win)
        far = (place[:, :, None] - place[:, None]).abs() >= self.win
        s = q @ k.mT / (C // self.heads) ** 0.5
        w = s.masked_fill(far[None, :, None], -torch.inf).softmax(-1)
        return (w @ v).transpose(2, 3).reshape(B, N, C).roll(self.shift, 1)
''',
    "Columns": '''import torch
from torch import nn


class Columns(nn.Module):
    """feat (B, dim, H, W) -> (B, dim, H, W); every column is a sequence of H pixels."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.d = heads, dim // heads
        self.qkv, self.mix = nn.Conv2d(dim, 3 * dim, 1), nn.Conv2d(dim, dim, 1)

    def forward(self, feat):
        b, c, h, w = feat.shape
        folds = lambda t: t.view(b, self.heads, self.d, h, w).permute(0, 4, 1, 3, 2).reshape(-1, h, self.d)
        q, k, v = map(folds, self.qkv(feat).chunk(3, dim=1))
        weight = torch.softmax(q @ k.mT / self.d**0.5, dim=2)
        y = (weight @ v).view(b, w, self.heads, h, self.d).permute(0, 2, 4, 3, 1)
        return feat + self.mix(y.reshape(b, c, h, w))
''',
    "stop": '''import torch


def stop(state, items, visited, last):
    """Scores of the next stop.  state (B, H), items (B, N, H), visited (B, N) bool, True = was there,
    last (B,) int64, the stop before, which is marked in a copy of visited.  Returns probs (B, N)."""
    visited = visited.clone()
    visited[torch.arange(visited.shape[0]), last] = True
    u = (items @ state[:, :, None]).squeeze(-1) / state.shape[-1] ** 0.5
    return torch.softmax(u.masked_fill(visited, -torch.inf), dim=-1)
''',
    "near": '''import numpy as np


def near(q, k, v, reach):
    """q, k, v: (batch, pixels, heads, dim)
    reach: how many pixels each pixel looks at, the pixel itself INCLUDED.  reach=1 means that it sees only itself,
           reach=2 itself and the one before.
    """
    lag = np.arange(q.shape[1])[:, None] - np.arange(q.shape[1])
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    s = np.where((lag >= 0) & (lag < reach), s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhqk,bkhd->bqhd", e / e.sum(-1, keepdims=True), v)
''',
    "mha": '''import torch


def mha(x, wq, wk, wv, wo, heads):
    """x (B, T, D); wq, wk, wv, wo (D, D)"""
    B, T, D = x.shape
    q, k, v = ((x @ w).view(B, T, heads, -1).transpose(1, 2) for w in (wq, wk, wv))
    return (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(B, T, D) @ wo


def block(x, wq, wk, wv, wo, heads=4):
    return x + mha(x, wq / (x.shape[-1] // heads) ** 0.5, wk, wv, wo, heads)
''',
    "hours": '''import numpy as np


def hours(x, wq, wk, wv, table, heads):
    """x (days, L, dim); wq, wk, wv (dim, dim), used as x @ w
    table (heads, 2 L - 1): table[h, i - j + L - 1] is added to the scaled logit with which hour i reads hour j.
    """
    B, L, D = x.shape
    q, k, v = ((x @ w).reshape(B, L, heads, D // heads) for w in (wq, wk, wv))
    s = np.einsum("bihd,bjhd->bhij", q, k) / (D // heads) ** 0.5
    hour = np.arange(L)
    s = s + table[:, hour[:, None] - hour + L - 1]
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", e / e.sum(-1, keepdims=True), v).reshape(B, L, D)
''',
    "windowed": '''import torch


def windowed(x, wqkv, heads, mask=None):
    """
    x     (B * nW, N, C)  all windows of one image, then those of the next
    wqkv  (C, 3C)
    mask  (nW, N, N)      additive, 0 where a pair may attend and -inf where not; the diagonal is always 0
    """
    BW, N, C = x.shape
    q, k, v = ((y.reshape(BW, N, heads, -1).transpose(1, 2)) for y in (x @ wqkv).chunk(3, dim=-1))
    s = q @ k.mT / (C // heads) ** 0.5
    if mask is not None:
        s = s + mask.repeat(BW // len(mask), 1, 1)[:, None]
    return (torch.softmax(s, dim=-1) @ v).transpose(1, 2).reshape(BW, N, C)
''',
}
BOTH = [
    ("listen", " / sqrt(len(guest))", "", "scale_missing"),
    ("Shifted", "s = q @ k.mT / (C // self.heads) ** 0.5", "s = q @ k.mT / C**0.5", "scale_dmodel"),
    (
        "Columns",
        ".view(b, w, self.heads, h, self.d).permute(0, 2, 4, 3, 1)",
        ".view(self.heads, b, w, h, self.d).permute(1, 0, 4, 3, 2)  # here",
        "fold_batch_head_swap",
    ),
    ("stop", "visited.clone()", "visited", {"inplace": "visited[torch", "full_row_nan": "masked_fill"}),
    ("near", "(lag < reach)", "(lag <= reach)", {"window_off_by_one": "lag <= reach"}),
    (
        "mha",
        "mha(x, wq / (x.shape[-1] // heads) ** 0.5",
        "mha(x / torch.sqrt((x * x).mean(-1, keepdim=True)), wq",
        {"scale_missing": "q @ k.mT"},
    ),
    ("hours", "hour[:, None] - hour +", "hour - hour[:, None] +", {"unknown": "s + table"}),
    (
        "windowed",
        ".repeat(BW // len(mask), 1, 1)[:, None]",
        ".repeat_interleave(BW // len(mask), 0)[:, None]  # here",
        "mask_fold_order",
    ),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
