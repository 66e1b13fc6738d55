"""Who is hidden, and what is said of it: other languages, windows of documents, maps of weights, offsets, dropout."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Uren(nn.Module):
    """
    x       (B, T, D)
    geldig  (B, T) bool  True = er is een echte meting, False = aanvulling
    """

    def __init__(self, d, h):
        super().__init__()
        self.att, self.norm = nn.MultiheadAttention(d, h, batch_first=True), nn.LayerNorm(d)

    def forward(self, x, geldig):
        return self.norm(x + self.att(x, x, x, key_padding_mask=~geldig)[0])


class Attend(nn.Module):
    def __init__(self, d, h, causal=False):
        super().__init__()
        self.h, self.causal = h, causal
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, y, real=None):
        q = self.q(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.kv(y).chunk(2, -1))
        s = q @ k.mT / q.shape[-1] ** 0.5
        if real is not None:
            s = s.masked_fill(~real[:, None, None], -torch.inf)
        if self.causal:
            s = s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Translator(nn.Module):
    """
    src       (B, S) índices
    src_real  (B, S) bool, True = palabra real
    tgt       (B, T) índices; los logits de t dependen de tgt[:, :t+1] y de src
    """

    def __init__(self, vocab, d=32, h=4):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocab, d), nn.Linear(d, vocab)
        self.enc, self.own, self.cross = Attend(d, h), Attend(d, h, causal=True), Attend(d, h)

    def forward(self, src, src_real, tgt):
        m, y = self.embed(src), self.embed(tgt)
        m = m + self.enc(m, m, src_real)
        y = y + self.own(y, y)
        return self.out(y + self.cross(y, m, src_real))


def softmax(z, axis=-1):
    e = np.exp(z - z.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def near(q, k, v, doc, window):
    """q, k, v (B, T, D); doc (B, T) number of the document of each token.

    window: each token reads itself and the window - 1 tokens of its document before it.
    """
    t = np.arange(q.shape[1])
    back = t[:, None] - t
    hide = (back < 0) | (back >= window) | (doc[:, :, None] != doc[:, None])
    return softmax(np.where(hide, -np.inf, q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5)) @ v


def seen(moves, squares, Wq, Wk, heads):
    """moves (Q, D), squares (S, D), Wq, Wk (D, D) -> (Q, heads, S): of each head numbers that sum to 1."""
    q = (moves @ Wq).reshape(len(moves), heads, -1)
    k = (squares @ Wk).reshape(len(squares), heads, -1)
    s = np.einsum("qhd,shd->qhs", q, k) / q.shape[-1] ** 0.5
    return softmax(s)


class Kept(nn.Module):
    """x (B, T, D); the bias of query i and key j is table[h, i - j + span - 1]."""

    def __init__(self, d, heads, span=32, p=0.2):
        super().__init__()
        self.heads, self.span, self.p = heads, span, p
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.table = nn.Parameter(torch.randn(heads, 2 * span - 1))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        t = torch.arange(x.shape[1])
        away = t[:, None] - t
        s = q @ k.mT / q.shape[-1] ** 0.5 + self.table[:, away + self.span - 1]
        w = s.softmax(-1)
        d = F.dropout(w, self.p, self.training)
        return self.out((d @ v).transpose(1, 2).flatten(2)), w


class Capped(nn.Module):
    def __init__(self, d, heads, cap=20.0):
        super().__init__()
        self.heads, self.cap, self.qkv = heads, cap, nn.Linear(d, 3 * d)

    def forward(self, x):
        """x (B, T, D)"""
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        s = q @ k.mT / (x.shape[-1] // self.heads) ** 0.5
        s = self.cap * torch.tanh(s / self.cap)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)
'''
# The candidate, what is right, what is wrong in its place, what is then told, and what stands in its line.
BOTH = [
    ("Uren", "key_padding_mask=~geldig", "key_padding_mask=geldig", {"mask_inverted": "geldig)"}),
    ("Translator", "Attend(d, h, causal=True)", "Attend(d, h)", {"causal_missing": "softmax"}),
    ("near", "(back >= window)", "(back > window)", {"window_off_by_one": "back > window"}),
    (
        "seen",
        "return softmax(s)\n",
        "return softmax(s.reshape(len(q), -1)).reshape(s.shape)\n",
        {"softmax_heads_and_keys": "reshape(len(q), -1)"},
    ),
    ("Kept", "away = t[:, None] - t", "away = t - t[:, None]", {"unknown": "self.table["}),
    (
        "Kept",
        "d = F.dropout(w, self.p, self.training)",
        "d = w = F.dropout(w, self.p)",
        {"dropout_eval": "dropout", "weights_after_dropout": "dropout"},
    ),
    ("Capped", "(x.shape[-1] // self.heads)", "x.shape[1]", {"scale_seqlen": "q @ k.mT"}),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
