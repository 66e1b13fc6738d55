"""Calls of what is no plain array: edges with loops, ragged rows, lists of pairs, weights by letters, a module."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

LISTS = '''
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def recall(cue, memory, rounds):
    """What is recalled after all rounds.

    cue    : list of D floats
    memory : list of entries (key, value), each a list of D floats, or None where nothing is left
    rounds : list of D x D matrices
    """
    left = [entry for entry in memory if entry is not None]
    for R in rounds:
        s = [dot(cue, k) / math.sqrt(len(cue)) for k, _ in left]
        e = [math.exp(x - max(s)) for x in s]
        p = [x / sum(e) for x in e]
        found = [sum(a * v[c] for a, (_, v) in zip(p, left)) for c in range(len(cue))]
        cue = [dot(row, [x + y for x, y in zip(cue, found)]) for row in R]
    return cue
'''
RAGGED = '''
import torch
from torch import nn


class Bonds(nn.Module):
    """Attention of atoms over their bonds, each atom being bound to itself too.

    X : (N, f) atoms
    E : (2, M) integer bonds, E[0] from, E[1] to
    """

    def __init__(self, f, c, h=4):
        super().__init__()
        self.h, self.c = h, c
        self.q, self.k, self.v = nn.Linear(f, h * c), nn.Linear(f, h * c), nn.Linear(f, h * c)

    def forward(self, X, E):
        n = X.shape[0]
        own = torch.arange(n)
        u, v = torch.cat([E[0], own]), torch.cat([E[1], own])
        q, k, x = (f(X).view(n, self.h, self.c) for f in (self.q, self.k, self.v))
        s = (q[v] * k[u]).sum(-1) / self.c ** 0.5
        top = s.new_full((n, self.h), -torch.inf).scatter_reduce(0, v[:, None].expand_as(s), s, "amax")
        w = (s - top[v]).exp()
        w = w / w.new_zeros(n, self.h).index_add(0, v, w)[v]
        return torch.zeros_like(x).index_add(0, v, w[..., None] * x[u]).flatten(1)


class Bags(nn.Module):
    """Pooling of ragged bags.

    rows (M, D)     of all bags
    bag  (M,) int   the bag of each row
    n    int        number of bags
    out  (n, S, D)  S seeds of each
    """

    def __init__(self, D, S, heads):
        super().__init__()
        self.h, self.d = heads, D // heads
        self.seed = nn.Parameter(torch.randn(S, heads, D // heads))
        self.k, self.v = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, rows, bag, n):
        k, v = (f(rows).view(-1, self.h, self.d) for f in (self.k, self.v))
        s = torch.einsum("shd,mhd->msh", self.seed, k) * self.d ** -0.5
        at = bag[:, None, None].expand_as(s)
        top = s.new_full((n, *s.shape[1:]), -torch.inf).scatter_reduce(0, at, s, "amax")
        e = (s - top.gather(0, at)).exp()
        w = e / e.new_zeros(n, *s.shape[1:]).scatter_add(0, at, e).gather(0, at)
        y = v.new_zeros(n, *s.shape[1:], self.d)
        return y.index_add(0, bag, w[..., None] * v[:, None]).flatten(2)
'''
ARRAYS = '''
import numpy as np


def softmax(x, axis):
    x = np.exp(x - x.max(axis, keepdims=True))
    return x / x.sum(axis, keepdims=True)


def exported(x, weights, heads):
    """weights: [kernel, bias] of each layer by its name."""
    T, D = x.shape
    dense = lambda name: np.dot(x, weights[name][0]) + weights[name][1]
    q, k, v = (dense(n).reshape(T, heads, -1).swapaxes(0, 1) for n in ("ask", "key", "value"))
    w = softmax(q @ k.swapaxes(-1, -2) / (D // heads) ** 0.5, -1)
    return (w @ v).swapaxes(0, 1).reshape(T, D)


def head(X, Wq, bq, Wk, bk, Wv, bv, seen=None):
    """Each word is a column.  seen: booleans (N,), True for words that are there."""
    Q, K, V = bq[:, None] + Wq @ X, bk[:, None] + Wk @ X, bv[:, None] + Wv @ X
    S = K.T @ Q / K.shape[0] ** 0.5
    if seen is not None:
        S = np.where(seen[:, None], S, -np.inf)
    return V @ softmax(S, 0)


def columns(X, heads, Wo, seen=None):
    """heads: a list of (Wq, bq, Wk, bk, Wv, bv).  seen: booleans (N,), True for words that are there."""
    return Wo @ np.vstack([head(X, *one, seen=seen) for one in heads])
'''
LAYERS = '''
import torch


def by_hand(layer, x):
    """What nn.MultiheadAttention(E, H, batch_first=True) does, with x (B, T, E)."""
    B, T, E = x.shape
    H = layer.num_heads
    weight = layer.in_proj_weight.view(3, H, E // H, E)
    q, k, v = torch.einsum("bte,phde->pbhtd", x, weight) + layer.in_proj_bias.view(3, 1, H, 1, E // H)
    p = (q @ k.mT / (E // H) ** 0.5).softmax(-1)
    return layer.out_proj((p @ v).transpose(1, 2).reshape(B, T, E))
'''
POINTS = '''
import torch
from torch import nn


class Next(nn.Module):
    """Who is next, n times.

    x (B, n, D)
    returns the probabilities (B, n, n) of each step, which sum to one, and whom it took (B, n)
    """

    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.step = nn.Linear(d, d), nn.Linear(d, d), nn.GRUCell(d, d)

    def forward(self, x):
        B, n, d = x.shape
        state, gone = x.mean(1), torch.zeros(B, n, dtype=torch.bool)
        probs, order = [], []
        for _ in range(n):
            s = torch.einsum("bd,bnd->bn", self.q(state), self.k(x)) / d ** 0.5
            s = s.masked_fill(gone, -torch.inf)
            p = s.softmax(-1)
            one = p.argmax(-1)
            gone = gone.scatter(1, one[:, None], True)
            state = self.step(x[torch.arange(B), one], state)
            probs.append(p)
            order.append(one)
        return torch.stack(probs, 1), torch.stack(order, 1)
'''
SOURCES = {
    "recall": LISTS,
    "exported": ARRAYS,
    "columns": ARRAYS,
    "by_hand": LAYERS,
    "Next": POINTS,
    "Bonds": RAGGED,
    "Bags": RAGGED,
}
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("recall", "/ math.sqrt(len(cue))", "* math.sqrt(len(cue))", "scale_inverted"),
    ("exported", "(D // heads) ** 0.5", "D ** 0.5", "scale_dmodel"),
    ("columns", "np.where(seen[:, None], S, -np.inf)", "np.where(seen[:, None], -np.inf, S)", "mask_inverted"),
    ("by_hand", "(E // H) ** 0.5", "E ** 0.5", "scale_dmodel"),
    ("Next", "probs.append(p)", "probs.append(s)", "returns_scores"),
    ("Bonds", "/ self.c ** 0.5", "* self.c ** 0.5", "scale_inverted"),
    ("Bags", "self.d ** -0.5", "self.d ** 0.5", "scale_inverted"),
]


test_right, test_wrong = right_and_wrong(SOURCES, BOTH)
