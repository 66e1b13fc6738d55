"""What comes in pairs, by number or in pieces: borders of sequences, states of layers, windows beside a mask."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def borders(ends):
    ends = ends.tolist()
    return zip(ends[:-1], ends[1:])


def talks(new, old, new_ends, old_ends, causal=False):
    """new (N, H, d): tokens of all talks; old = (keys, values), each (M, H, d); ends (B+1,) of each talk.

    causal: the last new token of a talk stands where its last old one does.
    """
    keys, values, found = *old, []
    for (a, b), (c, e) in zip(borders(new_ends), borders(old_ends)):
        q, k, v = (x.transpose(0, 1) for x in (new[a:b], keys[c:e], values[c:e]))
        s = q @ k.mT / q.shape[-1] ** 0.5
        n, m = s.shape[1:]
        if causal:
            s = s.masked_fill(torch.arange(m) > torch.arange(n)[:, None] + (m - n), -torch.inf)
        found.append((s.softmax(-1) @ v).transpose(0, 1))
    return torch.cat(found)


class Record(nn.Module):
    """Columns of a record attend to each other.  row (B, n); missing (B, n) bool, True = nothing was filled in."""

    def __init__(self, n=6, dim=16, heads=2):
        super().__init__()
        self.scale, self.first = nn.Parameter(torch.randn(n, dim)), nn.Parameter(torch.randn(dim))
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, 1)

    def forward(self, row, missing):
        x = torch.where(missing, 0, row)[..., None] * self.scale
        x = torch.cat([self.first.expand(len(row), 1, -1), x], 1)
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(F.pad(missing, (1, 0))[:, None, None], -torch.inf)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2)[:, 0]).squeeze(-1)


def talking(x, y, Wq, Wk, Wv, Wo, before, after):
    """x [b, n, d], y [b, m, e]; Wq [d, i, w], Wk [e, i, w], Wv [e, j, u], Wo [o, j, u]; before [i, h], after [h, j]"""
    q = torch.einsum("bnd,diw->binw", x, Wq) / Wq.shape[-1] ** 0.5
    k, v = torch.einsum("bme,eiw->bimw", y, Wk), torch.einsum("bme,eju->bjmu", y, Wv)
    s = torch.einsum("binm,ih->bhnm", q @ k.mT, before)
    p = torch.einsum("bhnm,hj->bjnm", s.softmax(dim=-1), after)
    return torch.einsum("bjnu,oju->bno", p @ v, Wo)


class Signal(nn.Module):
    def __init__(self, leads=12, dim=24, heads=3, patch=10):
        super().__init__()
        self.heads, self.patch = heads, nn.Conv1d(leads, dim, patch, stride=patch)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, signal):
        x = self.patch(signal).transpose(1, 2)
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1).unbind(2)
        s = torch.einsum("bthd,bshd->bhts", q, k) * q.shape[-1] ** -0.5
        y = torch.einsum("bhts,bshd->bthd", s.softmax(-1), v)
        return x + self.out(y.reshape(x.shape))


def turned(x, first):
    at = torch.arange(first, first + x.shape[-2])
    angle = torch.outer(at, 100.0 ** -(torch.arange(0, x.shape[-1], 2) / x.shape[-1]))
    z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2).type_as(x)


class Stream(nn.Module):
    """In chunks it gives the same as at once.  state: None, or what the step before gave beside its result."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, state=None):
        y, _ = self.step(x, state)
        return y

    def step(self, x, state=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        done = 0 if state is None else state[0].shape[2]
        q, k = (turned(y, done) for y in (q, k))
        if state is not None:
            k, v = torch.cat([state[0], k], 2), torch.cat([state[1], v], 2)
        seen = torch.ones(x.shape[1], k.shape[2], dtype=torch.bool).tril(done)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).flatten(2), (k, v)


class Store(nn.Module):
    """Causal.  kept: a dict, {} to begin with, which the call fills for the next one."""

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, kept):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if kept:
            k, v = torch.cat([kept["k"], k], 2), torch.cat([kept["v"], v], 2)
        kept["k"], kept["v"] = k, v
        s = q @ k.mT / q.shape[-1] ** 0.5
        seen = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
        return (s.masked_fill(~seen, -torch.inf).softmax(-1) @ v).transpose(1, 2).flatten(2)


def draft(new, old, w, n=2):
    """new (B, T, D): tokens behind others.  old: (keys, values) of these P, each (B, n, P, D // n).

    w: matrices (D, D) by their names "q", "k", "v".  A token sees all old ones, and new ones up to itself.
    """
    q, k, v = ((new @ w[name]).unflatten(-1, (n, -1)).transpose(1, 2) for name in "qkv")
    k, v = torch.cat([old[0], k], 2), torch.cat([old[1], v], 2)
    T, S = q.shape[-2], k.shape[-2]
    seen = torch.ones(T, S, dtype=torch.bool).tril(diagonal=S - T)
    s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -torch.inf)
    return (s.softmax(-1) @ v).transpose(1, 2).flatten(2), (k, v)


