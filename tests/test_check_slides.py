"""What seemed wrong and is not: ranges that are told, rows of nothing, states of zeros, what lies outside."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def head(memory, key, beta, gate, shift, gamma, last):
    """memory (B, N, W), key (B, W), beta (B,) > 0, gate (B,) in (0, 1), shift (B, 3) a distribution,
    gamma (B,) >= 1, last (B, N) sums to 1.  Returns (B, W)."""
    w = F.softmax(beta[:, None] * F.cosine_similarity(memory, key[:, None], dim=-1), 1)
    w = gate[:, None] * w + (1 - gate[:, None]) * last
    w = (torch.stack([torch.roll(w, -1, 1), w, torch.roll(w, 1, 1)], 2) * shift[:, None]).sum(2)
    w = w ** gamma[:, None]
    w = w / w.sum(1, keepdim=True)
    return torch.einsum("bn,bnw->bw", w, memory)


def captions(regions, words, n_words, lam=9.0):
    """regions (B, R, D), words (B, L, D) right-padded, n_words (B,) real words, 1 .. L -> (B, L, D).

    Each word reads the regions, by cosines that are divided by their norm over the words."""
    s = F.normalize(words, dim=-1) @ F.normalize(regions, dim=-1).transpose(1, 2)
    real = (torch.arange(words.size(1)) < n_words[:, None]).to(words.dtype)
    s = F.normalize(F.leaky_relu(s, 0.1) * real[:, :, None], dim=1)
    return torch.softmax(lam * s, dim=-1) @ regions


class Scribe(nn.Module):
    """frames (B, T, E), lengths (B,) frames that are real, 1 .. T, tokens (B, S) -> (B, S, vocab)"""

    def __init__(self, vocab, E=24, D=20, A=16):
        super().__init__()
        self.emb, self.cell, self.out = nn.Embedding(vocab, D), nn.GRUCell(D + E, D), nn.Linear(D + E, vocab)
        self.W, self.V, self.U = nn.Linear(D, A), nn.Linear(E, A, bias=False), nn.Linear(4, A, bias=False)
        self.conv, self.w = nn.Conv1d(1, 4, 3, padding=1, bias=False), nn.Linear(A, 1, bias=False)

    def forward(self, frames, lengths, tokens):
        real = (torch.arange(frames.size(1)) < lengths[:, None]).to(frames.dtype)
        a, s, steps = real / lengths[:, None], frames.new_zeros(len(frames), self.cell.hidden_size), []
        for y in self.emb(tokens).unbind(1):
            where = self.U(self.conv(a[:, None]).transpose(1, 2))
            e = torch.tanh(self.V(frames) + where + self.W(s)[:, None])
            a = self.w(e).squeeze(-1).softmax(1) * real
            a = a / a.sum(1, keepdim=True).clamp_min(1e-12)
            c = (a[..., None] * frames).sum(1)
            s = self.cell(torch.cat([y, c], -1), s)
            steps.append(self.out(torch.cat([s, c], -1)))
        return torch.stack(steps, 1)


def look(q, img, pad):
    """q (B, Q, D), img (B, P, D); pad (B, P) bool, True outside the real picture."""
    return F.scaled_dot_product_attention(q, img, img, attn_mask=~pad[:, None])


class Bonds(nn.Module):
    """x (B, N, F); adj (B, N, N): adj has a 1 on the diagonal, and need not be symmetric.

    The coefficients of each atom i over the atoms j that it hears sum to 1."""

    def __init__(self, F_in, F_out, heads=2):
        super().__init__()
        self.h, self.f = heads, F_out
        self.W = nn.Linear(F_in, heads * F_out, bias=False)
        self.a, self.b = nn.Linear(F_out, 1, bias=False), nn.Linear(F_out, 1, bias=False)

    def forward(self, x, adj):
        z = self.W(x).view(*x.shape[:2], self.h, self.f)
        e = F.leaky_relu(self.a(z).squeeze(-1)[:, :, None] + self.b(z).squeeze(-1)[:, None], 0.2)
        w = torch.where(adj[..., None] > 0, e, -9e15).softmax(2)
        return torch.einsum("bijh,bjhf->bihf", w, z).flatten(2)


class Edges(nn.Module):
    """x (N, D) nodes, edges (2, E) int64: edges[0] = source, edges[1] = target."""

    def __init__(self, D=12, heads=3):
        super().__init__()
        self.h, self.d = heads, D // heads
        self.q, self.k, self.v = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x, edges):
        a, b = edges
        q, k, v = (f(x).view(len(x), self.h, self.d) for f in (self.q, self.k, self.v))
        e = (q[b] * k[a]).sum(-1) / self.d**0.5
        e = (e - e.max()).exp()
        w = e / e.new_zeros(len(x), self.h).index_add(0, b, e)[b]
        return torch.zeros_like(v).index_add(0, b, w[..., None] * v[a]).flatten(1)


def slopes(n):
    return 2.0 ** (-8.0 * np.arange(1, n + 1) / n)


def far(each, L):
    return each[:, None, None] * -np.abs(np.arange(L)[:, None] - np.arange(L))


def alibi(q, k, v):
    """q, k, v (H, L, d), H a power of two; ALiBi."""
    H, L, d = q.shape
    s = q @ k.transpose(0, 2, 1) / d**0.5 + far(slopes(H), L)
    s = np.where(np.tri(L, dtype=bool), s, -np.inf)
    s = np.exp(s - s.max(-1, keepdims=True))
    return s / s.sum(-1, keepdims=True) @ v


class Shelves:
    def __init__(self):
        self.shelves, self.memo = {}, {}

    def add(self, name, keys, values):
        """keys (N, d), values (N, e)."""
        self.shelves[name] = keys, values
        self.memo.pop(name, None)

    def weights(self, name, questions):
        asked = name, questions.tobytes()
        if asked not in self.memo:
            s = questions @ self.shelves[name][0].T / questions.shape[1] ** 0.5
            e = np.exp(s - s.max(-1, keepdims=True))
            self.memo[asked] = e / e.sum(-1, keepdims=True)
        return self.memo[asked]

    def read(self, name, questions):
        """questions (M, d) -> (M, e)"""
        return self.weights(name, questions) @ self.shelves[name][1]
'''
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("head", "dim=-1), 1)", "dim=-1), 0)", "unknown"),
    ("captions", "real[:, :, None], dim=1)", "real[:, None], dim=1)", {"mask_times_scores": "real"}),
    ("Scribe", "e = torch.tanh(", "e = (", {"additive_no_tanh": "where"}),
    ("look", "~pad", "pad", {"mask_inverted": "attn_mask"}),
    ("Bonds", "softmax(2)", "softmax(1)", {"softmax_axis_q": "softmax(1)"}),
    ("Edges", "e / e.new_zeros(len(x), self.h).index_add(0, b, e)[b]", "e / e.sum(0)", {"softmax_global": "e.sum(0)"}),
    ("alibi", "np.arange(1, n + 1)", "np.arange(n)", {"alibi_slopes": "np.arange(n) / n"}),
    ("Shelves.read", "asked = name, questions.tobytes()", "asked = name", {"cache_key": "asked = name"}),
]


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
