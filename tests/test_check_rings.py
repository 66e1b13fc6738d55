"""What decoding keeps, and how it is told: rings that are written, windows, drafts behind a cache, trees."""

from __future__ import annotations

from importlib.util import find_spec

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
"""One token at a time, with a ring of the last W tokens.  Slots that were never written are not read."""'''
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
    "tree": '''
"""Token trees.  parent[n] is the node that n hangs on, and -1 of the root; a node reads its ancestors."""
import numpy as np


def tree(q, k, v, parent):
    """q, k, v (H, N, d) of the N nodes"""
    sees = np.zeros((len(parent), len(parent)), bool)
    for node in range(len(parent)):
        at = node
        while at >= 0:
            sees[node, at] = True
            at = parent[at]
    s = np.where(sees, q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v
''',
    "drafts": '''
"""Drafts as paths, [(0,), (1,), (0, 0)]; the root is node 0, and a node reads all on the way from the root to it."""
import torch
import torch.nn.functional as F


def drafts(q, k, v, paths):
    """q, k, v (B, H, N, d)"""
    paths = sorted(paths, key=lambda path: (len(path), path))
    number = {(): 0} | {path: n for n, path in enumerate(paths, 1)}
    sees = torch.eye(len(number), dtype=torch.bool)
    for path in paths:
        sees[number[path]] |= sees[number[path[:-1]]]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
''',
    "append": '''
"""The new token goes to slot `length` of S; query heads 0 … g-1 share kv head 0, and so on.

keys, values (B, S, Hkv, d); x (B, 1, D); w has q (D, H, d), k and v (D, Hkv, d), o (H, d, D)
"""
import jax
import jax.numpy as jnp


@jax.jit
def append(w, x, keys, values, length):
    q, k, v = (jnp.einsum("btm,mhd->bthd", x, w[name]) for name in "qkv")
    keys = jax.lax.dynamic_update_slice(keys, k, (0, length, 0, 0))
    values = jax.lax.dynamic_update_slice(values, v, (0, length, 0, 0))
    g = q.shape[2] // k.shape[2]
    k, v = (jnp.repeat(x, g, 2) for x in (keys, values))
    s = jnp.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
    p = jax.nn.softmax(jnp.where(jnp.arange(keys.shape[1]) <= length, s, -jnp.inf), -1)
    return jnp.einsum("bthd,hdm->btm", jnp.einsum("bhts,bshd->bthd", p, v), w["o"]), keys, values
''',
}

BOTH = [
    ("Ring", "q.shape[-1] ** -0.5", "x.shape[-1] ** -0.5", "scale_dmodel"),
    ("Ring", "n = min(kept.seen, W)", "n = W", "unknown"),
    ("Local", "tril(-self.sliding_window)", "tril(-self.sliding_window - 1)", "window_off_by_one"),
    ("Verify", "tril(k.shape[2] - G)", "tril()", "causal_top_left"),
    (
        "Turned",
        "torch.cat((angles, angles), -1)",
        "angles.repeat_interleave(2, -1)",
        {"rope_layout": "repeat_interleave"},
    ),
    ("tree", "sees[node, at] = True", "sees[at, node] = True", "unknown"),
    (
        "drafts",
        "sees[number[path]] |= sees[number[path[:-1]]]",
        "sees[number[path], number[path[:-1]]] = True",
        "unknown",
    ),
]
if find_spec("jax"):
    BOTH.append(("append", "jnp.repeat(x, g, 2)", "jnp.tile(x, (1, 1, g, 1))", "gqa_tile"))

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