def cut(x, W, b, heads):
    y = x @ W + b
    return y.reshape(*y.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def asks(terms, past, alive, net, heads=2):
    """terms (B, T, D); past (B, S, D); alive (B, S) 1 = may be used, 0 = deleted, and at least one is used

    net: {"q": (W, b), "k": (W, b), "v": (W, b)}
    """
    q, k, v = cut(terms, *net["q"], heads), cut(past, *net["k"], heads), cut(past, *net["v"], heads)
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    p = softmax(np.where(alive[:, None, None] == 1, s, -np.inf))
    return (p @ v).transpose(0, 2, 1, 3).reshape(terms.shape)


def one_step(q, cache, layer, keep=None):
    """One step.  Heads 0..g-1 of q belong to head 0 of the keys, and the next g to head 1.

    q      [batch, q_heads, 1, dim]
    cache  dict layer -> (k, v), each [batch, kv_heads, tokens, dim]
    keep   [batch, tokens] bool, True for tokens that count (one at least)
    """
    k, v = cache[layer]
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    s = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
    if keep is not None:
        s = s.masked_fill(~keep[:, None, None], -torch.inf)
    return s.softmax(-1) @ v


class Layers(nn.Module):
    """Layers of ice, of which old and young ones see less of each other.  x (B, N, dim), age (B, N)"""

    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)
        self.register_buffer("slopes", 2.0 ** (-8 * torch.arange(1, heads + 1) / heads))

    def forward(self, x, age):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        apart = (age[:, :, None] - age[:, None]).abs()
        s = q @ k.mT / q.shape[-1] ** 0.5
        s = s - self.slopes[:, None, None] * apart[:, None]
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Song(nn.Module):
    """live (B, T) bool, False = padding, which nobody sees.  A frame sees `span` frames to the left and the right."""

    def __init__(self, dim=18, heads=3, span=2):
        super().__init__()
        self.heads, self.span, self.qkv = heads, span, nn.Linear(dim, 3 * dim)

    def forward(self, x, live):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        t = torch.arange(x.shape[1])
        near = (t[:, None] - t).abs() <= self.span
        near = near & live[:, None, None, :]
        s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~near, torch.finfo(q.dtype).min)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2) * live[..., None]


def shares(x):
    y = x.reshape(-1, x.shape[-1])
    y = np.exp(y - y.max(axis=1, keepdims=True))
    return (y / y.sum(axis=1, keepdims=True)).reshape(x.shape)


def ranks(wanted, offered, details):
    """wanted (n, T, d), offered (n, S, d), details (n, S, e)"""
    s = np.einsum("ntd,nsd->nts", wanted, offered) / wanted.shape[-1] ** 0.5
    return np.einsum("nts,nse->nte", shares(s), details)
'''
TOP_LEFT = "causal_top_left"
BOTH = [
    ("talks", "/ q.shape[-1] ** 0.5\n        n, m", "\n        n, m", {"scale_missing": "s = q @ k.mT"}),
    ("Record", "q.shape[-1] ** 0.5).masked_fill(F.pad", "q.shape[-2] ** 0.5).masked_fill(F.pad",
     {"scale_seqlen": "q.shape[-2]"}),
    ("Signal", '"bhts,bshd->bthd"', '"bhts,bshd->bhtd"', {"merge_view": "y.reshape"}),
    ("Stream", "(turned(y, done)", "(turned(y, 0)", {"rope_offset": "turned"}),
    ("Store", ".tril(s.shape[-1] - s.shape[-2])", ".tril()", {TOP_LEFT: ".tril()"}),
    ("draft", ".tril(diagonal=S - T)", ".tril(diagonal=0)", {TOP_LEFT: "diagonal=0"}),
    ("asks", "softmax(np.where(alive[:, None, None] == 1, s, -np.inf))", "softmax(s) * alive[:, None, None]",
     {"mask_after_softmax": "softmax(s) * alive"}),
    ("one_step", "x.repeat_interleave(q.shape[1] // k.shape[1], dim=1)", "x.repeat(1, q.shape[1] // k.shape[1], 1, 1)",
     {"gqa_tile": "x.repeat"}),
    ("Layers", "s = s - self", "s = s + self", {"alibi_sign": "s = s + self"}),
    ("Song", "<= self.span", "< self.span", {"window_off_by_one": "< self.span"}),
    ("Song", "live[:, None, None, :]", "live[:, None, :, None]", {"pad_on_query": "live[:, None, :, None]"}),
    ("ranks", "y = x.reshape(-1, x.shape[-1])", "y = x.reshape(len(x), -1)", {"softmax_global": "len(x), -1"}),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH, right=("talking",))
