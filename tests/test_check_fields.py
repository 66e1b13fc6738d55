"""What documentation says of masks, heads, channels and distances, and slopes that are as many for fewer positions."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

TORCH = '''
import torch
from torch import nn


class Probes(nn.Module):
    """
    forward(reading, dead)
        reading  (B, P, dim)
        dead     (B, P) bool   True = the probe burnt out: its reading must get weight zero from every probe.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, reading, dead):
        B, P, dim = reading.shape
        q, k, v = self.qkv(reading).view(B, P, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(dead[:, None, None], -1e9)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, P, dim)


class Letters(nn.Module):
    """Score of Bahdanau et al. (2015).

    slot     (B, T, d_slot)   one vector for each slot
    stem     (B, S, d_stem)   encoded letters of the stem, zero-padded at the end
    letters  (B,) long        number of letters of each stem, >= 1
    """

    def __init__(self, d_slot, d_stem, d_mid):
        super().__init__()
        self.W, self.U = nn.Linear(d_slot, d_mid, bias=False), nn.Linear(d_stem, d_mid)
        self.v = nn.Linear(d_mid, 1, bias=False)

    def forward(self, slot, stem, letters):
        e = self.v(torch.tanh(self.W(slot)[:, :, None] + self.U(stem)[:, None])).squeeze(-1)
        beyond = torch.arange(stem.size(1)) >= letters[:, None, None]
        return e.masked_fill(beyond, -1e9).softmax(-1) @ stem


class Sky(nn.Module):
    """sky (B, c, H, W) -> (B, c, H, W)"""

    def __init__(self, c, heads):
        super().__init__()
        self.heads, self.e = heads, c // heads
        self.pack = nn.Conv2d(c, 3 * c, 1)
        self.out = nn.Conv2d(c, c, 1)

    def forward(self, sky):
        B, c, H, W = sky.shape
        z = self.pack(sky).flatten(2)
        q, k, v = z.reshape(B, self.heads, 3, self.e, H * W).transpose(-1, -2).unbind(2)
        light = (q @ k.mT / self.e ** 0.5).softmax(-1) @ v
        return sky + self.out(light.mT.reshape(B, c, H, W))
'''
SOURCE = {
    "Probes": TORCH,
    "Letters": TORCH,
    "Sky": '''"""Pixels of the sky.

`pack` is a 1x1 convolution to 3 c channels.  Its output channels are grouped by head:  [q of head 0, k of head 0,
v of head 0, q of head 1, ...], e channels each.
"""'''
    + TORCH,
    "vote": '''"""Traders who share desks.

vote(trader, note, call)
    trader  (T, N, d)   T ticks, N traders (query heads)
    note    (T, D, d)   D desks (key heads), N is a multiple of D
    call    (T, D, c)   values
returns (T, N, c)

The first N // D traders read desk 0, and the next N // D read desk 1.  At tick t a trader reads ticks 0..t.
"""
import numpy as np


def vote(trader, note, call):
    T, N, d = trader.shape
    group = N // note.shape[1]
    note, call = np.repeat(note, group, 1), np.repeat(call, group, 1)
    bid = np.einsum("tnd,snd->nts", trader, note) / d**0.5
    bid = np.where(np.tri(T, dtype=bool), bid, -1e9)
    odds = np.exp(bid - bid.max(-1, keepdims=True))
    return np.einsum("nts,snc->tnc", odds / odds.sum(-1, keepdims=True), call)
''',
    "fading": '''"""Heads that forget.

q, k, v  (H, T, D)
slope    (H,)   how fast each head forgets
Query i reads the keys j <= i with the logit  q_i . k_j / sqrt(D) - slope * (i - j).
"""
import torch


def fading(q, k, v, slope):
    i = torch.arange(q.shape[1])
    away = i[:, None] - i
    s = q @ k.mT / q.shape[-1] ** 0.5 - slope[:, None, None] * away
    return s.masked_fill(away < 0, -1e9).softmax(-1) @ v
''',
}
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("Probes", "masked_fill(dead[", "masked_fill(~dead[", "mask_inverted"),
    ("Letters", "torch.tanh(self.W(slot)[:, :, None] + self.U(stem)[:, None])",
     "self.W(slot)[:, :, None] + self.U(stem)[:, None]", "additive_no_tanh"),
    ("Sky", "light.mT.reshape(", "light.reshape(", "merge_view"),
    ("Sky", "self.heads, 3, self.e, H * W).transpose(-1, -2).unbind(2)",
     "3, self.heads, self.e, H * W).transpose(-1, -2).unbind(1)", "qkv_order"),
    ("vote", "np.repeat(note, group, 1), np.repeat(call, group, 1)",
     "np.tile(note, (1, group, 1)), np.tile(call, (1, group, 1))", "gqa_tile"),
    ("fading", "** 0.5 - slope", "** 0.5 + slope", "alibi_sign"),
]  # fmt: skip
test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
