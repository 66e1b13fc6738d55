"""What is documented by its calls, as wide as what it was made with, or kept from one step of a search to the next."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
"""
merge(X, A, O, n): X is (l, c), A is (c, 3c) [q|k|v], O is (c, c), n heads.  Causal.
every(X, A, O, n, m): the same of a batch X (b, l, c), where m (b,) are the true lengths; other rows are zero.
Listen.forward(word (N,), hidden (N, H), enc (N, L, H), src_mask (N, L)): one word each
    src_mask is 1.0 for words, 0.0 for padding; L <= room.
"""
import numpy as np
import torch
from torch import nn


def merge(X, A, O, n):
    l, c = X.shape
    q, k, v = (X @ A).reshape(l, 3, n, c // n).transpose(1, 2, 0, 3)
    s = q @ k.transpose(0, 2, 1) / (c // n) ** 0.5
    s[:, ~np.tri(l, dtype=bool)] = -np.inf
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.swapaxes(e / e.sum(-1, keepdims=True) @ v, 0, 1).reshape(l, c) @ O


def every(X, A, O, n, m):
    R = np.zeros(X.shape, X.dtype)
    for i, (x, k) in enumerate(zip(X, m)):
        R[i, :k] = merge(x[:k], A, O, n)
    return R


class Listen(nn.Module):
    def __init__(self, H, V, room=12):
        super().__init__()
        self.emb, self.ask, self.key, self.v = nn.Embedding(V, H), nn.Linear(2 * H, H), nn.Linear(H, H), nn.Linear(H, 1)
        self.place, self.cell, self.out = nn.Linear(2 * H, room), nn.GRUCell(2 * H, H), nn.Linear(H, V)

    def forward(self, word, hidden, enc, src_mask):
        e = self.emb(word)
        both = torch.cat((e, hidden), 1)
        scores = self.v(torch.tanh(self.ask(both)[:, None] + self.key(enc)))[..., 0]
        weights = scores.masked_fill(src_mask == 0, -torch.inf).softmax(1)
        context = torch.bmm(weights[:, None], enc)[:, 0]
        return self.out(self.cell(torch.cat((e, context), 1), hidden)), weights


class Match(nn.Module):
    """
    state (B, D), memory (B, S, E), blank (B, S) bool: True where there is nothing, which gets no weight
    """
    def __init__(self, enc, dec):
        super().__init__()
        self.W, self.v = nn.Linear(enc + dec, dec), nn.Linear(dec, 1, bias=False)

    def forward(self, state, memory, blank):
        s = state[:, None].expand(-1, memory.size(1), -1)
        e = self.v(torch.tanh(self.W(torch.cat((s, memory), dim=2))))[..., 0]
        return e.masked_fill(blank, -torch.inf).softmax(dim=1)


class Step(nn.Module):
    """word (B,), state (B, D), memory (B, S, E), blank (B, S) -> logits, state"""
    def __init__(self, words=50, small=12, enc=20, dec=16):
        super().__init__()
        self.emb, self.match = nn.Embedding(words, small), Match(enc, dec)
        self.cell, self.out = nn.GRUCell(small + enc, dec), nn.Linear(dec, words)

    def forward(self, word, state, memory, blank):
        context = (self.match(state, memory, blank)[..., None] * memory).sum(1)
        state = self.cell(torch.cat((self.emb(word), context), 1), state)
        return self.out(state), state


class Luong(nn.Module):
    """forward(word, hidden, enc): word (B,) ids; hidden (layers, B, H); enc (B, S, H), all of it words"""
    def __init__(self, vocab, H, layers=1):
        super().__init__()
        self.emb, self.gru = nn.Embedding(vocab, H), nn.GRU(H, H, layers, batch_first=True)
        self.wa, self.wc = nn.Linear(H, H, bias=False), nn.Linear(2 * H, H)

    def forward(self, word, hidden, enc):
        out, hidden = self.gru(self.emb(word)[:, None], hidden)
        context = (out @ self.wa(enc).mT).softmax(-1) @ enc
        return torch.tanh(self.wc(torch.cat((context, out), -1))), hidden


class Memory(nn.Module):
    """
    begin(rows)  forgets all;  y = layer.tell(x)  x (rows, dim), the newest token of each
    follow(parents)  parents (rows,): the row that each goes on with
    """
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.k, self.v = heads, nn.Linear(dim, 3 * dim), None, None

    def begin(self, rows):
        self.k = self.v = self.qkv.weight.new_zeros(rows, self.heads, 0, self.qkv.in_features // self.heads)

    def tell(self, x):
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, 1, -1).unbind(1)
        self.k, self.v = torch.cat([self.k, k], 2), torch.cat([self.v, v], 2)
        return ((q @ self.k.mT / q.shape[-1] ** 0.5).softmax(-1) @ self.v).flatten(1)

    def follow(self, parents):
        self.k, self.v = self.k[parents], self.v[parents]


class Filled(nn.Module):
    """x (N, dim), the newest token; state {} at first, and filled here; parent (N,): what each goes on with, or None"""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, state, parent=None):
        q, k, v = self.qkv(x).view(len(x), 3, self.heads, 1, -1).unbind(1)
        if "k" in state:
            old_k, old_v = state["k"], state["v"]
            if parent is not None:
                old_k, old_v = old_k[parent], old_v[parent]
            k, v = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
        state["k"], state["v"] = k, v
        return ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).flatten(1)
'''
NAMES = ["every", "Listen", "Step", "Luong", "Memory", "Filled"]
LINE = "scores.masked_fill(src_mask == 0, -torch.inf).softmax(1)"
KEYS = "self.v(torch.tanh(self.ask(both)[:, None] + self.key(enc)))[..., 0]\n        weights = " + LINE
BOTH = [
    ("every", "/ (c // n) ** 0.5", "/ c ** 0.5", "scale_dmodel"),
    ("Listen", KEYS, "self.place(both)[:, : enc.shape[1]]\n        weights = scores.softmax(1) * src_mask",
     {"additive_ignores_keys": "self.place", "mask_after_softmax": "* src_mask"}),
    ("Step", "masked_fill(blank", "masked_fill(~blank", "mask_inverted"),
    ("Luong", "torch.tanh(self.wc(torch.cat((context, out), -1)))", "self.wc(torch.cat((context, out), -1))",
     "luong_no_tanh_out"),
    ("Memory", "self.k[parents], self.v[parents]", "self.k[parents], self.v", "unknown"),
    ("Filled", "old_k[parent], old_v[parent]", "old_k, old_v[parent]", {"unknown": "old_v[parent]"}),
]  # fmt: skip
test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
