"""Keys that are chosen and ordered, heads and texts that nobody gives, dropout that ends, and widths of numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report

SOURCE = '''
"""Things that attend."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Index:
    """Answers of the best few keys, listed with the best first."""

    sorts = True

    def __init__(self, keys, values, top=5):
        self.keys, self.values, self.top = np.asarray(keys, float), np.asarray(values, float), min(top, len(keys))

    def ask(self, queries):
        """queries (Q, d) -> answers (Q, dv), weights (Q, top)"""
        s = queries @ self.keys.T / self.keys.shape[1] ** 0.5
        found = np.sort(np.argpartition(-s, self.top - 1, axis=1)[:, :self.top], axis=1)
        best = np.take_along_axis(s, found, axis=1)
        order = np.argsort(-best, axis=1)
        best = np.take_along_axis(best, order, axis=1)
        cards = np.take_along_axis(found, order, axis=1) if self.sorts else found
        e = np.exp(best - best[:, :1])
        w = e / e.sum(1, keepdims=True)
        return np.einsum("qt,qtd->qd", w, self.values[cards]), w


class Unsorted(Index):
    """Answers of the best few keys, listed with the best first."""

    sorts = False


class Listed(nn.Module):
    """`present` is a boolean [batch, drugs], True where there is a drug."""

    def __init__(self, n_drugs=30, dim=24, heads=3):
        super().__init__()
        self.drug, self.dose = nn.Embedding(n_drugs, dim), nn.Linear(1, dim)
        self.att = nn.MultiheadAttention(dim, heads, batch_first=True)

    def forward(self, drugs, doses, present):
        x = self.drug(drugs) + self.dose(doses.unsqueeze(-1))
        return self.att(x, x, x, key_padding_mask=~present, need_weights=False)[0]


