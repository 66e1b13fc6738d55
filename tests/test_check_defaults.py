"""What only some numbers show: those that makers have unless told, blocks that divide, as many samples as queries."""

from __future__ import annotations

from swapped import right_and_wrong

SOURCE = '''
"""Attention that only some numbers fit."""
import numpy as np
import torch
from torch import nn


class Bag(nn.Module):
    """tiles (B, N, D), present (B, N) bool, True where there is a tile, False for filling -> (B, K, D).

    K queries that are learned, by a gated score (Ilse et al. 2018).
    """

    def __init__(self, D=24, hidden=12, K=2):
        super().__init__()
        self.V, self.G, self.U = nn.Linear(D, hidden), nn.Linear(D, hidden), nn.Linear(hidden, K)

    def forward(self, tiles, present=None):
        e = self.U(torch.tanh(self.V(tiles)) * torch.sigmoid(self.G(tiles)))
        if present is not None:
            e = e.masked_fill(~present.unsqueeze(-1), -1e9)
        return e.softmax(dim=1).transpose(1, 2) @ tiles


def soft(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def chunks(q, k, v, W=4):
    """q, k, v (T, H, D), T a multiple of W.  Position t attends to W positions in all: itself and the W - 1 before it.

    A chunk of W reads itself and the chunk before.
    """
    T, H, D = q.shape
    n = T // W
    qc, kc, vc = (x.reshape(n, W, H, D) for x in (q, k, v))
    kc, vc = (np.concatenate([np.concatenate([np.zeros_like(x[:1]), x[:-1]]), x], 1) for x in (kc, vc))
    at = np.arange(n)[:, None] * W + np.arange(-W, W)
    lag = np.arange(T).reshape(n, W)[:, :, None] - at[:, None]
    s = np.einsum("nqhd,nkhd->nhqk", qc, kc) / D**0.5
    s = np.where(((lag >= 0) & (lag < W) & (at[:, None] >= 0))[:, None], s, -np.inf)
    return np.einsum("nhqk,nkhd->nqhd", soft(s), vc).reshape(T, H, D)


class Own(nn.Module):
    """tokens (B, L, D), task (B, Z) -> (B, L, D): each sample has weights of its own."""

    def __init__(self, D=32, Z=6, heads=4):
        super().__init__()
        self.heads, self.base, self.gain = heads, nn.Parameter(torch.randn(3, D, D) * D**-0.5), nn.Linear(Z, 3 * D)

    def forward(self, tokens, task):
        B, L, D = tokens.shape
        own = self.base + self.gain(task).view(B, 3, D, 1)
        qkv = torch.einsum("bld,bcde->cble", tokens, own).contiguous()
        q, k, v = qkv.view(3, B, L, self.heads, D // self.heads).transpose(2, 3)
        return ((q @ k.mT / (D // self.heads) ** 0.5).softmax(-1) @ v).transpose(1, 2).reshape(B, L, D)


def make_weights(seed, D=16):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(D, D)) * D**-0.5 for name in ("q", "k", "v", "o")}


def empty(H=2, size=16, d=8):
    return {"k": np.zeros((H, size, d)), "v": np.zeros((H, size, d)), "n": 0}


def rope(x, at):
    """x (H, T, d), at (T,); pairs are (i, i + d/2)."""
    m = x.shape[-1] // 2
    turn = at[:, None] * 10000.0 ** (-np.arange(m) / m)
    a, b = x[..., :m], x[..., m:]
    return np.concatenate([a * np.cos(turn) - b * np.sin(turn), a * np.sin(turn) + b * np.cos(turn)], -1)


def decode(weights, x, cache, H=2):
    """x (T, D), the next T tokens after the cache["n"] tokens seen so far -> y (T, D), the new cache.  Causal.

    Rotary positions go on from the cache, so feeding a text in pieces gives the same as all at once.
    """
    T, D = x.shape
    n, here = cache["n"], np.arange(T)
    q, k, v = ((x @ weights[name]).reshape(T, H, D // H).swapaxes(0, 1) for name in "qkv")
    q, k = rope(q, n + here), rope(k, n + here)
    K, V = cache["k"].copy(), cache["v"].copy()
    K[:, n : n + T], V[:, n : n + T] = k, v
    s = np.where(np.arange(K.shape[1]) <= (n + here)[:, None], q @ K.swapaxes(1, 2) / (D // H) ** 0.5, -np.inf)
    return (soft(s) @ V).swapaxes(0, 1).reshape(T, D) @ weights["o"], {"k": K, "v": V, "n": n + T}


def everywhere(q, k, v, w, some):
    """q,k,v: [H, L, d]

    w     one sided window: i sees j when |i - j| <= w
    some  indices of the tokens that all see
    """
    H, L, d = q.shape
    out = np.empty_like(v)
    for h in range(H):
        for i in range(L):
            js = sorted({*range(max(0, i - w), min(L, i + w + 1))} | {int(g) for g in some})
            out[h, i] = soft(k[h, js] @ q[h, i] / d**0.5) @ v[h, js]
    return out
'''
# A candidate, what is changed in it, and the mistake.
BOTH = [
    ("Bag", "~present.unsqueeze", "present.unsqueeze", "mask_inverted"),
    ("chunks", "(lag < W)", "(lag <= W)", "window_off_by_one"),
    ("Own", ".view(3, B, L, self.heads, D // self.heads).transpose(2, 3)",
     ".view(3, B, self.heads, L, D // self.heads)", "split_view"),
    ("decode", "rope(q, n + here)", "rope(q, here)", "rope_offset"),
    ("everywhere", "q[h, i] / d**0.5", "q[h, i] / d", "scale_d"),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
