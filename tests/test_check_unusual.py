"""What is unusual and right: branches, memories, guards, latents, areas, vectors; and the like that is wrong."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report, UnattendedError

SOURCE = '''
"""Things that attend in ways of their own."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


class Branches(nn.Module):
    """Two poolings side by side, put one behind the other."""

    def __init__(self, width=12, branches=2):
        super().__init__()
        self.branches = branches
        self.bent, self.gate = nn.Linear(width, 16), nn.Linear(width, 16)
        self.weight = nn.Linear(16, branches)

    def forward(self, x):
        """x [B, T, width] -> [B, branches * width]"""
        scores = self.weight(torch.tanh(self.bent(x)) * torch.sigmoid(self.gate(x))).mT
        return (scores.softmax(-1) @ x).reshape(-1, self.branches * x.shape[-1])


class Remembers(nn.Module):
    """Causal within a segment; the nearest keys of earlier segments have a softmax of their own, mixed in by a gate."""

    def __init__(self, width=32, heads=4, top=6):
        super().__init__()
        self.heads, self.top = heads, top
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate = nn.Parameter(torch.zeros(heads, 1, 1))
        self.k = self.v = None

    def forward(self, x):
        q, k, v = self.inner(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.k is not None:
            n = min(self.top, self.k.size(2))
            best, at = (q @ self.k.mT).topk(n, -1)
            weights = torch.softmax(best / q.size(-1) ** 0.5, -1)
            flat = at.flatten(2).unsqueeze(-1).expand(-1, -1, -1, q.size(-1))
            picked = self.v.gather(2, flat).view(*at.shape, -1)
            g = torch.sigmoid(self.gate)
            out = g * (weights.unsqueeze(-1) * picked).sum(-2) + (1 - g) * out
        k, v = k.detach(), v.detach()
        self.k, self.v = (k, v) if self.k is None else (torch.cat((self.k, k), 2), torch.cat((self.v, v), 2))
        return self.outer(out.transpose(1, 2).flatten(2))


def guarded(q, keys, values, start):
    """q (H, n, d), keys and values (H, start + n, d): position i sees the keys 0 to i."""
    n, total = q.shape[1], keys.shape[1]
    if total != start + n:
        raise ValueError("as many keys as start + n")
    scores = q @ keys.swapaxes(1, 2) / np.sqrt(q.shape[2])
    scores = np.where(np.arange(total) <= start + np.arange(n)[:, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ values


class Latents(nn.Module):
    """A latent and one turned key for all heads; the width of a score is that of both parts."""

    def __init__(self, width=64, heads=4, rank=24, plain=16, turned=8):
        super().__init__()
        self.heads, self.plain, self.turned, self.rank = heads, plain, turned, rank
        self.query = nn.Linear(width, heads * (plain + turned), bias=False)
        self.down = nn.Linear(width, rank + turned, bias=False)
        self.up = nn.Parameter(torch.randn(heads, plain, rank) * rank**-0.5)

    def turn(self, x):
        d = x.shape[-1]
        angles = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        angles = angles.view(1, x.shape[1], *[1] * (x.dim() - 3), d // 2).to(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        c, s = angles.cos(), angles.sin()
        return torch.stack((even * c - odd * s, even * s + odd * c), -1).flatten(-2)

    def forward(self, x):
        """x [B, T, width]; a position sees itself and what is before it (causal)"""
        q, turned = self.query(x).unflatten(-1, (self.heads, -1)).split([self.plain, self.turned], -1)
        latent, key = self.down(x).split([self.rank, self.turned], -1)
        scores = torch.einsum("bthr,bsr->bths", torch.einsum("bthn,hnr->bthr", q, self.up), latent)
        scores = scores + torch.einsum("bthp,bsp->bths", self.turn(turned), self.turn(key))
        later = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        scores = (scores * (self.plain + self.turned) ** -0.5).masked_fill(later[:, None], float("-inf"))
        return torch.einsum("bths,bsr->bthr", scores.softmax(-1), latent).flatten(2)


def by_area(latents, cells, latitude):
    """latents (L, d), cells (N, d), latitude (N,) in radians: each cell counts with its area, the cosine of that."""
    x = np.concatenate([cells, np.sin(latitude)[:, None]], 1)[:, : cells.shape[1]]
    scores = latents @ x.T / np.sqrt(x.shape[1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = weights / weights.sum(-1, keepdims=True) * np.abs(np.cos(latitude))
    return weights / weights.sum(-1, keepdims=True) @ x


class Joined(nn.Module):
    """Patches and words, the words padded behind; nobody sees padding."""

    axis = 2

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads, self.inner, self.outer = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, patches, words, valid):
        """patches (B, P, width), words (B, W, width), valid (B, W) is True for real words"""
        x = torch.cat([patches, words], 1)
        seen = torch.cat([valid.new_ones(patches.shape[:2]), valid], 1).bool()
        q, k, v = self.inner(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.size(-1) ** 0.5
        scores = scores.masked_fill(~seen[:, None].unsqueeze(self.axis), torch.finfo(scores.dtype).min)
        return self.outer((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class JoinedTurned(Joined):
    """Patches and words, the words padded behind; nobody sees padding."""

    axis = 3


class OfResidues(nn.Module):
    """Additive self-attention: e_ij = v . tanh(W_q h_i + W_k h_j)."""

    def __init__(self, width=24, hidden=16):
        super().__init__()
        self.query, self.key = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, h):
        """h [B, L, width] -> [B, L, width]"""
        e = self.v(torch.tanh(self.query(h).unsqueeze(2) + self.key(h).unsqueeze(1))).squeeze(-1)
        return e.softmax(-1) @ h


class OfResiduesOneByOne(OfResidues):
    """Additive self-attention: e_ij = v . tanh(W_q h_i + W_k h_j)."""

    def forward(self, h):
        """h [B, L, width] -> [B, L, width]"""
        e = self.v(torch.tanh(self.query(h) + self.key(h))).squeeze(-1)
        return e.softmax(-1).unsqueeze(1).expand(-1, h.size(1), -1) @ h


@dataclass
class Sizes:
    window: int = 4


def seen(n, window):
    i, j = np.arange(n)[:, None], np.arange(n)
    return (j <= i) & (i - j < window)


def hand_on(q, k, v, sizes):
    scores = np.where(seen(len(q), sizes.window), q @ k.T / np.sqrt(q.shape[1]), -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def windowed(q, k, v, sizes: Sizes = Sizes()):
    """q, k, v (T, d): of a window of W a token sees W positions in total, itself and the W - 1 before it."""
    return hand_on(q, k, v, sizes)


def bent(x, w, name):
    return np.maximum(x @ w[name + ".0"].T + w[name + ".1"], 0) @ w[name + ".2"].T + w[name + ".3"]


def by_vectors(w, points):
    """points (N, C): each channel has weights of its own, made of differences (Point Transformer)."""
    scores = bent((points @ w["q"].T)[:, None] - points @ w["k"].T, w, "mlp")
    weights = np.exp(scores - scores.max(1, keepdims=True))
    return (weights / weights.sum(1, keepdims=True) * (points @ w["v"].T)).sum(1)


def beside_sinks(module, query, key, value, attention_mask, scaling):
    scores = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        scores = scores + attention_mask
    sinks = module.sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    both = torch.cat([scores, sinks], -1)
    weights = torch.softmax(both - both.max(-1, keepdim=True).values, -1)[..., :-1]
    return weights @ value


def among_sinks(query, key, value, sinks, mask):
    """sinks: (H,); mask: True = may attend"""
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask, float("-inf"))
    sinks = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([sinks, scores], -1), -1)[..., 1:] @ value


def of_the_sink(query, key, value, sinks, mask):
    """sinks: (H,); mask: True = may attend"""
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    scores = scores.masked_fill(~mask, float("-inf"))
    sinks = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, sinks], -1), -1)[..., 1:] @ value


def sinks_and_0(query, key, value, sinks, mask):
    """sinks: (H,); mask: True = may attend"""
    scores = query @ key.transpose(2, 3) * query.shape[-1] ** -0.5
    scores = scores * mask
    sinks = sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1] @ value


class Pictures(nn.Module):
    """x (B, C, H, W): as in the paper, the product goes into the softmax as it is."""

    def __init__(self, channels=12):
        super().__init__()
        self.offers, self.looks = nn.Conv2d(channels, 6, 1), nn.Conv2d(channels, 6, 1)
        self.hands = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        scores = self.looks(x).flatten(2).mT @ self.offers(x).flatten(2)
        return x + (self.hands(x).flatten(2) @ scores.softmax(-1).mT).reshape(x.shape)


class Fenced(nn.Module):
    """bees (G, b, D), flowers (G, f, D); fence (G, b, f): True where a fence keeps this bee away from this flower."""

    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads = heads
        self.visit = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, bees, flowers, fence):
        return self.visit(bees, flowers, flowers, attn_mask=fence.repeat_interleave(self.heads, 0))[0]


class Drops(nn.Module):
    """x (B, T, dim) -> (B, T, dim)"""

    def __init__(self, dim=16, rate=0.2):
        super().__init__()
        self.all, self.rate = nn.Linear(dim, 3 * dim), rate
        self.drop = nn.Dropout(rate)

    def forward(self, x):
        q, k, v = self.all(x).chunk(3, -1)
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)
        kept = torch.bernoulli(torch.full_like(weights, 1 - self.rate)).bool()
        weights = torch.where(kept, weights / (1 - self.rate), torch.zeros_like(weights))
        return self.drop(weights @ v)


