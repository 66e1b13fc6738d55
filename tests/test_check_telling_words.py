"""What tells of positions and of other attentions: complex numbers, time stamps, rows that need no softmax's sum."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def circles(q, k, v, at):
    """Attention with rotary positions and no mask.  q, k (L, d), v (L, e), at (L,): the positions of the tokens."""
    d = q.shape[-1]
    turns = np.exp(1j * np.outer(at, 10000.0 ** (-np.arange(0, d, 2) / d)))
    a, b = (x[..., ::2] + 1j * x[..., 1::2] for x in (q, k))
    scores = (a * turns @ (b * turns).conj().T).real / d**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def turned(x, at):
    half = x.shape[-1] // 2
    angles = at[:, None] * 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


def stamped(q, k, v, asked, kept):
    """q (B, H, T, d), k, v (B, H, S, d), asked (T,) and kept (S,): time stamps, by whose differences scores go."""
    scores = turned(q, asked) @ turned(k, kept).transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.softmax(-1) @ v


def folded(x, Wq, Wk, Wv):
    """One head of self-attention.  x (B, n, D), Wq and Wk (D, d), Wv (D, e)."""
    q, k = x @ (Wq / np.sqrt(Wq.shape[1])), x @ Wk
    scores = q @ k.swapaxes(1, 2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ (x @ Wv)


class Cabezas(nn.Module):
    """x (B, T, C).  Las filas de su matriz son todas las consultas, después todas las claves y todos los valores."""

    def __init__(self, C, h):
        super().__init__()
        self.h, self.tres, self.sale = h, nn.Linear(C, 3 * C), nn.Linear(C, C)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.tres(x).view(B, T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (C // self.h) ** 0.5
        return self.sale((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, C))


class Spun(nn.Module):
    """Spun(n, h, W): x (B, T, n); a token reads W tokens, itself and those before it."""

    def __init__(self, n, h, W):
        super().__init__()
        self.h, self.d, self.W, self.a = h, n // h, W, nn.Linear(n, 3 * n)

    def fwd(self, x):
        B, T, n = x.shape
        q, k, v = (t.view(B, T, self.h, self.d).transpose(1, 2) for t in self.a(x).chunk(3, -1))
        at = torch.arange(T)
        angles = torch.outer(at, 10000.0 ** (-torch.arange(0, self.d, 2, dtype=x.dtype) / self.d)).repeat(1, 2)
        q, k = (t * angles.cos() + torch.cat((-t[..., self.d // 2 :], t[..., : self.d // 2]), -1) * angles.sin()
                for t in (q, k))
        gap = at[:, None] - at
        scores = (q @ k.transpose(2, 3) / self.d**0.5).masked_fill((gap < 0) | (gap >= self.W), -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(B, T, n)


class Attention(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, y, seen):
        scores = self.q(x) @ self.k(y).mT / x.shape[-1] ** 0.5
        return scores.masked_fill(~seen, -torch.inf).softmax(-1) @ self.v(y)


class Translator(nn.Module):
    """src (B, S), tgt (B, T): words, 0 = padding of src.  What comes at t depends on the real words of src (at least

    one of each) and on tgt[:, :t + 1] only.
    """

    def __init__(self, V, D=12):
        super().__init__()
        self.words, self.own, self.other, self.out = nn.Embedding(V, D), Attention(D), Attention(D), nn.Linear(D, V)

    def forward(self, src, tgt):
        every = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool)
        y = self.words(tgt)
        y = y + self.own(y, y, every.tril())
        return self.out(y + self.other(y, self.words(src), (src != 0)[:, None]))


def shares(z, ends, n):
    z = torch.exp(z - z.max())
    return z / torch.zeros(n, dtype=z.dtype).index_add(0, ends, z)[ends]


def along_edges(x, edges, Wq, Wk, Wv):
    """x (N, D), edges (2, E): row 0 the source, row 1 the target.  A target's weights, of its edges, sum to 1."""
    s, t = edges
    scores = ((x @ Wq)[t] * (x @ Wk)[s]).sum(-1) / Wq.shape[1] ** 0.5
    weights = shares(scores, t, len(x))
    return torch.zeros(len(x), Wv.shape[1], dtype=x.dtype).index_add(0, t, weights[:, None] * (x @ Wv)[s])


class Gated(nn.Module):
    """x (B, T, D), m (B, S, D), gate (B, T, S): each query reads what its gate lets through."""

    def __init__(self, D, H):
        super().__init__()
        self.h, self.q, self.kv = H, nn.Linear(D, D), nn.Linear(D, 2 * D)

    def forward(self, x, m, gate):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in (self.q(x), *self.kv(m).chunk(2, -1)))
        shut = gate < 0
        shut = shut.masked_fill(shut.all(-1, keepdim=True), False)[:, None]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~shut).transpose(1, 2).flatten(2)
'''
# What is right, and how it is wrong.
BOTH = [
    ("circles", ".conj()", "", "unknown"),
    ("stamped", "turned(k, kept)", "turned(k, -kept)", "unknown"),
    ("folded", "np.sqrt(Wq.shape[1])", "Wq.shape[1]", "scale_d"),
    ("Cabezas", "3, self.h, -1).permute(2, 0, 3, 1, 4)", "self.h, 3, -1).permute(3, 0, 2, 1, 4)", "qkv_order"),
    ("Spun", "repeat(1, 2)", "repeat_interleave(2, dim=-1)", "rope_layout"),
    ("Translator", "y + self.own(y, y, every.tril())", "y + self.own(y, y, every)", "causal_missing"),
    (
        "along_edges",
        "weights = shares(scores, t, len(x))",
        "weights = shares(scores, s, len(x))  # here",
        "softmax_axis_q",
    ),
    ("Gated", "attn_mask=~shut", "attn_mask=shut", "mask_inverted"),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
