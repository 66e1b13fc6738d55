"""Keys that are sampled, kernels of differences, learned queries, heads in documented shapes; lines of kernels."""

from __future__ import annotations

from swapped import right_and_wrong

SOURCE = '''
"""Attention in the words of its authors."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def grouped(q, k, v):
    """q: [batch, n_heads, seq, dim]; k, v: [batch, n_kv_heads, seq, dim]; n_heads is a multiple of n_kv_heads"""
    k, v = (torch.repeat_interleave(one, q.shape[1] // k.shape[1], dim=1) for one in (k, v))
    logits = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("bhqk,bhkd->bhqd", torch.softmax(logits, -1), v)


def draw(dec=10, enc=12, att=8, seed=1):
    g = np.random.default_rng(seed)
    return {"W": g.normal(size=(dec, att)) / 4, "U": g.normal(size=(enc, att)) / 4, "v": g.normal(size=att)}


def statutes(params, s, h):
    """params : dict from ``draw``; s : (batch, Lq, dec), h : (batch, Lk, enc)"""
    e = np.tanh((s @ params["W"])[:, :, None] + (h @ params["U"])[:, None]) @ params["v"]
    e = np.exp(e - e.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ h


class Deformable(nn.Module):
    """query (B, L, C), points (B, L, 2) in [0, 1], feature (B, C, H, W): weights are read off the query"""

    def __init__(self, width=16, places=4):
        super().__init__()
        self.off, self.weigh = nn.Linear(width, 2 * places), nn.Linear(width, places)
        self.value = nn.Linear(width, width)

    def forward(self, query, points, feature):
        value = self.value(feature.movedim(1, -1)).movedim(-1, 1)
        at = points[:, :, None] + self.off(query).unflatten(-1, (-1, 2)) / feature.shape[-1]
        seen = F.grid_sample(value, 2 * at - 1, align_corners=False)
        w = self.weigh(query).softmax(-1)
        return (seen * w[:, None]).sum(-1).mT


def filled(q, k, v, chunk=4):
    """q (H, T, D), k, v (H, S, D): blocks of keys, the last one filled up; the last query sees every key"""
    T, S = q.shape[1], k.shape[1]
    k, v = (np.pad(x, ((0, 0), (0, -S % chunk), (0, 0))) for x in (k, v))
    parts = []
    for at in range(0, k.shape[1], chunk):
        col = np.arange(at, at + chunk)
        s = q @ k[:, col].mT / q.shape[-1] ** 0.5
        s = np.where((col < S) & (col <= np.arange(T)[:, None] + S - T), s, -1e30)
        top = s.max(-1, keepdims=True)
        e = np.exp(s - top)
        parts.append((top, e.sum(-1, keepdims=True), e @ v[:, col]))
    most = np.max([top for top, *_ in parts], 0)
    total = sum(np.exp(top - most) * sums for top, sums, _ in parts)
    return sum(np.exp(top - most) * mixed for top, _, mixed in parts) / total


def smooth(asked, stamps, readings, h=0.5):
    """asked (S, A), stamps (S, N), readings (S, N, C) -> (S, A, C); w_j(t) = softmax_j(-(t - t_j)^2 / (2 h^2))"""
    gap = asked[:, :, None] - stamps[:, None]
    return torch.softmax(-(gap**2) / (2 * h**2), -1) @ readings


class Stages(nn.Module):
    """passes (B, T, bands): several learned queries ask for them; scores are divided by the root of the width"""

    def __init__(self, bands=10, width=24, stages=4):
        super().__init__()
        self.stages, self.kv = nn.Parameter(torch.randn(stages, width)), nn.Linear(bands, 2 * width)

    def forward(self, passes):
        k, v = self.kv(passes).chunk(2, -1)
        return torch.softmax(self.stages @ k.mT / k.shape[-1] ** 0.5, -1) @ v


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.all, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.all(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return x + self.out(y.transpose(1, 2).flatten(2))


class Looks(nn.Module):
    """A tiny ViT."""

    def __init__(self, image=32, patch=8, dim=64, heads=4):
        super().__init__()
        self.embed, self.layer = nn.Conv2d(3, dim, patch, patch), Layer(dim, heads)
        self.pos = nn.Parameter(torch.randn(1, (image // patch) ** 2, dim) * 0.02)

    def forward(self, img):
        return self.layer(self.embed(img).flatten(2).transpose(1, 2) + self.pos).mean(1)


class Fibre(nn.Module):
    """fibre (B, channels, dim): windows of channels, which begin `shift` later; each channel stays where it is"""

    def __init__(self, dim=16, window=8, shift=4):
        super().__init__()
        self.window, self.shift, self.all = window, shift, nn.Linear(dim, 3 * dim)

    def forward(self, fibre):
        b, n, c = fibre.shape
        x = torch.roll(fibre, -self.shift, dims=1).view(b, n // self.window, self.window, c)
        q, k, v = self.all(x).chunk(3, -1)
        y = ((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v).flatten(1, 2)
        return fibre + torch.roll(y, self.shift, dims=1)


def halves(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class Rotary(nn.Module):
    """Causal, with rotary positions; x (B, T, D)"""

    def __init__(self, D=32, heads=2, rate=0.1):
        super().__init__()
        self.heads, self.rate, self.all, self.out = heads, rate, nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = self.all(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        d = q.shape[-1]
        angle = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        angle = torch.cat([angle, angle], -1)
        q, k = (y * angle.cos() + halves(y) * angle.sin() for y in (q, k))
        y = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=self.rate if self.training else 0.0,
            is_causal=True,
        )  # fmt: skip
        return self.out(y.transpose(1, 2).flatten(2))


class Capped(nn.Module):
    """Causal, capped at 5: hidden positions get no weight at all; x (B, T, D)"""

    def __init__(self, D=16, cap=5.0):
        super().__init__()
        self.cap, self.all = cap, nn.Linear(D, 3 * D)

    def forward(self, x):
        q, k, v = self.all(x).chunk(3, -1)
        s = q @ k.mT * q.shape[-1] ** -0.5
        s = self.cap * torch.tanh(s / self.cap)
        s = s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), -torch.inf)
        return s.softmax(-1) @ v


class LineUp(nn.Module):
    """Points of a possession.

    box:   (possessions, 10, stats)
    out:   (possessions,)
    """

    def __init__(self, stats=18, dim=32, heads=4):
        super().__init__()
        self.inp, self.out = nn.Linear(stats, dim), nn.Linear(dim, 1)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, box):
        x = self.inp(box)
        return self.out((x + self.attn(x, x, x, need_weights=False)[0]).mean(dim=1)).squeeze(-1)
'''

