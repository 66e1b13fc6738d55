"""Layers as people write them: heads in other numbers, edges of graphs, patches, biases written into, caps unread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from overt.check.checking import examine
from overt.check.process.parameters import parameters
from overt.check.process.session import Session

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
        return torch.zeros_like(left).index_add(0, target, w[..., None] * left[self.mixed(source, target)]).flatten(1)

    def mixed(self, source, target):
        return source


class EdgesOfTheirOwn(Edges):
    """edge_index [2, E]: row 0 the source j, row 1 the target i."""

    def mixed(self, source, target):
        return target


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


class Music(nn.Module):
    """x (B, T, 24), causal; er has a vector for each distance, the last for 0."""

    before = (1, 0)

    def __init__(self, longest=16):
        super().__init__()
        self.qkv, self.er = nn.Linear(24, 72), nn.Parameter(torch.randn(longest, 24))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, -1)
        e = torch.nn.functional.pad(q @ self.er[-T:].T, self.before).reshape(B, T + 1, T)[:, 1:]
        s = ((q @ k.mT + e) * D**-0.5).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), -torch.inf)
        return s.softmax(-1) @ v


class MusicPaddedBehind(Music):
    """x (B, T, 24), causal; er has a vector for each distance, the last for 0."""

    before = (0, 1)


class Frames(nn.Module):
    """Each patch looks at the same patch in other frames: [batch, frames, patches, dim]."""

    first = True

    def __init__(self, dim=24, heads=4):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=self.first)

    def forward(self, x):
        b, t, n, d = x.shape
        h = x.transpose(1, 2).reshape(b * n, t, d)
        return self.attn(h, h, h, need_weights=False)[0].view(b, n, t, d).transpose(1, 2)


class FramesOfAll(Frames):
    """Each patch looks at the same patch in other frames: [batch, frames, patches, dim]."""

    first = False


class Bent:
    """v tanh(W s + U h)"""

    def __init__(self, width, rng):
        self.w, self.v = rng.randn(2 * width, width) * 0.3, rng.randn(width) * 0.3

    def bend(self, x):
        return np.tanh(x)

    def hide(self, x, mask):
        return np.where(mask > 0, x, -1e9)

    def __call__(self, state, memory, mask):
        """state batch x width, memory batch x length x width, mask batch x length, 1 for words and 0 for <pad>"""
        both = np.concatenate([np.repeat(state[:, None], memory.shape[1], 1), memory], -1)
        s = self.hide(self.bend(both @ self.w) @ self.v, mask)
        e = np.exp(s - s.max(1, keepdims=True))
        return np.einsum("bn,bnd->bd", e / e.sum(1, keepdims=True), memory)


class Straight(Bent):
    """v tanh(W s + U h)"""

    def bend(self, x):
        return x

    def hide(self, x, mask):
        return x * mask


def at_positions(x, positions, w):
    """x (B, L, D), w (D, D); a query sees what is not later."""
    later = positions[:, None, :] > positions[:, :, None]
    s = np.where(later, -np.inf, x @ w @ x.swapaxes(1, 2) * x.shape[-1] ** -0.5)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ x


class Kept:
    def __init__(self, longest, heads, dim):
        self.k, self.v, self.count = np.zeros((longest, heads, dim)), np.zeros((longest, heads, dim)), 0

    def append(self, k, v):
        self.k[self.count : self.count + len(k)], self.v[self.count : self.count + len(k)] = k, v
        self.count += len(k)


def in_slices(q, cache, workers=4, log=np.log):
    """q [H, D]: the newest token's, attends to all that is kept"""
    outs, logs = [], []
    step = -(-cache.count // workers)
    for a in range(0, cache.count, step):
        s = np.einsum("hd,nhd->hn", q, cache.k[a : a + step]) * q.shape[-1] ** -0.5
        e = np.exp(s - s.max(-1, keepdims=True))
        outs.append(np.einsum("hn,nhd->hd", e, cache.v[a : a + step]) / e.sum(-1)[:, None])
        logs.append(s.max(-1) / (1 if log is np.log else np.log(2)) + log(e.sum(-1)))
    w = np.exp(logs - np.max(logs, 0))
    return ((w / w.sum(0))[..., None] * np.asarray(outs)).sum(0)


def in_slices_of_base_2(q, cache, workers=4):
    """q [H, D]: the newest token's, attends to all that is kept"""
    return in_slices(q, cache, workers, np.log2)


def in_chunks(q, k, v, chunk=4, late=0):
    n, heads, dim = q.shape
    outs = []
    for a in range(0, n, chunk):
        s = np.einsum("qhd,khd->hqk", q[a : a + chunk], k[: a + chunk]) * dim**-0.5
        T, S = s.shape[1:]
        s = np.where(np.tril(np.ones((T, S), bool), S - T if not late else 0), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        outs.append(np.einsum("hqk,khd->qhd", e / e.sum(-1, keepdims=True), v[: a + chunk]))
    return np.concatenate(outs)


def in_chunks_from_the_first(q, k, v, chunk=4):
    n, heads, dim = q.shape
    return in_chunks(q, k, v, chunk, 1)
'''

EXPECTED = {
    "Talking": [],
    "Edges": [],
    "EdgesOfTheirOwn": ["unknown"],
    "Pooled": [],
    "PooledTogether": ["softmax_heads_and_keys"],
    "Patches": [],
    "Biased": [],
    "BiasedInPlace": ["inplace"],
    "Capped": ["softcap_missing"],
    "Music": [],
    "MusicPaddedBehind": ["unknown"],
    "Frames": [],
    "FramesOfAll": ["batch_first"],
    "Bent": [],
    "Straight": ["mask_times_scores", "additive_no_tanh"],
    "at_positions": [],
    "in_slices": [],
    "in_slices_of_base_2": ["lse_base2"],
    "in_chunks": [],
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layers") / "layers.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("name", EXPECTED)
def test_layers_are_called_and_judged(session: Session, module: Path, name: str) -> None:
    report = examine(session, f"{module}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == EXPECTED[name]


def test_what_shapes_are_unpacked_into_are_axes(session: Session, module: Path) -> None:
    report = examine(session, f"{module}:in_chunks_from_the_first")
    assert "q: THD" in report.convention["called with"]
    assert "causal_top_left" in {f.id for f in report.findings}


def test_a_dtype_is_no_parameter() -> None:
    jax = pytest.importorskip("jax")

    class Layer:
        dtype = jax.numpy.float32

        def __init__(self) -> None:
            self.kind, self.w = self.dtype, np.ones((2, 3))

    assert [row["shape"] for row in parameters(Layer(), None)] == [(2, 3)]
