"""What a call leaves to chance: where samples begin, what numbers choose of, and how much there is room for."""

from __future__ import annotations

import pytest

from overt.check.calls.call import LADDER
from overt.check.calls.lettering import roomy
from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Relations(nn.Module):
    """Edges between typed nodes.

    nodes (N, dim); sort (N,) long, the type of each node; send, recv (E,) long; kind (E,) long, the relation of an edge
    """

    def __init__(self, dim, heads, sorts, relations):
        super().__init__()
        self.h = heads
        self.q, self.v, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.k = nn.Parameter(torch.randn(sorts, dim, dim) / dim**0.5)
        self.R = nn.Parameter(torch.randn(relations, dim))
        self.p = nn.Parameter(torch.zeros(relations, heads))

    def forward(self, nodes, sort, send, recv, kind):
        N, D = nodes.shape
        h, d = self.h, D // self.h
        q = self.q(nodes).view(N, h, d)[recv]
        k = (torch.einsum("ni,nij->nj", nodes, self.k[sort])[send] * self.R[kind]).view(-1, h, d)
        v = self.v(nodes)[send].view(-1, h, d)
        s = (q * k).sum(-1) / d**0.5 * self.p[kind].exp()
        ends = recv[:, None].expand_as(s)
        top = s.new_full((N, h), float("-inf")).scatter_reduce(0, ends, s, "amax")
        w = (s - top[recv]).exp()
        w = w / s.new_zeros(N, h).scatter_add(0, ends, w)[recv]
        y = nodes.new_zeros(N, h, d).index_add(0, recv, w[..., None] * v)
        return self.o(y.reshape(N, D))


def last_asks(H, lens, P):
    """Scores of the form s . (Wa h_j), where s is the last real state.

    H    (S, B, d)  states
    lens (B,) int   lengths; H[j, b] with j >= lens[b] is padding
    P    dict: Wa (d, d); Wc (2d, d)
    """
    S, B, d = H.shape
    hides = np.arange(S)[:, None] >= lens[None, :]         # (S, B)
    rows = H @ P["Wa"].T                                   # rows Wa h_j
    s = H[lens - 1, np.arange(B)]
    e = (rows * s).sum(-1)                                 # (S, B)
    e[hides] = -np.inf
    e = np.exp(e - e.max(0))
    a = e / e.sum(0)
    return np.tanh(np.concatenate([np.einsum("sb,sbd->bd", a, H), s], 1) @ P["Wc"])


class Room(nn.Module):
    """Keys and values of at most ``room`` tokens.

    fwd(x, at): x (B, T, D) new tokens; at (B,) long, tokens already kept of each sequence
    Token t of sequence b stands at at[b] + t, and reads positions 0 .. at[b] + t.
    """

    def __init__(self, D, heads, room, B):
        super().__init__()
        self.h, self.q, self.kv, self.o = heads, nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.register_buffer("keys", torch.zeros(B, room, D))
        self.register_buffer("values", torch.zeros(B, room, D))

    @torch.no_grad()
    def fwd(self, x, at):
        B, T, D = x.shape
        pos, row = at[:, None] + torch.arange(T), torch.arange(B)[:, None]
        self.keys[row, pos], self.values[row, pos] = self.kv(x).chunk(2, -1)
        n = int(pos.max()) + 1
        q, k, v = (z.view(B, -1, self.h, D // self.h).transpose(1, 2)
                   for z in (self.q(x), self.keys[:, :n], self.values[:, :n]))
        s = q @ k.mT / (D // self.h) ** 0.5
        s = s.masked_fill(torch.arange(n) > pos[:, None, :, None], -torch.inf)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))


