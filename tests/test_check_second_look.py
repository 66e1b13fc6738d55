"""What stands beside an attention, or is said of it: places, later steps, pooling, seeds, lists, pieces, 8 bits."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

ARRAYS = '''
import numpy as np


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def at_step(q, k, v, t):
    """q (B, H, d); k, v (B, H, S, d): room for S tokens, of which 0 .. t - 1 were there and token t is the newest."""
    s = np.einsum("bhd,bhsd->bhs", q, k) / q.shape[-1] ** 0.5
    return np.einsum("bhs,bhsd->bhd", softmax(np.where(np.arange(k.shape[2]) <= t, s, -np.inf)), v)


def recent(q, k, v, window):
    """q (B, H, d), the newest token; k, v (B, H, S, d).  It sees the last `window` tokens, itself included."""
    s = np.einsum("bhd,bhsd->bhs", q, k) / q.shape[-1] ** 0.5
    seen = np.arange(k.shape[2]) >= k.shape[2] - window
    return np.einsum("bhs,bhsd->bhd", softmax(np.where(seen, s, -np.inf)), v)


def piece(q, k, v):
    s = np.einsum("bhd,bhnd->bhn", q, k) / q.shape[-1] ** 0.5
    m = s.max(-1, keepdims=True)
    return np.einsum("bhn,bhnd->bhd", softmax(s), v), m * np.log2(np.e) + np.log2(np.exp(s - m).sum(-1, keepdims=True))


def split_read(q, k, v, parts):
    """q (B, H, d), k, v (B, H, N, d); parts: how many pieces.  Whatever `parts` is, the result is the same."""
    pieces = zip(np.array_split(k, parts, axis=2), np.array_split(v, parts, axis=2))
    read, logs = zip(*[piece(q, kk, vv) for kk, vv in pieces])
    w = [np.exp2(one - np.max(logs, axis=0)) for one in logs]
    return sum(a * (x / sum(w)) for a, x in zip(read, w))
'''

LISTS = '''
import math


def normalise(scores):
    e = [math.exp(s - max(scores)) for s in scores]
    return [s / sum(e) for s in e]


def choose(load, profiles, curves):
    """
    load      list of d floats
    profiles  list of n lists of d floats, one profile per carrier
    curves    list of n lists of m floats, one price curve per carrier
    """
    scores = [sum(x * y for x, y in zip(load, one)) / len(load) ** 0.5 for one in profiles]
    weights = normalise(scores)
    return [sum(w * curve[m] for w, curve in zip(weights, curves)) for m in range(len(curves[0]))], weights
'''

MODULES = '''
import torch
import torch.nn as nn


class Steps(nn.Module):
    """x (B, T, dim); word i only looks at words 1 to i."""

    def __init__(self, dim):
        super().__init__()
        self.dim, (self.q, self.k, self.v) = dim, (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x):
        s = self.q(x) @ self.k(x).transpose(1, 2) / self.dim ** 0.5
        s = s.masked_fill(torch.ones_like(s[0], dtype=torch.bool).triu(1), -torch.inf)
        return s.softmax(-1) @ self.v(x)


class Mode(Steps):
    """x (B, T, dim); mode "all": every step reads every step; mode "past": step t reads steps 0 .. t."""

    def forward(self, x, mode="all"):
        return super().forward(x) if mode == "past" else self.all(x)

    def all(self, x):
        return (self.q(x) @ self.k(x).transpose(1, 2) / self.dim ** 0.5).softmax(-1) @ self.v(x)


class Pool(nn.Module):
    """frames (B, T, dim), keep (B, T) bool, True = usable: those that are not have no weight in what is pooled."""

    def __init__(self, dim, heads):
        super().__init__()
        self.mix, self.score = nn.MultiheadAttention(dim, heads, batch_first=True), nn.Linear(dim, 1)

    def forward(self, frames, keep):
        h = frames + self.mix(frames, frames, frames, need_weights=False)[0]
        logit = self.score(h).squeeze(-1)
        logit = torch.where(keep, logit, -1e9)
        return torch.einsum("bt,btc->bc", torch.softmax(logit, dim=1), h)


class Seeds(nn.Module):
    """tokens (B, T, dim), lengths (B,) int: real tokens; gives (B, seeds, dim)."""

    def __init__(self, dim, heads=4, seeds=8):
        super().__init__()
        self.seeds = nn.Parameter(torch.randn(seeds, dim) * dim ** -0.5)
        self.read = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, tokens, lengths):
        ignore = torch.arange(tokens.shape[1]) >= lengths.unsqueeze(1)
        seeds = self.seeds.expand(len(tokens), -1, -1)
        return self.read(seeds, tokens, tokens, key_padding_mask=ignore, need_weights=False)[0]


class Step(nn.Module):
    """word (B,) int; state (B, dim); enc (B, items, dim) -> logits (B, vocab), weights (B, items), state."""

    def __init__(self, vocab, dim, items):
        super().__init__()
        self.emb, self.energy = nn.Embedding(vocab, dim), nn.Linear(2 * dim, items)
        self.each, self.v = nn.Linear(3 * dim, dim), nn.Linear(dim, 1)
        self.join, self.gru, self.out = nn.Linear(2 * dim, dim), nn.GRUCell(dim, dim), nn.Linear(dim, vocab)

    def forward(self, word, state, enc):
        both = torch.cat([self.emb(word), state], dim=1)
        many = torch.cat([both[:, None].expand(-1, enc.shape[1], -1), enc], dim=2)
        weights = mix = torch.softmax(self.v(torch.tanh(self.each(many))).squeeze(2), dim=1)
        context = torch.bmm(mix.unsqueeze(1), enc).squeeze(1)
        state = self.gru(torch.relu(self.join(torch.cat([self.emb(word), context], dim=1))), state)
        return self.out(state), weights, state
'''

ROUNDED = '''
import torch


def quantise(x):
    s = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-9)
    return (x * s).round().clamp(-127, 127).to(torch.int8), s


def read(q, k, v):
    """q (B, H, T, d), k, v (B, H, S, d): softmax attention, up to the rounding to 8 bits."""
    (ki, ks), (vi, vs) = quantise(k), quantise(v)
    s = q @ (ki.to(q.dtype) / ks).transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(s, -1) @ (vi.to(q.dtype) / vs)
'''

BOTH = [
    ("recent", "k.shape[2] - window\n", "k.shape[2] - window - 1\n", {"window_off_by_one": "np.where(seen"}),
    ("split_read", "np.exp2(one", "np.exp(one", "lse_base2"),
    ("choose", "math.exp(s - max(scores))", "s", "no_exp_norm"),
    ("Steps", "s = s.masked_fill(", "_ = (", "causal_missing"),
    ("Pool", "logit = torch.where(", "torch.where(", {"not_inplace": "torch.where(keep"}),
    ("read", "/ vs", "/ ks", {"unknown": "vi.to"}),
    ("Seeds", ">= lengths", "< lengths", "mask_inverted"),
    (
        "Step",
        "weights = mix = torch.softmax(self.v(torch.tanh(self.each(many))).squeeze(2), dim=1)",
        "weights = self.energy(both)\n        mix = torch.softmax(weights, dim=1)",
        {"additive_ignores_keys": "energy(both)", "returns_scores": ""},
    ),
]
OF = {"choose": LISTS, "read": ROUNDED} | dict.fromkeys(("at_step", "recent", "split_read"), ARRAYS)
SOURCE = OF | dict.fromkeys(("Steps", "Mode", "Pool", "Seeds", "Step"), MODULES)

test_right, test_wrong = right_and_wrong(SOURCE, BOTH, right=["at_step", "Mode"])
