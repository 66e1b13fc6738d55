"""Layers that annotations name, or that have all that is called, and settings that documentation names, are made."""

from __future__ import annotations

from pathlib import Path

import pytest

import overt
from swapped import right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class Projections(nn.Module):
    """Queries, keys and values of several heads.

    Args:
        query_dim (`int`): width, as that of (batch, seq_len, query_dim) which is mixed
        heads (`int`, *optional*, defaults to 8): as many are split, (batch, heads, seq_len)
    """

    def __init__(self, query_dim: int, cross_dim: int | None = None, heads: int = 8, dim_head: int = 64, drop=0.1):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head**-0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(cross_dim or query_dim, inner, bias=False)
        self.to_v = nn.Linear(cross_dim or query_dim, inner, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(inner, query_dim), nn.Dropout(drop)])

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    @torch.no_grad()
    def fuse(self, on: bool = True):
        w = torch.cat([self.to_q.weight, self.to_k.weight, self.to_v.weight])
        self.to_qkv = nn.Linear(*w.shape[::-1], bias=False, dtype=w.dtype)
        self.to_qkv.weight.copy_(w)

    def forward(self, x):
        return self.to_out[0](self.to_v(x))


class Processor:
    def __call__(self, attn: Projections, hidden: torch.Tensor, context: torch.Tensor | None = None, mask=None):
        context = hidden if context is None else context
        q, k, v = attn.split(attn.to_q(hidden)), attn.split(attn.to_k(context)), attn.split(attn.to_v(context))
        s = q @ k.transpose(-1, -2) * attn.scale
        if mask is not None:
            s = s.masked_fill(~mask, -1e9)
        return attn.to_out[1](attn.to_out[0]((s.softmax(-1) @ v).transpose(1, 2).flatten(2)))


class Fused:
    def __call__(self, attn: Projections, hidden: torch.Tensor):
        q, k, v = (attn.split(x) for x in attn.to_qkv(hidden).chunk(3, -1))
        return attn.to_out[0](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Koepfe(nn.Module):
    def __init__(self, breite: int, koepfe: int):
        super().__init__()
        assert breite % koepfe == 0
        self.n, self.packen, self.aus = koepfe, nn.Linear(breite, 3 * breite), nn.Linear(breite, breite)

    def forward(self, x):
        return self.aus(x)


def nameless(schicht, x):
    B, T, D = x.shape
    q, k, v = schicht.packen(x).view(B, T, 3, schicht.n, D // schicht.n).permute(2, 0, 3, 1, 4)
    w = torch.softmax(q @ k.mT / math.sqrt(D // schicht.n), -1)
    return schicht.aus((w @ v).transpose(1, 2).reshape(B, T, D))


class Residual(nn.Module):
    def __init__(self, inner: Projections, norm: nn.LayerNorm):
        super().__init__()
        self.inner, self.norm = inner, norm

    def forward(self, x):
        a, h = self.inner, self.norm(x)
        w = (a.split(a.to_q(h)) @ a.split(a.to_k(h)).mT * a.scale).softmax(-1)
        return x + a.to_out[0]((w @ a.split(a.to_v(h))).transpose(1, 2).flatten(2))


class Pictures:
    def __call__(self, attn: Projections, hidden, context=None):
        if context is not None:
            words, pictures = context[:, :3], context[:, 3:]
        if hidden.ndim == 4:
            hidden = hidden.flatten(2).transpose(1, 2)
        if context is None:
            context = hidden
        q, y = attn.split(attn.to_q(hidden)), 0
        for part in (words, pictures):
            w = (q @ attn.split(attn.to_k(part)).mT * attn.scale).softmax(-1)
            y = y + w @ attn.split(attn.to_v(part))
        return attn.to_out[0](y.transpose(1, 2).flatten(2))


class Settings:
    def __init__(self, kinds=None, width=768, heads=12):
        self.kinds, self.width, self.heads = kinds or [], width, heads


class Told(nn.Module):
    """Attention.

    Parameters:
        config (`Settings`):
            what it is made of.
    """

    def __init__(self, config, q_dim=None, kv_dim=None):
        super().__init__()
        self.heads, self.kinds = config.heads, config.kinds
        self.q, self.kv = nn.Linear(q_dim, config.width), nn.Linear(kv_dim, 2 * config.width)
        self.o = nn.Linear(config.width, config.width)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in (self.q(x), *self.kv(x).chunk(2, -1)))
        s = q @ k.mT / math.sqrt(q.shape[-1] * (1 + ("c2p" in self.kinds)))
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Part:
    def __init__(self, width=768, heads=4):
        self.width, self.heads = width, heads


class Pair:
    def __init__(self, text=None, size=512):
        self.text, self.size = text or Part(), size


class Tower(nn.Module):
    def __init__(self, config: Pair):
        super().__init__()
        if not isinstance(config.text, Part):
            raise TypeError("config.text is no Part")
        part = config.text
        self.heads, self.qkv = part.heads, nn.Linear(part.width, 3 * part.width)
        self.o = nn.Linear(part.width, config.size)

    def forward(self, x):
        q, k, v = (z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        w = (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
        return self.o((w @ v).transpose(1, 2).flatten(2))
'''

BOTH = [
    ("Processor", "k.transpose(-1, -2) * attn.scale", "k.transpose(-1, -2)  # here", "scale_missing"),
    (
        "Fused",
        "(q, k, v).transpose(1, 2).flatten(2)",
        "(q, k, v).reshape(hidden.shape)",
        {"merge_view": "hidden.shape"},
    ),
    ("nameless", "math.sqrt(D // schicht.n), -1)", "math.sqrt(D), -1)  # here", "scale_dmodel"),
    ("Residual", "a.scale).softmax(-1)", "a.scale).softmax(-2)  # here", "softmax_axis_q"),
    ("Pictures", "k(part)).mT * attn.scale", "k(part)).mT", {"scale_missing": "to_k(part)"}),
    ("Told", "self.kinds)))", "self.kinds))) ** 2", {"scale_d": "** 2"}),
    ("Tower", "math.sqrt(q.shape[-1])).softmax", "math.sqrt(q.shape[-2])).softmax", {"scale_seqlen": "[-2]"}),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)

BESIDE = """
import numpy as np


class Gewichte:
    def __init__(self, breite: int, seed: int):
        g = np.random.default_rng(seed)
        self.frage, self.ort, self.wert = (g.normal(0, breite**-0.5, (breite, breite)) for _ in range(3))
"""
ASKS = """
import numpy as np
from gewichte_hier import Gewichte


def attend(p: Gewichte, x):
    q, k, v = x @ p.frage, x @ p.ort, x @ p.wert
    s = q @ k.swapaxes(-1, -2) / np.sqrt(x.shape[-1])
    w = np.exp(s - s.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v
"""


@pytest.mark.parametrize(("axis", "ids"), [("-1", []), ("-2", ["softmax_axis_q"])])
def test_a_class_of_another_file_beside_it(tmp_path: Path, axis: str, ids: list[str]) -> None:
    (tmp_path / "gewichte_hier.py").write_text(BESIDE)
    file = tmp_path / "fragt.py"
    file.write_text(ASKS.replace("max(-1", f"max({axis}").replace("sum(-1", f"sum({axis}"))
    report = overt.check(f"{file}:attend")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == ids, str(report)
