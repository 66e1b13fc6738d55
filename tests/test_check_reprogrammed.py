"""Keys that all samples share, turns of each sample, constructors that refuse their own defaults, sides of windows."""

from __future__ import annotations

import pytest

from overt.check.text.reading import read
from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = """
import math
import torch
from torch import nn

class Reprogrammed(nn.Module):
    def __init__(self, width, heads, other=None):
        super().__init__()
        self.heads = heads
        self.ask, self.out = nn.Linear(width, width), nn.Linear(width, other)
        self.key, self.value = nn.Linear(other, width), nn.Linear(other, width)

    def forward(self, target, source, meaning):
        b, n, _ = target.shape
        s, _ = source.shape
        q = self.ask(target).view(b, n, self.heads, -1)
        k = self.key(source).view(s, self.heads, -1)
        v = self.value(meaning).view(s, self.heads, -1)
        w = torch.softmax(torch.einsum("bnhe,she->bhns", q, k) / math.sqrt(q.shape[-1]), dim=-1)
        return self.out(torch.einsum("bhns,she->bnhe", w, v).reshape(b, n, -1))

class Prototyped(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h = num_heads
        self.q, self.kv, self.proj = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def forward(self, x, prototypes):
        B, N, C = x.shape
        M, _ = prototypes.shape
        q = self.q(x).view(B, N, self.h, C // self.h).transpose(1, 2)
        k, v = self.kv(prototypes).view(M, 2, self.h, C // self.h).permute(1, 2, 0, 3)
        w = (q @ k.transpose(-1, -2) * (C // self.h) ** -0.5).softmax(-1)
        return self.proj((w @ v).transpose(1, 2).reshape(B, N, C))

def turned(x, cos, sin):
    if cos.dim() != 3:
        raise ValueError("cos has three axes")
    half = x.size(-1) // 2
    return x * cos[:, None] + torch.cat((-x[..., half:], x[..., :half]), -1) * sin[:, None]

class Turned(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h, self.qkv, self.proj = num_heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cos, sin):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        w = (turned(q, cos, sin) @ turned(k, cos, sin).mT / (d // self.h) ** 0.5).softmax(-1)
        return self.proj((w @ v).transpose(1, 2).reshape(b, n, d))

class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.mT * (d // self.heads) ** -0.5).softmax(-1)
        return x + self.proj((w @ v).transpose(1, 2).reshape(b, n, d))

class Encoder(nn.Module):
    def __init__(self, dim=1024, depth=24, heads=16, positions="learned", max_len=None):
        super().__init__()
        assert max_len is not None or positions == "none"
        self.positions = nn.Parameter(torch.zeros(1, max_len, dim)) if positions != "none" else None
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])

    def forward(self, x):
        x = x if self.positions is None else x + self.positions[:, : x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return x
"""

BOTH = [
    ("Reprogrammed", "q.shape[-1]), dim=-1)", "q.shape[-1]), dim=-2)", "softmax_axis_q"),
    ("Prototyped", "(C // self.h) ** -0.5", "C**-0.5", "scale_dmodel"),
    ("Turned", "(d // self.h) ** 0.5", "d**0.5", "scale_dmodel"),
    ("Encoder", "(d // self.heads) ** -0.5", "d**-0.5", "scale_dmodel"),
]

PATTERN = """
class Windows:
    def __init__(self, dim, rows, cols, heads):
        self.rows, self.cols, self.heads = rows, cols, heads

    def forward(self, x):
        x = rearrange(x, "b (r c) d -> b r c d", r=self.rows, c=self.cols)
        return rearrange(x, "b r c (h d) -> b h (r c) d", h=self.heads, d=self.dim)
"""


def test_what_positions_are_taken_apart_into_are_rows_and_columns() -> None:
    assert read(PATTERN, ("dim", "rows", "cols", "heads")).grids == {("rows",), ("cols",)}


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)
