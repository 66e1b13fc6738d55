"""Steps that look like mistakes from one side: cleared before they are hidden, scaled before they are turned."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

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


def capped(x, w, bias, cap):
    """x (B, T, W); w (W, W); bias (B, 1, T, T), 0 to keep and -1e30 to drop; cap: no score is larger"""
    q, k = x @ w, x @ w.T
    s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5
    s = cap * np.tanh(s / cap)
    return soft(s + bias[:, 0] if bias.ndim == 4 else s + bias) @ x


def capped_after(x, w, bias, cap):
    """x (B, T, W); w (W, W); bias (B, 1, T, T), 0 to keep and -1e30 to drop; cap: no score is larger"""
    q, k = x @ w, x @ w.T
    s = q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5 + (bias[:, 0] if bias.ndim == 4 else bias)
    return soft(cap * np.tanh(s / cap)) @ x


class Slots(nn.Module):
    def __init__(self, d=12, h=3, crossed=False):
        super().__init__()
        self.h, self.qkv, self.crossed = h, nn.Linear(d, 3 * d), crossed

    def forward(self, things, gone):
        q, k, v = (torch.cat(t.split(t.shape[2] // self.h, 2)) for t in self.qkv(things).chunk(3, 2))
        s = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
        s = s.masked_fill(self.each(gone.bool()[:, None]), -1e9)
        return torch.cat((s.softmax(2) @ v).split(len(things)), 2)

    def each(self, hidden):
        return hidden.repeat_interleave(self.h, 0) if self.crossed else hidden.repeat(self.h, 1, 1)


class World(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.first = nn.Linear(d, d)
        self.slots = Slots(d)

    def forward(self, things, gone):
        return self.slots(self.first(things), gone)


class CrossedWorld(nn.Module):
    def __init__(self, d=12):
        super().__init__()
        self.first = nn.Linear(d, d)
        self.slots = Slots(d, crossed=True)

    def forward(self, things, gone):
        return self.slots(self.first(things), gone)


class Shared(nn.Module):
    """hidden (B, T, W); heads of keys are told by a configuration"""

    def __init__(self, config: dict):
        super().__init__()
        n, g, d = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
        self.n, self.g, self.d = n, g, d
        self.q = nn.Linear(config["hidden_size"], n * d)
        self.k, self.v = nn.Linear(config["hidden_size"], g * d), nn.Linear(config["hidden_size"], g * d)

    def repeated(self, x):
        return x.repeat_interleave(self.n // self.g, 1)

    def forward(self, hidden):
        B, T, _ = hidden.shape
        q, k, v = (m(hidden).view(B, T, -1, self.d).transpose(1, 2) for m in (self.q, self.k, self.v))
        y = torch.softmax(q @ self.repeated(k).transpose(2, 3) / self.d**0.5, -1) @ self.repeated(v)
        return y.transpose(1, 2).reshape(B, T, -1)


class SharedInTurn(Shared):
    """hidden (B, T, W); heads of keys are told by a configuration"""

    def repeated(self, x):
        return x.repeat(1, self.n // self.g, 1, 1)


class Turned(nn.Module):
    """x (B, C, L): windows of 4, shifted by 2 and shifted back"""

    def __init__(self, c=8, back=2):
        super().__init__()
        self.qkv, self.out, self.back = nn.Conv1d(c, 3 * c, 1), nn.Conv1d(c, c, 1), back

    def forward(self, x):
        B, C, L = x.shape
        q, k, v = self.qkv(torch.roll(x, -2, 2)).view(B, 3, C, L // 4, 4).permute(1, 0, 3, 4, 2)
        y = torch.softmax(q @ k.transpose(2, 3) / C**0.5, -1) @ v
        return torch.roll(self.out(y.permute(0, 3, 1, 2).reshape(B, C, L)), self.back, 2)


class TurnedTwice(Turned):
    """x (B, C, L): windows of 4, shifted by 2 and shifted back"""

    def __init__(self, c=8):
        super().__init__(c, -2)
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
    "capped": [],
    "capped_after": ["softcap_after_mask"],
    "World": [],
    "CrossedWorld": ["mask_fold_order"],
    "Shared": [],
    "SharedInTurn": [],
    "Turned": [],
    "TurnedTwice": ["unknown"],
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
def test_a_step_is_judged_by_what_comes_before_and_after_it(session: Session, module: Path, name: str) -> None:
    report = examine(session, f"{module}:{name}")
    assert sorted(f.id for f in report.findings if f.kind in ("mistake", "unknown")) == EXPECTED[name]


def test_key_heads_are_told_by_a_dictionary_too(session: Session, module: Path) -> None:
    report = examine(session, f"{module}:SharedInTurn")
    assert [f.id for f in report.findings if f.kind == "convention"] == ["gqa_tile"]
