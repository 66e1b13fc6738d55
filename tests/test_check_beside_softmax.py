"""Mistakes that stand beside a softmax: what is chosen, fetched, counted, shared by heads, dropped, and bent."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def chosen(q, k, v, n=3):
    """q (B, d), k, v (B, S, d). Only the n keys with the highest scores are attended to."""
    scores = torch.einsum("bd,bsd->bs", q, k) / q.shape[-1] ** 0.5
    taken = scores.topk(n, largest=True).indices
    weights = scores.gather(1, taken).softmax(-1)
    return torch.einsum("bn,bnd->bd", weights, v.gather(1, taken[..., None].expand(-1, -1, v.shape[-1])))


def hidden(q, k, v, n=3):
    """q, k, v (B, T, d). Of the keys only the n with the highest scores are seen."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    gone = scores.topk(scores.shape[-1] - n, largest=False).indices
    return scores.scatter(-1, gone, -torch.inf).softmax(-1) @ v


def fetched(q, k_pages, v_pages, block_table, lengths):
    """q (B, H, d); k_pages, v_pages (P, S, H, d); block_table (B, M) int; lengths (B,): tokens of each."""
    k = k_pages[block_table].flatten(1, 2)
    v = v_pages[block_table].flatten(1, 2)
    scores = torch.einsum("bhd,bthd->bht", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(torch.arange(k.shape[1])[None, None] >= lengths[:, None, None], -torch.inf)
    return torch.einsum("bht,bthd->bhd", scores.softmax(-1), v)


def recent(q, keys, values, t, window):
    """One step.

    q       (H, d)     the query at position t
    keys    (N, H, d)  position p in row p; what stands behind t is not written yet
    values  (N, H, d)
    window  int        how many tokens it sees, itself included
    """
    p = np.arange(len(keys))
    seen = (p <= t) & (t - p < window)
    scores = np.einsum("hd,nhd->hn", q, keys) / q.shape[-1] ** 0.5
    return np.einsum("hn,nhd->hd", softmax(np.where(seen, scores, -np.inf)), np.where(seen[:, None, None], values, 0))


def shared(w, x, heads, kv_heads):
    """w: q (D, H*d), k (D, G*d), v (D, G*d), o (H*d, D); x (B, L, D). H = heads, G = kv_heads."""
    B, L, D = x.shape
    d = w["q"].shape[1] // heads
    q = (x @ w["q"]).reshape(B, L, heads, d)
    k, v = ((x @ w[name]).reshape(B, L, kv_heads, d) for name in "kv")
    k, v = (np.repeat(z, heads // kv_heads, axis=2) for z in (k, v))
    p = softmax(np.einsum("bqhd,bkhd->bhqk", q, k) / d**0.5)
    return np.einsum("bhqk,bkhd->bqhd", p, v).reshape(B, L, -1) @ w["o"]


class Bag(nn.Module):
    """x (B, N, D) -> (B, D), and the weights (B, N)."""

    def __init__(self, width):
        super().__init__()
        self.hidden, self.score = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        a = self.score(torch.tanh(self.hidden(x))).squeeze(-1)
        weights, drop = a.softmax(-1), F.dropout
        return torch.einsum("bn,bnd->bd", drop(weights, 0.2, self.training), x), weights


class Packed(nn.Module):
    """x (B, T, D). The outputs of qkv belong to head 0 (d of q, then d of k, then d of v), then to head 1 and so on."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, self.heads, 3, -1).permute(3, 0, 2, 1, 4)
        y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, D))


class Step(nn.Module):
    """state (B, D), memory (B, S, D) -> (B, D), (B, S).

    e_t = v . tanh(W [s ; m_t]), c = sum_t a_t m_t, h~ = tanh(W_c [s ; c]).
    """

    def __init__(self, width):
        super().__init__()
        self.W, self.v, self.wc = nn.Linear(2 * width, width), nn.Linear(width, 1), nn.Linear(2 * width, width)

    def forward(self, state, memory):
        asked = state[:, None].expand_as(memory)
        a = self.v(torch.tanh(self.W(torch.cat([asked, memory], -1)))).squeeze(-1).softmax(-1)
        context = torch.einsum("bs,bsd->bd", a, memory)
        return torch.tanh(self.wc(torch.cat([state, context], -1))), a
'''
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("chosen", "largest=True", "largest=False", "unknown"),
    ("fetched", "v_pages[block_table].flatten(1, 2)", "v_pages[block_table[0]].flatten(0, 1)[None].expand_as(k)",
     "unknown"),
    ("recent", "t - p < window", "t - p <= window", "window_off_by_one"),
    ("recent", "np.where(seen[:, None, None], values, 0)", "values", "nan_in_masked_value"),
    ("shared", "np.repeat(z, heads // kv_heads, axis=2)", "np.tile(z, (1, heads // kv_heads, 1, 1)).reshape(q.shape)",
     "gqa_repeat_wrong_axis"),
    ("Bag", "a.softmax(-1), F.dropout", "F.dropout(a.softmax(0), 0.2, self.training), lambda x, *_: x",
     {"softmax_axis_head_or_batch": "", "weights_after_dropout": ""}),
    ("Packed", "self.heads, 3, -1).permute(3, 0, 2, 1, 4)", "3, self.heads, -1).permute(2, 0, 3, 1, 4)", "qkv_order"),
    ("Step", "torch.tanh(self.wc(torch.cat([state, context], -1)))", "self.wc(torch.cat([state, context], -1))",
     "luong_no_tanh_out"),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH, right=("hidden",))