# What is right, how it is made wrong, what that is called, and what its line says.
BOTH = [
    ("grouped", "torch.softmax(logits, -1)", "torch.softmax(logits, 1)", {"softmax_axis_head_or_batch": "logits, 1"}),
    ("Deformable", "w = self.weigh(query).softmax(-1)", "w = self.weigh(query).softmax(-1) * 2", {"unknown": "w = "}),
    ("filled", "+ S - T)", "+ S - T + 1)", {"causal_off_by_one": "col <="}),
    ("smooth", "h**2), -1)", "h**2), 1)", {"softmax_axis_q": "h**2), 1)"}),
    ("Stages", "k.shape[-1] ** 0.5, -1", "k.shape[-1], -1", {"scale_d": "self.stages @"}),
    ("Looks", "(q @ k.mT / q.shape[-1] ** 0.5)", "(q @ k.mT / x.shape[-1] ** 0.5)", {"scale_dmodel": "x.shape[-1]"}),
    ("Fibre", "torch.roll(y, self", "torch.roll(y, -self", {"unknown": "torch.roll(y"}),
    ("Rotary", "torch.cat([angle, angle], -1)", "angle.repeat_interleave(2, -1)", {"rope_layout": "repeat_interleave"}),
    ("Rotary", "self.rate if self.training else 0.0", "self.rate", {"dropout_eval": "dropout_p="}),
    ("Capped", " * q.shape[-1] ** -0.5\n        s = self.cap", "\n        s = self.cap", {"scale_missing": "q @ k"}),
    ("LineUp", ", batch_first=True", "", {"batch_first": "self.attn"}),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH, right=("statutes",))
