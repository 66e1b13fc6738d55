"""What several attentions, tuples, lists and recurrent layers are given, and what is read of each."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import math

import numpy as np
import torch
from torch import nn


class Captions(nn.Module):
    """
    words      (B, T, D)  caption so far
    regions    (B, R, D)
    region_ok  (B, R) bool, True for a real region, False for padding; only real regions may be attended
    """

    def __init__(self, d_model=16, heads=4):
        super().__init__()
        self.own = nn.MultiheadAttention(d_model, heads, batch_first=True)
        self.other = nn.MultiheadAttention(d_model, heads, batch_first=True)

    def forward(self, words, regions, region_ok):
        T = words.size(1)
        later = torch.ones(T, T, dtype=torch.bool).triu(1)
        x = words + self.own(words, words, words, attn_mask=later, need_weights=False)[0]
        return x + self.other(x, regions, regions, key_padding_mask=~region_ok)[0]


class Translator(nn.Module):
    """
    word    : (batch,)             previous word
    hidden  : (layers, batch, H)   state of the GRU
    enc_out : (batch, src_len, H)  encoder states
    src_pad : (batch, src_len) bool, True where src is padding
    """

    def __init__(self, vocab, emb_dim, hid_dim, n_layers=1):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb_dim)
        self.rnn = nn.GRU(emb_dim, hid_dim, n_layers, batch_first=True)
        self.general = nn.Linear(hid_dim, hid_dim, bias=False)
        self.join = nn.Linear(2 * hid_dim, hid_dim)
        self.out = nn.Linear(hid_dim, vocab)

    def forward(self, word, hidden, enc_out, src_pad):
        output, hidden = self.rnn(self.embedding(word).unsqueeze(1), hidden)
        h = output.squeeze(1)
        energies = torch.bmm(self.general(enc_out), h.unsqueeze(2)).squeeze(2)
        weights = energies.masked_fill(src_pad, -1e10).softmax(dim=-1)
        context = torch.bmm(weights.unsqueeze(1), enc_out).squeeze(1)
        made = torch.tanh(self.join(torch.cat((context, h), dim=1)))
        return self.out(made).log_softmax(dim=1), hidden, weights


class Decoder(nn.Module):
    """
    state   (1, hidden)
    annotations  (max_length, hidden)
    n       int, how many annotations there are; the others get no weight
    """

    def __init__(self, hidden_size, max_length=10):
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.energy = nn.Linear(hidden_size, 1)
        self.attn = nn.Linear(hidden_size, max_length)
        self.join = nn.Linear(2 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, 20)

    def forward(self, state, annotations, n):
        energy = self.energy(torch.tanh(self.query(state) + self.key(annotations))).transpose(0, 1)
        energy = energy.masked_fill(torch.arange(energy.size(1)) >= n, float("-inf"))
        weights = energy.softmax(dim=1)
        context = torch.bmm(weights.unsqueeze(0), annotations.unsqueeze(0))[0]
        return self.out(torch.relu(self.join(torch.cat((state, context), 1)))).log_softmax(dim=1), weights


def local(q, k, v, positions, window):
    """
    q          [B, T, N, H]  N query heads
    k, v       [B, S, K, H]  K kv heads, N % K == 0; head n uses kv head n // (N // K)
    positions  ([B, T], [B, S]) int32 positions of the queries and of the keys
    window     a query at position p sees the keys at p - window + 1 ... p (window keys, itself among them)
    """
    B, T, N, H = q.shape
    K = k.shape[2]
    q_pos, k_pos = positions
    scores = np.einsum("btkgh,bskh->btkgs", q.reshape(B, T, K, N // K, H), k) / math.sqrt(H)
    apart = q_pos[:, :, None] - k_pos[:, None, :]
    seen = (apart >= 0) & (apart < window)
    scores = np.where(seen[:, :, None, None, :], scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p = p / p.sum(-1, keepdims=True)
    return np.einsum("btkgs,bskh->btkgh", p, v).reshape(B, T, N, H)
'''
LISTS = '''
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def pool(rows, W, b, ctx):
    scores = [dot([math.tanh(dot(w, h) + bias) for w, bias in zip(W, b)], ctx) for h in rows]
    top = max(scores)
    powers = [math.exp(x - top) for x in scores]
    alpha = [e / sum(powers) for e in powers]
    return [sum(a * h[i] for a, h in zip(alpha, rows)) for i in range(len(rows[0]))], alpha


def review(sentences, word, sent):
    """Pools the words of each sentence with word = (W, b, ctx), then these with sent (the same kind of triple)."""
    return pool([pool(s, *word)[0] for s in sentences], *sent)
'''
NAMES = ("Captions", "Translator", "Decoder", "local")
BOTH = [
    ("Captions", "=~region_ok", "=region_ok", {"mask_inverted": "=region_ok"}),
    ("Translator", ".softmax(dim=-1)", ".softmax(dim=0)  # here", "softmax_axis_head_or_batch"),
    (
        "Decoder", "self.energy(torch.tanh(self.query(state) + self.key(annotations))).transpose(0, 1)",
        "self.attn(state)  # here", "additive_ignores_keys",
    ),
    ("local", "(apart < window)", "(apart <= window)  # here", "window_off_by_one"),
    ("review", "math.exp(x - top)", "math.exp(x)", {"no_max": "math.exp(x)"}),
]  # fmt: skip
test_right, test_wrong = right_and_wrong({**dict.fromkeys(NAMES, SOURCE), "review": LISTS}, BOTH)