class Cloth(nn.Module):
    """Windows of an image; H and W must be multiples of their side."""

    def __init__(self, dim=12, heads=3, side=4):
        super().__init__()
        self.heads, self.side, self.norm, self.qkv = heads, side, nn.LayerNorm(dim), nn.Linear(dim, 3 * dim)

    def factor(self, c):
        return (c // self.heads) ** -0.5

    def forward(self, x):
        b, h, w, c = x.shape
        n = self.side
        y = self.norm(x).view(b, h // n, n, w // n, n, c).transpose(2, 3).reshape(-1, n * n, c)
        q, k, v = self.qkv(y).view(len(y), n * n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(2, 3) * self.factor(c)).softmax(-1) @ v).transpose(1, 2)
        return x + y.reshape(b, h // n, w // n, n, n, c).transpose(2, 3).reshape(b, h, w, c)


class Fabric(Cloth):
    """Windows of an image; H and W must be multiples of their side."""

    def factor(self, c):
        return c ** -0.5


@dataclass
class Scalar:
    hidden_size: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    query_pre_attn_scalar: float = 16.0


class Capped(nn.Module):
    """Scores are divided by the root of what the configuration says."""

    def __init__(self, config: Scalar = Scalar()):
        super().__init__()
        self.cfg, self.scaling = config, config.query_pre_attn_scalar ** -0.5
        wide, whole, few = config.hidden_size, config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q, self.k, self.v = nn.Linear(wide, whole), nn.Linear(wide, few), nn.Linear(wide, few)
        self.o = nn.Linear(whole, wide)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (f(x).view(b, t, -1, self.cfg.head_dim).transpose(1, 2) for f in (self.q, self.k, self.v))
        k, v = (z.repeat_interleave(q.shape[1] // z.shape[1], dim=1) for z in (k, v))
        return self.o(((q @ k.transpose(2, 3) * self.scaling).softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class Silenced(nn.Module):
    """Dropout acts in training only, on the weights and on what is added."""

    def __init__(self, size=32, heads=4, dropout=0.1):
        super().__init__()
        self.heads, self.inner, self.out = heads, nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.dropout, self.residual = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        if not self.training:
            self.dropout.p = 0.0
        q, k, v = self.inner(x).view(*x.shape[:2], 3, self.heads, -1).transpose(1, 3).unbind(2)
        y = self.dropout((q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1)) @ v
        return x + self.residual(self.out(y.transpose(1, 2).flatten(2)))


class Halved(nn.Module):
    """x [B, T, dim], in half precision inside."""

    def __init__(self, dim=32):
        super().__init__()
        self.q, self.k = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, x):
        s = self.q(x).half() @ self.k(x).half().transpose(1, 2) * x.shape[-1] ** -0.5
        s = s.masked_fill(torch.ones(s.shape[1:], dtype=torch.bool).triu(1), -1e9)
        return s.softmax(-1).to(x.dtype) @ x


class Uneven(nn.Module):
    """x [B, T, dim], one token after the other; all but the last few are forgotten."""

    def __init__(self, dim=32, heads=4, few=3):
        super().__init__()
        self.heads, self.few, self.inner, self.out = heads, few, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        outs, past = [], None
        for token in x.unbind(1):
            q, k, v = self.inner(token).view(len(x), 3, self.heads, 1, -1).unbind(1)
            k, v = (k, v) if past is None else (torch.cat((a, b), 2) for a, b in zip(past, (k, v)))
            past = k[:, :, -self.few - 1:], v[:, :, -self.few:]
            outs.append(self.out(F.scaled_dot_product_attention(q, *past).flatten(1)))
        return torch.stack(outs, 1)


def grouped(params, x, n_heads, n_kv_heads):
    """x [T, D]; consecutive query heads share one key head."""
    T = x.shape[0]
    q = (x @ params["wq"]).reshape(T, n_heads, -1)
    k, v = ((x @ params[n]).reshape(T, n_kv_heads, -1).repeat(n_heads // n_kv_heads, axis=1) for n in ("wk", "wv"))
    s = np.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hts,shd->thd", e / e.sum(-1, keepdims=True), v).reshape(T, -1) @ params["wo"]


def tiled(params, x, n_heads, n_kv_heads):
    """x [T, D]; consecutive query heads share one key head."""
    T = x.shape[0]
    q = (x @ params["wq"]).reshape(T, n_heads, -1)
    k, v = (np.tile((x @ params[n]).reshape(T, n_kv_heads, -1), (1, n_heads // n_kv_heads, 1)) for n in ("wk", "wv"))
    s = np.einsum("thd,shd->hts", q, k) / q.shape[-1] ** 0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hts,shd->thd", e / e.sum(-1, keepdims=True), v).reshape(T, -1) @ params["wo"]


def matrices(dim, n_heads, n_kv_heads):
    r, few = np.random.default_rng(0), dim // n_heads * n_kv_heads
    return {n: r.normal(size=(dim, o)) / dim ** 0.5 for n, o in (("wq", dim), ("wk", few), ("wv", few), ("wo", dim))}


def mapped(x, sd, pre, heads):
    q, k, v = (x @ sd[pre + "attn.qkv.weight"].T).reshape(len(x), 3, heads, -1).transpose(1, 2, 0, 3)
    return np.einsum("hid,hjd->hij", q, k), v


def vision(x, sd, pre="blocks.0.", heads=6):
    """x [tokens, dim] -> [tokens, dim]"""
    s, v = mapped(x, sd, pre, heads)
    s = s / v.shape[-1] ** 0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    y = np.einsum("hij,hjd->ihd", e / e.sum(-1, keepdims=True), v).reshape(x.shape)
    return x + y @ sd[pre + "attn.proj.weight"].T


def sharp_vision(x, sd, pre="blocks.0.", heads=6):
    """x [tokens, dim] -> [tokens, dim]"""
    s, v = mapped(x, sd, pre, heads)
    e = np.exp(s - s.max(-1, keepdims=True))
    y = np.einsum("hij,hjd->ihd", e / e.sum(-1, keepdims=True), v).reshape(x.shape)
    return x + y @ sd[pre + "attn.proj.weight"].T
'''

RIGHT = ("Index", "Listed", "Cloth", "Capped", "grouped", "vision")
WRONG = {
    "Unsorted": "unknown",
    "Fabric": "scale_dmodel",
    "Silenced": "dropout_stuck_off",
    "Halved": "mask_fp16_overflow",
    "tiled": "gqa_tile",
    "sharp_vision": "scale_missing",
    "Uneven": "kv_len_mismatch",
}


@pytest.fixture(scope="module")
def check(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    file = tmp_path_factory.mktemp("ordered") / "ordered.py"
    file.write_text(SOURCE)

    return lambda name: examine(session, f"{file}:{name}")


@pytest.mark.parametrize("name", RIGHT)
def test_right(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == [WRONG[name]], str(report)
