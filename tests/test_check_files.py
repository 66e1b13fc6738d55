"""What a whole file says, and how its parts are called: segments, pairs, keys of weights, images, masks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Mistakes = Callable[[str], list[str]]

SOURCE = '''"""Masks are additive: 0.0 at words, -inf at padding."""

import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def segment_softmax(logits, seg, n):
    """over the edges with one target"""
    top = np.full((n, *logits.shape[1:]), -np.inf)
    np.maximum.at(top, seg, logits)
    powers = np.exp(logits - top[seg])
    total = np.zeros_like(top)
    np.add.at(total, seg, powers)
    return powers / total[seg]

def half_shifted(logits, seg, n):
    """over the edges with one target"""
    top = np.full((n, *logits.shape[1:]), -np.inf)
    np.maximum.at(top, seg, logits)
    total = np.zeros_like(top)
    np.add.at(total, seg, np.exp(logits))
    return np.exp(logits - top[seg]) / total[seg]

def unshifted(logits, seg, n):
    total = torch.zeros(n, *logits.shape[1:], dtype=logits.dtype).index_add(0, seg, logits.exp())
    return logits.exp() / total[seg]

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def remembered(x, kv, heads):
    """x [B, T, C]; scaled by d**-0.25 on both sides"""
    k, v = kv
    q = x.reshape(*x.shape[:2], heads, -1)
    each = q.shape[-1] ** -0.25
    s = np.einsum("bthd,bfhd->bhtf", q * each, k * each)
    return np.einsum("bhtf,bfhd->bthd", softmax(s), v).reshape(x.shape)

def at_a_layer(x, w, layer):
    """x [T, C]"""
    p = f"layers.{layer}.attention."
    q, k, v = (x @ w[p + name] for name in ("wq", "wk", "wv"))
    return softmax(q @ k.T / math.sqrt(q.shape[-1])) @ v @ w[p + "wo"]

class Maps(nn.Module):
    """The weights of each head over the pixels of a map."""
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.q, self.k = heads, nn.Linear(width, width), nn.Conv2d(width, width, 1)

    def forward(self, queries, features):
        H, W = features.shape[-2:]
        q = self.q(queries).unflatten(-1, (self.heads, -1))
        k = self.k(features).unflatten(1, (self.heads, -1)).flatten(-2)
        return (torch.einsum("bqnc,bncs->bqns", q, k) / math.sqrt(q.shape[-1])).softmax(-1).unflatten(-1, (H, W))

class Added(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, attn_mask):
        """x (B, L, C), attn_mask (B, 1, L)"""
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT * q.shape[-1] ** -0.5 + attn_mask).softmax(-1) @ v

class Cast(Added):
    def forward(self, x, attn_mask):
        """x (B, L, C), attn_mask (B, 1, L)"""
        q, k, v = self.qkv(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask.bool().expand(-1, x.shape[1], -1))

def in_buckets(q, v, buckets):
    """q (T, D), v (T, C), buckets (T,) of integers.  No later token is seen."""
    k = q / np.linalg.norm(q, axis=-1, keepdims=True)
    at = np.arange(len(q))
    s = q @ k.T / math.sqrt(q.shape[-1])
    s = np.where((at[:, None] < at) | (buckets[:, None] != buckets), -np.inf, s)
    return softmax(np.where(at[:, None] == at, -1e5, s)) @ v

def piece(q, k, v, many):
    s = torch.einsum("bhd,bshd->bhs", q, k) * q.shape[-1] ** -0.5 / math.log(2)
    gone = torch.arange(k.shape[1]) >= many[:, None]
    s = s.masked_fill(gone[:, None], -math.inf)
    top = s.amax(-1, keepdim=True).clamp_min(-1e30)
    e = torch.exp2(s - top)
    total = e.sum(-1, keepdim=True)
    out = torch.einsum("bhs,bshd->bhd", e, v) / total.clamp_min(1e-30)
    return out, (top + torch.log2(total))[..., 0]  # to the base 2

def in_pieces(q, k, v, lengths, power):
    step, outs, sums = 2, [], []
    for at in range(0, k.shape[1], step):
        many = (lengths - at).clamp(0, step)
        out, lse = piece(q, k[:, at : at + step], v[:, at : at + step], many)
        outs.append(out)
        sums.append(lse)
    outs, sums = torch.stack(outs), torch.stack(sums)
    w = power(sums - sums.amax(0))
    return (outs * w[..., None]).sum(0) / w.sum(0)[..., None]

def of_base_2(q, k, v, lengths):
    """q [B, H, d], k and v [B, T, H, d], lengths [B]"""
    return in_pieces(q, k, v, lengths, torch.exp2)

def of_base_e(q, k, v, lengths):
    """q [B, H, d], k and v [B, T, H, d], lengths [B]"""
    return in_pieces(q, k, v, lengths, torch.exp)

def attends(x, qkv, past=None):
    x = x @ qkv["w"] + qkv["b"]
    q, k, v = np.split(x, 3, -1)
    k, v = (k, v) if past is None else (np.vstack([past[0], k]), np.vstack([past[1], v]))
    i, j = np.arange(len(q))[:, None] + len(k) - len(q), np.arange(len(k))
    return softmax(np.where(j <= i, q @ k.T / math.sqrt(q.shape[-1]), -1e10)) @ v, (k, v)

def one_of_many(x, qkv, past=None):
    """x [T, C].  Causal; with the keys and values of tokens before, x holds those that come after them."""
    return attends(x, qkv, past)

def weights_of_all(vocab=50, d=16, seed=0):
    r = np.random.default_rng(seed)
    return {"words": r.normal(size=(vocab, d)), "qkv": {"w": r.normal(size=(d, 3 * d)), "b": r.normal(size=3 * d)}}
'''


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("segment_softmax", []),
        ("half_shifted", ["softmax_partial_max"]),
        ("unshifted", ["no_max"]),
        ("remembered", []),
        ("at_a_layer", []),
        ("Maps", []),
        ("Added", []),
        ("Cast", ["mask_float_as_bool"]),
        ("in_buckets", []),
        ("of_base_2", []),
        ("of_base_e", ["lse_base2"]),
        ("one_of_many", []),
    ],
)
def test_each(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted
