"""Lines of an image that are samples, memories that are opened, pooled keys, tables and sums made elsewhere."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn


class Axial(nn.Module):
    """field: (B, C, H, W) -> (B, C, H, W), along the rows, then along the columns.

    gap (B, H, W) bool, True = no data; such pixels are not attended to.
    """

    def __init__(self, C, heads=4):
        super().__init__()
        self.along_w = nn.MultiheadAttention(C, heads, batch_first=True)
        self.along_h = nn.MultiheadAttention(C, heads, batch_first=True)

    @staticmethod
    def lines(x, gap, mha):
        B, n, L, C = x.shape
        y = x.reshape(B * n, L, C)
        if gap is None:
            return x + mha(y, y, y, need_weights=False)[0].view(B, n, L, C)
        h = gap.reshape(B * n, L)
        empty = h.all(dim=1)
        hides = h & ~empty[:, None]
        y = mha(y, y, y, key_padding_mask=hides, need_weights=False)[0]
        return x + y.masked_fill(empty[:, None, None], 0.0).view(B, n, L, C)

    def forward(self, field, gap=None):
        x = self.lines(field.permute(0, 2, 3, 1), gap, self.along_w)
        gap = None if gap is None else gap.transpose(1, 2)
        return self.lines(x.transpose(1, 2), gap, self.along_h).permute(0, 3, 2, 1)


class Memory(nn.Module):
    def __init__(self, hid, dim):
        super().__init__()
        self.ask, self.key = nn.Linear(hid, dim), nn.Linear(dim, dim)

    def open(self, frames, k):
        self.frames, self.keys = frames, self.key(frames)
        at = torch.arange(frames.size(1), device=frames.device)
        self.gone = at.unsqueeze(0) >= k.unsqueeze(1)

    def forward(self, s):
        e = torch.bmm(self.keys, self.ask(s).unsqueeze(2)).squeeze(2) / self.keys.size(2) ** 0.5
        a = e.masked_fill(self.gone, float("-inf")).softmax(1)
        return torch.bmm(a.unsqueeze(1), self.frames).squeeze(1)


class Decoder(nn.Module):
    """words (B, L) ids, frames (B, U, dim), k (B,) how many frames are real."""

    def __init__(self, vocab=20, emb=12, dim=24, hid=24):
        super().__init__()
        self.emb, self.cell = nn.Embedding(vocab, emb), nn.GRUCell(emb + dim, hid)
        self.memory, self.char = Memory(hid, dim), nn.Linear(hid + dim, vocab)

    def forward(self, words, frames, k):
        self.memory.open(frames, k)
        c, s = frames.new_zeros(len(frames), frames.size(2)), frames.new_zeros(len(frames), self.cell.hidden_size)
        out = []
        for t in range(words.size(1)):
            s = self.cell(torch.cat([self.emb(words[:, t]), c], 1), s)
            c = self.memory(s)
            out.append(self.char(torch.cat([s, c], 1)))
        return torch.stack(out, 1)


class NonLocal(nn.Module):
    """Keys and values are the largest of four pixels: x (N, C, H, W)."""

    def __init__(self, channels):
        super().__init__()
        self.theta, self.phi, self.g = (nn.Conv2d(channels, 4, 1) for _ in range(3))
        self.back, self.pool = nn.Conv2d(4, channels, 1), nn.MaxPool2d(2)

    def forward(self, x):
        N, C, H, W = x.size()
        theta, phi, g = self.theta(x).view(N, 4, -1), self.pool(self.phi(x)).view(N, 4, -1), self.pool(self.g(x))
        pairs = torch.bmm(phi.transpose(1, 2), theta / 2).softmax(dim=1)
        return self.back(torch.bmm(g.view(N, 4, -1), pairs).view(N, 4, H, W)) + x


def tables(length, d):
    angle = torch.outer(torch.arange(length).float(), 1e4 ** (-torch.arange(0, d, 2).float() / d))
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos(), angle.sin()


def half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Rotary(nn.Module):
    """x (B, T, dim) -> (B, T, dim), causal."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.width = n_heads, dim // n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        cos, sin = tables(256, self.width)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def turn(self, x):
        return x * self.cos[: x.size(-2)] + half(x) * self.sin[: x.size(-2)]

    def forward(self, x):
        B, T, dim = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        s = self.turn(q) @ self.turn(k).transpose(-2, -1) * self.width ** -0.5
        s = s.masked_fill(torch.triu(torch.ones(T, T, dtype=torch.bool), diagonal=1), float("-inf"))
        return self.wo((s.softmax(dim=-1) @ v).transpose(1, 2).reshape(B, T, dim))


def largest(x, at, n):
    out = np.full(n, -np.inf)
    np.maximum.at(out, at, x)
    return out


def total(x, at, n):
    out = np.zeros((n,) + x.shape[1:])
    np.add.at(out, at, x)
    return out


def replies(H, frm, to, Wq, Wk, Wv):
    """
    H   (N, F)  post vectors
    frm (E,)    integer array, post that is answered to
    to  (E,)    integer array, post that reads
    Wq, Wk (F, d), Wv (F, o)
    """
    q, k, v = H @ Wq, H @ Wk, H @ Wv
    s = (q[to] * k[frm]).sum(axis=1) / Wq.shape[1] ** 0.5
    e = np.exp(s - largest(s, to, len(H))[to])
    den = total(e, to, len(H))
    p = e / den[to]
    return total(p[:, None] * v[frm], to, len(H)), p


def serve(want, broth, stale=None):
    """
    want  (tables, diners, taste)
    broth (tables, pots, taste)
    stale : optional array (tables, pots), nonzero = this pot is off, nobody may be served from it.
    """
    hunger = want @ np.swapaxes(broth, -1, -2) / np.sqrt(want.shape[-1])
    if stale is not None:
        hunger = np.where(np.asarray(stale)[:, None, :] != 0, -np.inf, hunger)
    hunger = np.exp(hunger - hunger.max(-1, keepdims=True))
    return hunger / hunger.sum(-1, keepdims=True) @ broth
'''

BOTH = [
    (
        "Axial",
        "hides = h & ~empty[:, None]",
        "hides = ~h & h.any(dim=1)[:, None]",
        {"mask_inverted": "hides ="},
    ),
    ("Decoder", "at.unsqueeze(0) >= k", "at.unsqueeze(0) < k", {"mask_inverted": "self.gone"}),
    ("NonLocal", "softmax(dim=1)", "softmax(dim=2)", "softmax_axis_q"),
    (
        "Rotary",
        "cat([angle, angle], dim=-1)",
        "repeat_interleave(angle, 2, dim=-1)",
        {"rope_layout": "interleave"},
    ),
    ("replies", "den = total(e,", "den = total(np.exp(s),", {"softmax_partial_max": "den = total"}),
    ("serve", "[:, None, :] != 0", "[:, None, :] == 0", {"mask_inverted": "== 0"}),
]
test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