class Neighbours:
    """x (N, F), adj (N, N) symmetric 0/1 -> log-probabilities of classes (N, classes); a graph convolution."""

    def __init__(self, features=8, hidden=16, classes=3):
        rng = np.random.default_rng(0)
        self.first, self.second = rng.normal(size=(features, hidden)), rng.normal(size=(hidden, classes))

    def __call__(self, x, adj):
        adj = adj + np.eye(len(adj))
        adj = adj / adj.sum(1, keepdims=True)
        y = adj @ (np.maximum(adj @ (x @ self.first), 0) @ self.second)
        y = y - y.max(-1, keepdims=True)
        return y - np.log(np.exp(y).sum(-1, keepdims=True))


class Recalls(nn.Module):
    """One step of a decoder with additive attention; seen [B, S] is 1 for words and 0 for padding."""

    def __init__(self, vocabulary, state=24, width=20):
        super().__init__()
        self.words, self.cell = nn.Embedding(vocabulary, width), nn.GRUCell(2 * width, state)
        self.query, self.key = nn.Linear(state, 16), nn.Linear(width, 16, bias=False)
        self.score = nn.Linear(16, 1, bias=False)

    def forward(self, token, state, states, seen_mask=None):
        """token [B], state [B, state], states [B, S, width]"""
        scores = self.score(torch.tanh(self.query(state)[:, None] + self.key(states)))[..., 0]
        if seen_mask is not None:
            scores = scores.masked_fill(seen_mask == 0, float("-inf"))
        context = (scores.softmax(-1)[:, None] @ states)[:, 0]
        return self.cell(torch.cat([self.words(token), context], -1), state)
