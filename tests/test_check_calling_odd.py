"""States that come back or are filled, beams, pieces of a row, one mean of all heads, scales of 1, images, pairs."""

from __future__ import annotations

import pytest

from overt.check.text.shapes import shapes
from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
"""Six ways.

``Beams(n, h)``; go(x, past=None, idx=None)
    x    : (R, n) newest tokens of all rows
    past : None or (k, v), each (R, h, T, d), what the last call gave back
    idx  : (R,) long or None; the row whose past each row continues

``Room(D, h, most)``; step(x, s), s of begin(B, skip)
    x  : (B, D), one new token per row
    s  : from begin; skip (B,) long = how many tokens each row has for nothing
"""
import math
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


class Beams(nn.Module):
    def __init__(self, n, h):
        super().__init__()
        self.h, self.d = h, n // h
        self.a, self.b, self.c, self.o = (nn.Linear(n, n) for _ in range(4))

    def go(self, x, past=None, idx=None):
        q, k, v = (f(x).view(x.shape[0], self.h, 1, self.d) for f in (self.a, self.b, self.c))
        if past is not None:
            pk, pv = past
            if idx is not None:
                pk, pv = pk[idx], pv[idx]
            k, v = torch.cat([pk, k], 2), torch.cat([pv, v], 2)
        return self.o(F.scaled_dot_product_attention(q, k, v).flatten(1)), (k, v)


class State:
    pass


class Room(nn.Module):
    def __init__(self, D, h, most):
        super().__init__()
        self.h, self.d, self.most = h, D // h, most
        self.i, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def begin(self, B, skip):
        s = State()
        s.k = self.i.weight.new_zeros(B, self.h, self.most, self.d)
        s.v, s.n, s.skip = s.k.clone(), 0, skip
        return s

    def step(self, x, s):
        q, k, v = self.i(x).view(len(x), 3, self.h, self.d).unbind(1)
        s.k[:, :, s.n], s.v[:, :, s.n] = k, v
        s.n += 1
        K, V = s.k[:, :, :s.n], s.v[:, :, :s.n]
        K = K * self.d ** -0.5
        a = torch.einsum("bhd,bhjd->bhj", q, K)
        a = a.masked_fill((torch.arange(s.n)[None] < s.skip[:, None])[:, None], -1e30).softmax(-1)
        return self.o(torch.einsum("bhj,bhjd->bhd", a, V).flatten(1))


class Maps(nn.Module):
    """softmax(q_h k_h^T / sqrt(d)) v_h, side by side for each head h; and the mean of the maps.  x (B, T, D)."""

    def __init__(self, D, heads):
        super().__init__()
        self.h = heads
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        a = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        m = a.mean(1, keepdim=True)
        return self.o((a @ v).transpose(1, 2).flatten(2)), m[:, 0]


class Letters(nn.Module):
    """Logits are q.k / sqrt(d), d = w / nh.  x (B, T, w)."""

    def __init__(self, w, nh):
        super().__init__()
        self.nh, self.d, self.p = nh, w // nh, nn.Linear(w, 3 * w)

    def forward(self, x):
        q, k, v = self.p(x).view(*x.shape[:2], 3, self.nh, self.d).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


class Picture(nn.Module):
    """Bild (B, 3, size, size) -> (B, classes); nothing of another one is seen."""

    def __init__(self, size=16, patch=4, dim=32, heads=4, classes=5):
        super().__init__()
        self.e = nn.Conv2d(3, dim, patch, patch)
        self.a = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def forward(self, bild):
        x = self.e(bild).flatten(2).transpose(1, 2)
        return self.head((x + self.a(x, x, x)[0]).mean(1))


def bags(x, off, q, wk, wv):
    """
    x (M, D) elements of all bags, one after the other
    off (B+1,) where each begins, and M at last
    q (d,); wk, wv (D, d)
    """
    k, v = x @ wk, x @ wv
    s = k @ q / math.sqrt(len(q))
    e = np.exp(s - np.repeat(np.maximum.reduceat(s, off[:-1]), np.diff(off)))
    return np.add.reduceat(e[:, None] * v, off[:-1], axis=0) / np.add.reduceat(e, off[:-1])[:, None]
'''
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("Beams", "pk, pv = pk[idx], pv[idx]", "pv = pv[idx]", "unknown"),
    ("Room", "K = K * self.d", "K *= self.d", "inplace"),
    ("Maps", "(a @ v)", "(m @ v)", "unknown"),
    ("Letters", "attention(q, k, v).transpose", "attention(q, k, v, scale=1.0).transpose", "scale_missing"),
    ("Picture", ", batch_first=True", "", "batch_first"),
    ("bags", "k @ q / math.sqrt(len(q))", "k @ q / len(q)", "scale_d"),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


@pytest.mark.parametrize(
    "said",
    ["state  (h, c)    LSTM の初期状態、それぞれ (1, B, n)", "state : None or (h, c), each (1, B, n)",
     "state (h, c): zwei Tensoren (1, B, n)"],
)  # fmt: skip
def test_two_things_have_one_shape_each(said: str) -> None:
    found = shapes(said, ["state", "x"])
    assert {path: shape.axes for path, shape in found.items()} == dict.fromkeys(
        [("state", "0"), ("state", "1")], ("1", "B", "n")
    )
    # Two axes are no two things.
    assert ("x", "0") not in shapes("x (B, T), embedded as (B, T, D)", ["state", "x"])
