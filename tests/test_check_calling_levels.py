"""What a module says of its arguments, lists of several, levels of a pyramid, and attention without a softmax."""

from __future__ import annotations

import pytest

from swapped import right_and_wrong

pytest.importorskip("torch")

# What the module says of several names together, and neighbours that turn as one.
PACKED = '''"""Documents in one row.

    q, k, v : (L, H, d)   one after another
    doc     : (L,) int    number of the document

Scores / sqrt(d); each sees its own document.  Returns (L, H, d).
"""
import numpy as np


def packed(q, k, v, doc):
    s = np.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
    s = np.where(doc[:, None] == doc[None, :], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v)
'''
# The sides of a map in a pair.
POOLED = '''"""Keys and values of a map are pooled.

    forward(tokens, hw)   tokens (B, H*W, C), hw = (H, W), both even  ->  (B, H*W, C)
"""
import torch.nn.functional as F
from torch import nn


class Pooled(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.heads, self.q, self.kv = heads, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, tokens, hw):
        B, N, C = tokens.shape
        small = F.avg_pool2d(tokens.transpose(1, 2).unflatten(2, hw), 2).flatten(2).transpose(1, 2)
        k, v = self.kv(small).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = self.q(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        p = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)
        return (p @ v).transpose(1, 2).flatten(2)
'''
# The sides of several maps, and heads that are one axis with the samples.
LEVELS = '''"""Each query reads a few points of each level.

    query   (B, Lq, dim)
    ref     (B, Lq, levels, 2) points (x, y) in [0, 1]
    value   (B, sum of H_l * W_l, dim), the levels one after the other
    shapes  list of (H_l, W_l)

The weights of a head sum to one over levels and points.
"""
import torch
import torch.nn.functional as F
from torch import nn


class Levels(nn.Module):
    def __init__(self, dim=32, levels=3, heads=4, points=2):
        super().__init__()
        self.many = heads, levels, points
        self.offsets = nn.Linear(dim, heads * levels * points * 2)
        self.weights = nn.Linear(dim, heads * levels * points)
        self.value, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, query, ref, value, shapes):
        B, T, C = query.shape
        h, levels, points = self.many
        maps = self.value(value).view(B, -1, h, C // h).split([H * W for H, W in shapes], dim=1)
        near = ref[:, :, None, :, None, :] + self.offsets(query).view(B, T, h, levels, points, 2).tanh() / 8
        weights = self.weights(query).view(B, T, h, -1).softmax(-1)
        read = []
        for n, (H, W) in enumerate(shapes):
            at = (2 * near[:, :, :, n] - 1).transpose(1, 2).flatten(0, 1)
            image = maps[n].permute(0, 2, 3, 1).reshape(B * h, C // h, H, W)
            read.append(F.grid_sample(image, at, align_corners=False))
        w = weights.transpose(1, 2).reshape(B * h, 1, T, levels * points)
        y = (torch.stack(read, dim=-2).flatten(-2) * w).sum(-1)
        return self.out(y.view(B, C, T).transpose(1, 2))
'''
# A list of layers of the module, and positions that are counted in a mask.
STACK = '''"""An encoder of padded images.

    encode(layers, image, real)   image (B, dim, H, W), real (B, H, W) bool, True = pixel  ->  (B, H*W, dim)
"""
import torch
from torch import nn


def sines(at, n):
    """Pair i has the angle at / 10000^(2i/n)."""
    angle = at[..., None] / 10000.0 ** (torch.arange(0, n, 2, dtype=at.dtype) / n)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2)


class Layer(nn.Module):
    def __init__(self, dim, heads=4):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, x, place, pad):
        return x + self.attn(x + place, x + place, x, key_padding_mask=pad, need_weights=False)[0]


def encode(layers, image, real):
    x, n = image.flatten(2).transpose(1, 2), image.size(1) // 2
    place = torch.cat([sines(real.cumsum(axis).to(x.dtype), n) for axis in (1, 2)], -1).flatten(1, 2)
    for layer in layers:
        x = layer(x, place, ~real.flatten(1))
    return x
'''
# A list of dictionaries, some of which are chosen by a label, in plain Python.
STORE = '''"""recall(query, law, store): what is known of clauses of one jurisdiction.

query: list of floats; store: list of dicts with "key" (list), "value" (list) and "law" (str).
Softmax of query . key / sqrt(len(query)).
"""
import math


def recall(query, law, store):
    mine = [clause for clause in store if clause["law"] == law]
    if not mine:
        return None
    s = [math.fsum(a * b for a, b in zip(query, m["key"])) / math.sqrt(len(query)) for m in mine]
    e = [math.exp(x - max(s)) for x in s]
    z = math.fsum(e)
    return [math.fsum(w / z * m["value"][j] for w, m in zip(e, mine)) for j in range(len(mine[0]["value"]))]


def alike(query, law, store):
    """Softmax of 10 times the cosine."""
    mine = [clause for clause in store if clause["law"] == law]
    if not mine:
        return None
    unit = lambda x: [a / math.sqrt(sum(b * b for b in x)) for a in x]
    s = [10 * sum(a * b for a, b in zip(unit(query), unit(m["key"]))) for m in mine]
    e = [math.exp(x - max(s)) for x in s]
    return [sum(w / sum(e) * m["value"][j] for w, m in zip(e, mine)) for j in range(len(mine[0]["value"]))]
'''
SOURCES = {"packed": PACKED, "Pooled": POOLED, "Levels": LEVELS, "encode": STACK, "recall": STORE, "alike": STORE}
# The candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("packed", "p.sum(-1, keepdims=True)", "p.sum((0, 2), keepdims=True)", "softmax_heads_and_keys"),
    ("Pooled", "q.size(-1) ** 0.5", "C**0.5", "scale_dmodel"),
    (
        "Levels",
        "self.weights(query).view(B, T, h, -1).softmax(-1)",
        "self.weights(query).softmax(-1).view(B, T, h, -1)",
        "softmax_heads_and_keys",
    ),
    ("encode", "dtype=at.dtype) / n)", "dtype=at.dtype) * 2 / n)", "pe_exponent"),
    ("recall", "/ math.sqrt(len(query))", "* math.sqrt(len(query))", "scale_inverted"),
    ("alike", "w / sum(e) * m", "w / max(e) * m", "unknown"),
]


test_right, test_wrong = right_and_wrong(SOURCES, BOTH)