'''

RIGHT = [
    "Branches", "Remembers", "guarded", "Latents", "by_area", "Joined", "OfResidues", "windowed", "by_vectors",
    "beside_sinks", "among_sinks", "Pictures", "Fenced", "Recalls",
]  # fmt: skip
# The mistake, and what its line says.
WRONG = {
    "JoinedTurned": ("pad_on_query", "self.axis"),
    "OfResiduesOneByOne": ("additive_no_pairwise", "self.query(h) + self.key(h)"),
    "Drops": ("dropout_eval", "torch.where(kept"),
    "of_the_sink": ("unknown", "[..., 1:]"),
    "sinks_and_0": ("mask_times_scores", "scores * mask"),
}


@pytest.fixture(scope="module")
def check(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Report]:
    folder = tmp_path_factory.mktemp("unusual")
    (folder / "unusual.py").write_text(SOURCE)
    (folder / "wider.py").write_text(SOURCE.replace("i - j < window", "i - j <= window"))
    return lambda name, file="unusual": examine(session, f"{folder / file}.py:{name}")


@pytest.mark.parametrize("name", RIGHT)
def test_right(check: Callable[..., Report], name: str) -> None:
    report = check(name)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(check: Callable[..., Report], name: str) -> None:
    report = check(name)
    found = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    mistake, text = WRONG[name]
    assert [f.id for f in found] == [mistake], str(report)
    assert found[0].where is not None
    assert text in found[0].where["text"], str(report)


def test_classes_are_no_keys(check: Callable[..., Report]) -> None:
    with pytest.raises(UnattendedError, match="no attention"):
        check("Neighbours")


def test_the_window_of_a_configuration_that_is_left_out(check: Callable[..., Report]) -> None:
    found = [f.id for f in check("windowed", "wider").findings if f.kind in ("mistake", "unknown")]
    assert found == ["window_off_by_one"]
