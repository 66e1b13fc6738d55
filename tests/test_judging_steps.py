"""Steps that look like mistakes from one side: cleared before they are hidden, scaled before they are turned."""

from __future__ import annotations

from pathlib import Path

import pytest

import overt

CODE = '''
import math

import numpy as np
import torch
from torch import nn


def cleared(q, k, v, mask):
    """q, k, v (B, T, D); mask (B, S), 1 for words and 0 for padding."""
    s = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    keep = mask[:, None].to(s.dtype)
    return torch.softmax(s * keep + (1 - keep) * -1e30, -1) @ v


def not_filled(q, k, v, mask):
    """q, k, v (B, T, D); mask (B, S), 1 for words and 0 for padding."""
    s = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    return torch.softmax(s * mask[:, None].to(s.dtype), -1) @ v


def turn(x, wide):
    T, D = x.shape[-2:]
    angles = np.arange(T)[:, None] * 10000.0 ** (-np.arange(0, D, 2) / D)
    angles = np.concatenate([angles, angles], -1) if wide == "halves" else np.repeat(angles, 2, -1)
    a, b = np.split(x, 2, -1)
    return x * np.cos(angles) + np.concatenate([-b, a], -1) * np.sin(angles)


def soft(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def scaled_then_turned(q, k, v, wide="halves"):
    """q, k, v (B, H, T, D)"""
    q, k = turn(q * q.shape[-1] ** -0.5, wide), turn(k, wide)
    return soft(q @ k.swapaxes(-1, -2)) @ v


def scaled_then_turned_wrongly(q, k, v):
    """q, k, v (B, H, T, D)"""
    return scaled_then_turned(q, k, v, "neighbours")


def turned_only(q, k, v):
    """q, k, v (B, H, T, D)"""
    return soft(turn(q, "halves") @ turn(k, "halves").swapaxes(-1, -2)) @ v


def both_ways(c, q, c_mask, q_mask, axis=2):
    """c (B, c_len, D) asks q (B, q_len, D); c_mask (B, c_len) and q_mask (B, q_len) are 1 for words, 0 for padding."""
    s = c @ q.transpose(1, 2) / math.sqrt(c.size(-1))
    keep = q_mask.view(c.size(0), 1, -1).to(s.dtype)
    a = torch.softmax(keep * s + (1 - keep) * -1e30, axis) @ q
    return torch.cat([c, a, c * a], -1) * c_mask.view(c.size(0), -1, 1).to(s.dtype)


def both_ways_over_words(c, q, c_mask, q_mask):
    """c (B, c_len, D) asks q (B, q_len, D); c_mask (B, c_len) and q_mask (B, q_len) are 1 for words, 0 for padding."""
    return both_ways(c, q, c_mask, q_mask, 1)


class Head(nn.Module):
    """images (B, C, H, W) -> (B, 7, 8)"""

    def __init__(self, first=True):
        super().__init__()
        self.asked = nn.Parameter(torch.randn(7, 8))
        self.reduce = nn.Conv2d(6, 8, 1)
        self.own = nn.MultiheadAttention(8, 2, batch_first=first)
        self.other = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, images):
        memory = self.reduce(images).flatten(2).transpose(1, 2)
        x = self.asked.expand(len(images), -1, -1)
        for _ in range(2):
            x = x + self.own(x, x, x)[0]
            x = x + self.other(x, memory, memory)[0]
        return x


class Crossed(Head):
    """images (B, C, H, W) -> (B, 7, 8)"""

    def __init__(self):
        super().__init__(False)


class CrossedAtOnePlace(Head):
    """images (B, C, H, W) -> (B, 8)"""

    def __init__(self):
        super().__init__(False)

    def forward(self, images):
        memory = self.reduce(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.asked.expand(len(images), -1, -1), memory], 1)
        return (x + self.own(x, x, x)[0])[:, 0]


class Prompts(nn.Module):
    def __init__(self, vocab=20, d=16, lowest=torch.finfo(torch.float64).min, most=2):
        super().__init__()
        self.words, self.places, self.most = nn.Embedding(vocab, d), nn.Embedding(40, d), most
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.lowest = lowest

    def forward(self, ids, keep=None):
        """ids (B, T), keep (B, T) 1 = token, 0 = padding."""
        keep = torch.ones_like(ids) if keep is None else keep
        x = self.words(ids) + self.places((keep.long().cumsum(-1) - 1).clamp(min=0))
        T = ids.shape[1]
        hidden = torch.full((T, T), self.lowest, dtype=x.dtype).triu(1)
        hidden = hidden[None] + (1.0 - keep.to(x.dtype))[:, None] * self.lowest
        if self.most == 1:
            hidden = hidden.clamp(min=self.lowest)
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 4 + hidden, -1) @ self.v(x)


class ClampedPrompts(Prompts):
    def __init__(self):
        super().__init__(most=1)


def far(q, k, v, ahead=0, start=2.0):
    """q, k, v (B, H, T, D), causal, with ALiBi (Press et al. 2022) for any number of heads"""
    H, T = q.shape[1:3]
    away = np.arange(T)[:, None] - np.arange(T)
    steep = start ** (-8.0 / H * np.arange(1, H + 1))
    if start == 2 and H & (H - 1):
        n = 1 << (H.bit_length() - 1)
        some = 2.0 ** (-4.0 / n * np.arange(1, 2 * n + 1))
        steep = np.concatenate([some[1::2], some[::2]])[:H]
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) - steep[:, None, None] * np.maximum(away, 0)
    return soft(np.where(away >= -ahead, s, -np.inf)) @ v


def far_and_ahead(q, k, v):
    """q, k, v (B, H, T, D), causal, with ALiBi (Press et al. 2022) for any number of heads"""
    return far(q, k, v, 1)


def far_and_ahead_and_steep(q, k, v):
    """q, k, v (B, H, T, D), causal, with ALiBi (Press et al. 2022) for any number of heads"""
    return far(q, k, v, 1, 2.0000001)


def complex_turn(x):
    angles = np.exp(1j * np.outer(np.arange(x.shape[-2]), 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])))
    z = (x[..., ::2] + 1j * x[..., 1::2]) * angles
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


SETTINGS = {"width": 32, "back": 4}


class Backwards:
    """ids (T,) -> (T, width); back counts the token itself: with back = 2 token i sees i - 1 and i."""

    def __init__(self, words=20, deep=2, fault=0, by=0.5, **other):
        self.has = {**SETTINGS, **other}
        draw = np.random.default_rng(0).normal
        self.rows, self.fault, self.by = draw(size=(words, self.has["width"])), fault, by
        self.layers = [[draw(size=(self.has["width"],) * 2) / 4 for _ in range(3)] for _ in range(deep)]

    def __call__(self, ids):
        x, back = self.rows[np.asarray(ids)], self.has["back"]
        for one in self.layers:
            q, k, v = ((x @ w).reshape(len(x), 4, -1).swapaxes(0, 1) for w in one)
            q, k = complex_turn(q), complex_turn(k)
            near = np.tril(np.ones((len(x), len(x))))
            near = np.triu(near, 1 - back - self.fault)
            with np.errstate(divide="ignore"):
                y = soft(q @ k.swapaxes(1, 2) / q.shape[2] ** self.by + np.log(near)) @ v
            x = x + y.swapaxes(0, 1).reshape(x.shape)
        return x


class BackwardsOneMore(Backwards):
    """ids (T,) -> (T, width); back counts the token itself: with back = 2 token i sees i - 1 and i."""

    def __init__(self, words=20, deep=2, **other):
        super().__init__(words, deep, 1, **other)


class BackwardsByD(Backwards):
    """ids (T,) -> (T, width); back counts the token itself: with back = 2 token i sees i - 1 and i."""

    def __init__(self, words=20, deep=2, **other):
        super().__init__(words, deep, 0, 1.0, **other)
'''

EXPECTED = {
    "cleared": [],
    "not_filled": ["mask_times_scores"],
    "scaled_then_turned": [],
    "scaled_then_turned_wrongly": ["rope_layout"],
    "turned_only": ["scale_missing"],
    "both_ways": [],
    "both_ways_over_words": ["softmax_axis_q"],
    "Head": [],
    "Crossed": ["batch_first"],
    "CrossedAtOnePlace": ["batch_first"],
    "Prompts": ["mask_finfo_sum"],
    "ClampedPrompts": [],
    "Backwards": [],
    "BackwardsOneMore": ["window_off_by_one"],
    "BackwardsByD": ["scale_d"],
    "far": [],
    "far_and_ahead": ["causal_off_by_one"],
    "far_and_ahead_and_steep": ["alibi_slopes", "causal_off_by_one"],
}


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps") / "steps.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize("name", EXPECTED)
def test_a_step_is_judged_by_what_comes_before_and_after_it(module: Path, name: str) -> None:
    report = overt.check(f"{module}:{name}")
    assert sorted(f.id for f in report.findings if f.kind in ("mistake", "unknown")) == EXPECTED[name]
