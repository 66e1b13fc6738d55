"""Layers as people write them: heads in other numbers, edges of graphs, patches, biases written into, caps unread."""

from __future__ import annotations

from pathlib import Path

import pytest

import overt

CODE = '''
import numpy as np
import torch
from torch import nn


class Talking(nn.Module):
    """x (B, T, 24): three heads, whose scores make weights of four, which are mixed to three again."""

    def __init__(self):
        super().__init__()
        self.qkv, self.o = nn.Linear(24, 72), nn.Linear(24, 24)
        self.one, self.two = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.randn(3, 4))

    def forward(self, x):
        B, T, _ = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 3, 8).unbind(2)
        s = torch.einsum("bihd,bjhd->bhij", q, k) * 8**-0.5
        s = torch.einsum("gh,bhij->bgij", self.one, s)
        w = torch.einsum("hg,bgij->bhij", self.two, s.softmax(-1))
        return self.o(torch.einsum("bhij,bjhd->bihd", w, v).reshape(B, T, -1))


class Edges(nn.Module):
    """edge_index [2, E]: row 0 the source j, row 1 the target i."""

    def __init__(self, width=10, heads=2):
        super().__init__()
        self.shape = -1, heads, 8
        self.one, self.two = nn.Linear(width, 8 * heads), nn.Linear(width, 8 * heads)
        self.vector = nn.Parameter(torch.randn(heads, 8))

    def forward(self, x, edge_index):
        source, target = edge_index
        left, right = self.one(x).view(self.shape), self.two(x).view(self.shape)
        s = (torch.nn.functional.leaky_relu(left[source] + right[target], 0.2) * self.vector).sum(-1)
        top = s.new_full((len(x), s.shape[1]), -torch.inf)
        top = top.scatter_reduce(0, target[:, None].expand_as(s), s, "amax")
        e = (s - top[target]).exp()
        w = e / torch.zeros_like(top).index_add(0, target, e)[target]
        return torch.zeros_like(left).index_add(0, target, w[..., None] * left[source]).flatten(1)


class Pooled(nn.Module):
    """Each head pools its own channels: x (B, C, T)."""

    def __init__(self, channels=16, heads=4):
        super().__init__()
        self.score = nn.Sequential(nn.Conv1d(channels, 6, 1), nn.Tanh(), nn.Conv1d(6, heads, 1))

    def weights(self, s):
        return s.softmax(-1)

    def forward(self, x):
        B, C, T = x.shape
        w = self.weights(self.score(x))
        return torch.einsum("bht,bhct->bhc", w, x.view(B, w.shape[1], -1, T)).flatten(1)


class PooledTogether(Pooled):
    """Each head pools its own channels: x (B, C, T)."""

    def weights(self, s):
        return s.flatten(1).softmax(-1).view_as(s)


class Patches:
    """x (B, 3, H, W), of which every 4 x 4 pixels are a token behind one of the class."""

    def __init__(self):
        draw = np.random.default_rng(0).normal
        self.patch, self.at, self.first = draw(size=(48, 24)), draw(size=(1, 17, 24)), draw(size=(1, 1, 24))
        self.q, self.k, self.v = draw(size=(3, 24, 24)) * 0.3

    def __call__(self, x):
        B, C, H, W = x.shape
        x = x.reshape(B, C, H // 4, 4, W // 4, 4).transpose(0, 2, 4, 1, 3, 5).reshape(B, -1, 16 * C) @ self.patch
        x = np.concatenate([np.repeat(self.first, B, 0), x], 1) + self.at
        s = (x @ self.q) @ (x @ self.k).swapaxes(1, 2) * 24**-0.5
        e = np.exp(s - s.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)) @ (x @ self.v)


class Biased(nn.Module):
    """x (B, N, 24), distance (B, N, N): two layers that share a bias."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 72) for _ in range(2))
        self.cap = 3.0

    def scores(self, bias, s):
        return bias + s

    def forward(self, x, distance):
        bias = -0.1 * distance
        for layer in self.layers:
            q, k, v = layer(x).chunk(3, -1)
            s = self.scores(bias, q @ k.mT * 24**-0.5)
            x = x + (self.cap * torch.tanh(s / self.cap)).softmax(-1) @ v
        return x


class BiasedInPlace(Biased):
    """x (B, N, 24), distance (B, N, N): two layers that share a bias."""

    def scores(self, bias, s):
        bias += s
        return bias


class Capped(nn.Module):
    """x (B, T, 24); scores are held below a cap."""

    def __init__(self, softcap=2.0):
        super().__init__()
        self.qkv, self.softcap = nn.Linear(24, 72), softcap

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return (q @ k.mT * 24**-0.5).softmax(-1) @ v
'''

EXPECTED = {
    "Talking": [],
    "Edges": [],
    "Pooled": [],
    "PooledTogether": ["softmax_heads_and_keys"],
    "Patches": [],
    "Biased": [],
    "BiasedInPlace": ["inplace"],
    "Capped": ["softcap_missing"],
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layers") / "layers.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("name", EXPECTED)
def test_layers_are_called_and_judged(module: Path, name: str) -> None:
    report = overt.check(f"{module}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == EXPECTED[name]