def windows(x, w):
    B, H, W, C = x.shape
    return x.view(B, H // w, w, W // w, w, C).transpose(2, 3).reshape(B, -1, w * w, C)


class Shifted(nn.Module):
    """x (B, H, W, C), with 0 < shift < side; H and W are divisible by side."""

    def __init__(self, C, heads, side, shift):
        super().__init__()
        self.heads, self.side, self.shift = heads, side, shift
        self.qkv, self.out = nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.side, self.shift
        z = windows(torch.roll(x, (-s, -s), dims=(1, 2)), w)
        parts = torch.zeros(1, H, W, 1)
        for i, a in enumerate((slice(0, -w), slice(-w, -s), slice(-s, None))):
            for j, b in enumerate((slice(0, -w), slice(-w, -s), slice(-s, None))):
                parts[:, a, b] = 3 * i + j
        r = windows(parts, w)[0, :, :, 0]
        mask = torch.zeros(len(r), w * w, w * w).masked_fill(r[:, :, None] != r[:, None, :], float("-inf"))
        q, k, v = self.qkv(z).view(B, -1, w * w, 3, self.heads, C // self.heads).permute(3, 0, 1, 4, 2, 5)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[None, :, None])
        y = self.out(y.transpose(2, 3).reshape(B, -1, w * w, C))
        y = y.view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return torch.roll(y, (s, s), dims=(1, 2))


class Near(nn.Module):
    """points (B, N, 3), feats (B, N, dim): each point attends to its k nearest of the same cloud."""

    def __init__(self, dim, k):
        super().__init__()
        self.n, self.q, self.k, self.v = k, nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, points, feats):
        at = torch.cdist(points, points).topk(self.n, largest=False).indices
        b = torch.arange(len(points))[:, None, None]
        k, v = self.k(feats)[b, at], self.v(feats)[b, at]
        s = (self.q(feats)[:, :, None] * k).sum(-1) / feats.size(-1) ** 0.5
        return (s.softmax(-1)[..., None] * v).sum(2)


class Aligner(nn.Module):
    """q (B, d_q), memory (B, T, d_m), lengths (B,) long."""

    def __init__(self, d_q, d_m, d_a=16):
        super().__init__()
        self.q, self.m, self.v = nn.Linear(d_q, d_a), nn.Linear(d_m, d_a), nn.Linear(d_a, 1, bias=False)

    def forward(self, q, memory, lengths):
        e = self.v(torch.tanh(self.q(q)[:, None] + self.m(memory))).squeeze(-1)
        e = e.masked_fill(torch.arange(memory.size(1)) >= lengths[:, None], -torch.inf)
        a = e.softmax(dim=1)
        return torch.bmm(a[:, None], memory).squeeze(1), a
'''
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    (
        "Relations",
        "scatter_add(0, ends, w)[recv]",
        "scatter_add(0, send[:, None].expand_as(s), w)[send]",
        "softmax_axis_q",
    ),
    ("last_asks", "e.max(0))\n    a = e / e.sum(0)", "e.max())\n    a = e / e.sum()", "softmax_global"),
    (
        "Room",
        "torch.arange(n) > pos[:, None, :, None]",
        "torch.arange(n) > pos[:, None, :, None] + 1",
        {"causal_off_by_one": "", "decode_differs": ""},
    ),
    ("Shifted", "mask[None, :, None]", "mask.bool()[None, :, None]", "mask_float_as_bool"),
    ("Near", "self.v(feats)[b, at]", "self.v(feats)[0][at]", "unknown"),
    ("Aligner", "e.softmax(dim=1)", "e.softmax(dim=0)", "softmax_axis_head_or_batch"),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


@pytest.mark.parametrize("said", ["P + n <= M", "P + n ≤ M", "M >= P + n", "P + n must not exceed M"])
def test_holds_as_many_as_others_together(said: str) -> None:
    """What is said to hold a prompt and what comes after it is long enough for both, and no longer where it is."""
    letters = {"P": "T", "n": "T", "M": "S"}
    assert roomy(f"pos (M, D), words (B, P), {said}", letters, LADDER[0]) == {"M": 32}
    assert not roomy(said, letters, LADDER[0].resized("S", 12))
    assert not roomy("words (B, P), P + 1 <= M", letters, LADDER[0])
