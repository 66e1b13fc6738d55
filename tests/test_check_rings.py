"""What decoding keeps, and how it is told: rings that are meant to be written, windows, drafts behind a cache."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

_IMPORTS = """
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

"""

SOURCE = {
    "Ring": '''
"""One token at a time, with a ring of the last W tokens.  Slots are in no order of time."""'''
    + _IMPORTS
    + '''
@dataclass
class Kept:
    k: Tensor  # (B, H, W, d)
    v: Tensor  # (B, H, W, d)
    seen: int = 0

    @classmethod
    def empty(cls, batch: int, heads: int, window: int, dim: int):
        return cls(torch.zeros(batch, heads, window, dim), torch.zeros(batch, heads, window, dim))


class Ring(nn.Module):
    """x (B, 1, D): the hidden state of one token."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: Tensor, kept: Kept) -> Tensor:
        B, W, at = x.shape[0], kept.k.shape[2], kept.seen
        q, k, v = (f(x).view(B, self.heads, -1) for f in (self.q, self.k, self.v))
        kept.k[:, :, at % W], kept.v[:, :, at % W] = k, v
        kept.seen = at + 1
        n = min(kept.seen, W)
        s = torch.einsum("bhd,bhwd->bhw", q, kept.k[:, :, :n]) * q.shape[-1] ** -0.5
        o = torch.einsum("bhw,bhwd->bhd", s.softmax(-1), kept.v[:, :, :n])
        return self.o(o.reshape(B, 1, -1))
''',
    "Local": '''
"""`sliding_window` = W is the number of keys that a token reads, the token itself counted.

Padding is on the right.
"""'''
    + _IMPORTS
    + '''
class Local(nn.Module):
    def __init__(self, dim, heads, sliding_window):
        super().__init__()
        self.heads, self.sliding_window = heads, sliding_window
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        """x (B, T, D) -> (B, T, D)"""
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        hidden = torch.ones(T, T, dtype=torch.bool).triu(1)
        # Also hide whatever is `sliding_window` or more tokens back.
        hidden = hidden | torch.ones_like(hidden).tril(-self.sliding_window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=~hidden)
        return self.out(y.transpose(1, 2).reshape(B, T, D))
''',
    "Verify": '''
"""A draft proposes G tokens behind P cached ones, and all are read in one call."""'''
    + _IMPORTS
    + '''
class Verify(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cache: tuple[Tensor, Tensor] | None = None):
        """x (B, G, dim); cache k, v each (B, H, P, d).  Returns (y (B, G, dim), (k, v))."""
        B, G, D = x.shape
        q, k, v = (t.view(B, G, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if cache is not None:
            k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
        sees = torch.ones(G, k.shape[2], dtype=torch.bool).tril(k.shape[2] - G)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
        return self.out(y.transpose(1, 2).reshape(B, G, D)), (k, v)
''',
    "Turned": '''
"""Rotary attention of which each sample says where its tokens stand; the first of three pairs goes by the row."""'''
    + _IMPORTS
    + '''
class Turned(nn.Module):
    """x (B, T, D); pos (2, B, T) integers, rows and columns."""

    def __init__(self, D, heads, rows=2):
        super().__init__()
        self.heads, self.d, self.rows = heads, D // heads, rows
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))

    def turn(self, x, pos):
        angles = pos[..., None].to(x.dtype) * 100.0 ** (-torch.arange(0, self.d, 2) / self.d)
        angles = torch.cat((angles[0, ..., : self.rows], angles[1, ..., self.rows :]), -1)
        angles = torch.cat((angles, angles), -1).unsqueeze(1)
        a, b = x.chunk(2, -1)
        return x * angles.cos() + torch.cat((-b, a), -1) * angles.sin()

    def forward(self, x, pos):
        B, T, D = x.shape
        q, k, v = (f(x).view(B, T, self.heads, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = self.turn(q, pos), self.turn(k, pos)
        y = (q @ k.mT * self.d**-0.5).softmax(-1) @ v
        return self.o(y.transpose(1, 2).reshape(B, T, D))
''',
}

BOTH = [
    ("Ring", "q.shape[-1] ** -0.5", "x.shape[-1] ** -0.5", "scale_dmodel"),
    ("Local", "tril(-self.sliding_window)", "tril(-self.sliding_window - 1)", "window_off_by_one"),
    ("Verify", "tril(k.shape[2] - G)", "tril()", "causal_top_left"),
    ("Turned", "torch.cat((angles, angles), -1)", "angles.repeat_interleave(2, -1)", {"rope_layout": "repeat_interleave"}),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
