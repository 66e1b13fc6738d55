"""Vectors, biases and tanh of scores, keys in pages of one sequence, windows of Gaussians, kinds of nodes."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

ADDITIVE = '''
import torch
from torch import nn

class Alignment(nn.Module):
    """e_s = v · tanh(W [state ; memory_s]); state (B, D), memory (B, S, D) → (B, D)."""
    def __init__(self, width):
        super().__init__()
        self.both, self.v = nn.Linear(2 * width, width), nn.Parameter(torch.randn(width))

    def forward(self, state, memory):
        state = state[:, None].expand(-1, memory.shape[1], -1)
        energy = torch.tanh(self.both(torch.cat([state, memory], -1))).mT
        v = self.v.expand(len(memory), -1)[:, None]
        return (torch.bmm(v, energy).softmax(-1) @ memory)[:, 0]
'''

PAGED = '''
import numpy as np

def paged(q, k_pool, v_pool, table, seqlen):
    """q (B, Hq, d), pools (n_blocks, page, Hkv, d), table (B, max_blocks) int, seqlen (B,) → (B, Hq, d).

    Grouped queries: consecutive query heads share a key head.
    """
    out, G = np.empty_like(q), k_pool.shape[2]
    for b, (row, n) in enumerate(zip(table, seqlen)):
        blocks = row[row >= 0]
        k, v = (pool[blocks].reshape(-1, G, q.shape[-1])[:n] for pool in (k_pool, v_pool))
        k, v = (np.repeat(x, q.shape[1] // G, axis=1) for x in (k, v))
        s = np.einsum("hd,nhd->hn", q[b], k) / np.sqrt(q.shape[-1])
        p = np.exp(s - s.max(-1, keepdims=True))
        out[b] = np.einsum("hn,nhd->hd", p / p.sum(-1, keepdims=True), v)
    return out
'''

WINDOW = '''
import numpy as np

def window(h, middle, text, W, b):
    """Window of K Gaussians over a text (Graves 2013); its weights do not sum to 1.

    h (B, H), middle (B, K), text (B, U, A) one-hot, W, b (H, 3K), (3K,) → read (B, A), middle (B, K)
    """
    height, sharp, step = np.split(np.exp(h @ W + b), 3, axis=-1)
    middle = middle + step
    away = middle[..., None] - np.arange(text.shape[1])
    weights = (height[..., None] * np.exp(-sharp[..., None] * away**2)).sum(1)
    return (weights[:, None] @ text)[:, 0], middle
'''

TYPED = '''
import torch
from torch import nn

class Typed(nn.Module):
    """Attention along edges between nodes of several kinds.

    x (N, D), node_kind (N,) long, edges (2, E) long: sources, targets; relation (E,) long → (N, D)
    """
    def __init__(self, width=16, heads=2, kinds=3, relations=4):
        super().__init__()
        self.heads, self.d = heads, width // heads
        self.q, self.v = (nn.Linear(width, width) for _ in range(2))
        self.k = nn.ModuleList(nn.Linear(width, width) for _ in range(kinds))
        self.bias = nn.Embedding(relations, heads)

    def keys(self, x, node_kind):
        k = torch.zeros_like(x)
        for t, layer in enumerate(self.k):
            rows = (node_kind == t).nonzero()[:, 0]
            k = k.index_copy(0, rows, layer(x[rows]))
        return k

    def forward(self, x, node_kind, edges, relation):
        s, t = edges
        q, k, v = (y.view(-1, self.heads, self.d) for y in (self.q(x), self.keys(x, node_kind), self.v(x)))
        score = (q[t] * k[s]).sum(-1) / self.d**0.5 + self.bias(relation)
        high = torch.full_like(q[..., 0], -torch.inf).scatter_reduce(0, t[:, None].expand_as(score), score, "amax")
        e = (score - high[t]).exp()
        w = e / torch.zeros_like(q[..., 0]).index_add(0, t, e)[t]
        return torch.zeros_like(q).index_add(0, t, w[..., None] * v[s]).reshape(x.shape)
'''

LATE = '''
import numpy as np

def late(q, k, v, bias):
    """softmax(q kᵀ / √d + bias) v; q, k, v (B, H, T, D), bias (H, T, T)."""
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    s = s + bias
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    return w @ v
'''

SLOTS = '''"""Decoding into slots.

slots(x, cache, pos, w)
    x      (T, D)  tokens of the positions pos … pos+T-1
    cache  dict k, v of shape (S, h, d): slots 0..pos-1 are filled
    pos    int, tokens in the cache
    w      dict q, k, v (D, h, d), o (h, d, D)
returns (T, D), new cache. A token at position p attends to the positions 0..p.
"""
import numpy as np

def slots(x, cache, pos, w):
    q, k, v = (np.einsum("td,dhe->the", x, w[n]) for n in "qkv")
    kept = {"k": cache["k"].copy(), "v": cache["v"].copy()}
    kept["k"][pos : pos + len(x)], kept["v"][pos : pos + len(x)] = k, v
    sees = np.arange(len(kept["k"])) <= pos + np.arange(len(x))[:, None]
    s = np.einsum("the,she->hts", q, kept["k"]) / np.sqrt(q.shape[-1])
    s = np.where(sees, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    y = np.einsum("hts,she->the", p / p.sum(-1, keepdims=True), kept["v"])
    return np.einsum("the,hed->td", y, w["o"]), kept
'''

SOURCE = {"slots": SLOTS, "late": LATE, "Typed": TYPED, "window": WINDOW, "Alignment": ADDITIVE, "paged": PAGED}

BOTH = [
    ("Alignment", "torch.tanh(self.both(torch.cat([state, memory], -1)))",
     "self.both(torch.cat([state, memory], -1))  # here\n        energy = energy", "additive_no_tanh"),
    ("paged", "np.repeat(x, q.shape[1] // G, axis=1)", "np.tile(x, (1, q.shape[1] // G, 1))", "gqa_tile"),
    ("Typed", "/ self.d**0.5", "/ self.d", "scale_d"),
    ("late", "    s = s + bias\n    w = np.exp(s - s.max(-1, keepdims=True))\n    w = w / w.sum(-1, keepdims=True)",
     "    w = np.exp(s - s.max(-1, keepdims=True))\n    w = w / w.sum(-1, keepdims=True)\n    w = w + bias",
     {"unknown": "w = w + bias"}),
    ("slots", "<= pos + np", "<= 1 + pos + np", "causal_off_by_one"),
    ("window", "np.exp(-sharp", "np.exp(sharp", {"unknown": "np.exp(sharp"}),
]  # fmt: skip

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
