"""What was called right though it was wrong, each by a rule of its own, and beside it what is like it and right."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

NEEDS_JAX = pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")

SOURCE = '''# Rows of query_key_value.weight are grouped by heads, as in GPT-NeoX: [n_head, 3, head_size].

import math
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = jnp = None

class Dropped(nn.Module):
    def __init__(self, breite, koepfe, anteil):
        super().__init__()
        self.koepfe, self.kopf = koepfe, breite // koepfe
        self.wq, self.wk, self.wv = nn.Linear(breite, breite), nn.Linear(breite, breite), nn.Linear(breite, breite)
        self.anteil = anteil

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        w = F.dropout(torch.softmax(q @ k.mT / math.sqrt(self.kopf), -1), self.anteil)  # Dropped
        return (w @ v).transpose(1, 2).flatten(2)

class DroppedInTraining(Dropped):
    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        w = F.dropout(torch.softmax(q @ k.mT / math.sqrt(self.kopf), -1), self.anteil, self.training)
        return (w @ v).transpose(1, 2).flatten(2)

class Changes(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.count = heads, 0
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, bias):
        """x (B, T, D); bias (H, T, T)"""
        self.count += 1
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        bias += torch.eye(x.size(1))  # Changes
        return ((q @ k.mT / math.sqrt(q.size(-1)) + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)

class StopsDropping(Dropped):
    def __init__(self, width, heads):
        super().__init__(width, heads, 0.0)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        if not self.training:
            self.drop.p = 0.0  # StopsDropping
        q, k, v = (w(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        w = self.drop(torch.softmax(q @ k.mT / math.sqrt(self.kopf), -1))
        return (w @ v).transpose(1, 2).flatten(2)

class FactorBelow(Dropped):
    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(
            q, k, v,
            scale=x.size(-1) ** -0.5,  # FactorBelow
        )
        return y.transpose(1, 2).flatten(2)

class Added(Dropped):
    def forward(self, x, mask=None):
        """mask (B, T), True for what may be seen"""
        x = x.float()
        q, k, v = (w.float()(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        s = q @ k.mT / math.sqrt(self.kopf)
        if mask is not None:
            s = s + mask[:, None, None].to(s.dtype)  # Added
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

class Choices:
    """
    kv_heads : query head h reads key head h // (heads // kv_heads)
    window   : how many tokens a query sees, itself included
    cap      : scores become cap * tanh(scores / cap)
    """
    def __init__(self, dim, heads, kv_heads, window=4, cap=20.0):
        self.dim, self.heads, self.kv_heads = dim, heads, kv_heads
        self.window, self.cap = window, cap

class AsChosen(nn.Module):
    """Causal."""
    def __init__(self, c: Choices):
        super().__init__()
        self.c, d = c, c.dim // c.heads
        self.cap = c.cap
        self.q, self.k, self.v = (nn.Linear(c.dim, n * d) for n in (c.heads, c.kv_heads, c.kv_heads))

    def far(self):
        return self.c.window - 1

    def capped(self, s):
        return self.cap * torch.tanh(s / self.cap)

    def repeated(self, x):
        return x.repeat_interleave(self.c.heads // self.c.kv_heads, 1)

    def forward(self, x):
        c, n = self.c, x.size(1)
        q = self.q(x).unflatten(-1, (c.heads, -1)).transpose(1, 2)
        k, v = (self.repeated(w(x).unflatten(-1, (c.kv_heads, -1)).transpose(1, 2)) for w in (self.k, self.v))
        s = self.capped(q @ k.mT / math.sqrt(q.size(-1)))
        back = torch.arange(n)[:, None] - torch.arange(n)
        s = s.masked_fill((back < 0) | (back > self.far()), -math.inf)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

class NotAsChosen(nn.Module):
    """Causal."""
    def __init__(self, c: Choices):
        super().__init__()
        self.c, d = c, c.dim // c.heads
        self.cap = c.cap
        self.q, self.k, self.v = (nn.Linear(c.dim, n * d) for n in (c.heads, c.kv_heads, c.kv_heads))

    def forward(self, x):
        c, n = self.c, x.size(1)
        q = self.q(x).unflatten(-1, (c.heads, -1)).transpose(1, 2)
        k, v = (w(x).unflatten(-1, (c.kv_heads, -1)).transpose(1, 2).repeat(1, c.heads // c.kv_heads, 1, 1)
                for w in (self.k, self.v))
        back = torch.arange(n)[:, None] - torch.arange(n)
        s = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill((back < 0) | (back > c.window), -math.inf)
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

def turn(x, angles):
    c, s = angles[:, None].cos(), angles[:, None].sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, a * s + b * c], -1)

class TurnedBack(Dropped):
    """x (B, T, D), seconds (B, T)"""
    def __init__(self, width, heads):
        super().__init__(width, heads, 0.0)

    def of_keys(self, angles):
        return -angles  # TurnedBack

    def forward(self, x, seconds):
        q, k, v = (w(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        angles = seconds[..., None] * 0.1 ** torch.arange(self.kopf // 2)
        q, k = turn(q, angles), turn(k, self.of_keys(angles))
        return ((q @ k.mT / math.sqrt(self.kopf)).softmax(-1) @ v).transpose(1, 2).flatten(2)

class TurnedAlike(TurnedBack):
    """x (B, T, D), seconds (B, T)"""
    def of_keys(self, angles):
        return angles

def split(x, w, heads):
    return (x @ w).reshape(len(x), heads, -1).transpose(1, 0, 2)

def softmax(s):
    w = np.exp(s - s.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)

def copied(x, w, heads):
    """x (T, D); w: a dict of matrices (D, D)"""
    q = split(x, w["query"], heads)
    k = split(x, w["key"], heads)
    v = split(x, w["key"], heads)  # copied
    y = softmax(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])) @ v
    return y.transpose(1, 0, 2).reshape(x.shape)

def once(x, w, heads):
    """x (T, D); w: a dict of matrices (D, D)"""
    q = split(x, w["query"], heads)
    k = v = split(x, w["key"], heads)
    y = softmax(q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])) @ v
    return y.transpose(1, 0, 2).reshape(x.shape)

class Tied(Dropped):
    def __init__(self, width, heads):
        super().__init__(width, heads, 0.0)
        self.wv = self.wk

    def forward(self, x):
        q = self.wq(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2)
        k = self.wk(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2)
        v = self.wv(x).unflatten(-1, (self.koepfe, -1)).transpose(1, 2)
        return ((q @ k.mT / math.sqrt(self.kopf)).softmax(-1) @ v).transpose(1, 2).flatten(2)

def by_thirds(x, query_key_value, heads):
    """x (B, T, D), query_key_value (D, 3D)"""
    B, T, D = x.shape
    qkv = (x @ query_key_value).reshape(B, T, 3, heads, -1)  # by_thirds
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    w = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1]), -1)
    return jnp.einsum("bhts,bshd->bthd", w, v).reshape(B, T, D)

def by_heads(x, query_key_value, heads):
    """x (B, T, D), query_key_value (D, 3D)"""
    B, T, D = x.shape
    qkv = (x @ query_key_value).reshape(B, T, heads, 3, -1)
    q, k, v = qkv[..., 0, :], qkv[..., 1, :], qkv[..., 2, :]
    w = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1]), -1)
    return jnp.einsum("bhts,bshd->bthd", w, v).reshape(B, T, D)

def relative(x, p, heads, right):
    """x (B, T, D); p: Wq, Wk, Wv (D, D) and Er (H, T, D / H), whose last row is of distance 0.  Causal."""
    B, T, D = x.shape
    q, k, v = ((x @ p[n]).reshape(B, T, heads, -1).transpose(0, 2, 1, 3) for n in ("Wq", "Wk", "Wv"))
    e = np.einsum("bhld,hmd->bhlm", q, p["Er"][:, -T:])
    zeros = np.zeros((B, heads, T, 1))
    e = np.concatenate([e, zeros] if right else [zeros, e], -1).reshape(B, heads, T + 1, T)[:, :, 1:]  # skewed
    s = (q @ k.swapaxes(2, 3) + e) / math.sqrt(q.shape[-1])
    s = np.where(np.triu(np.ones((T, T), bool), 1), -np.inf, s)
    w = np.exp(s - s.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(B, T, D)

def skewed(x, p, heads):
    """x (B, T, D); p: Wq, Wk, Wv (D, D) and Er (H, T, D / H), whose last row is of distance 0.  Causal."""
    return relative(x, {"Wq": p["Wq"], "Wk": p["Wk"], "Wv": p["Wv"], "Er": p["Er"]}, heads, True)

def unskewed(x, p, heads):
    """x (B, T, D); p: Wq, Wk, Wv (D, D) and Er (H, T, D / H), whose last row is of distance 0.  Causal."""
    return relative(x, {"Wq": p["Wq"], "Wk": p["Wk"], "Wv": p["Wv"], "Er": p["Er"]}, heads, False)

def sharpened(memory, keys, strength):
    \"\"\"Cosines of memory (B, N, W) and keys (B, R, W), times strength (B, R)\"\"\"
    norms = np.linalg.norm(keys, axis=-1)[:, :, None] * np.linalg.norm(memory, axis=-1)[:, None]
    z = strength[..., None] * (keys @ memory.swapaxes(1, 2)) / (norms + 1e-8)
    w = np.exp(z - z.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)

def near(n, left, right):
    \"\"\"True where seen: a frame sees itself, the `left` frames before it and the `right` frames after it.\"\"\"
    away = torch.arange(n) - torch.arange(n)[:, None]
    return (away >= -left) & (away <= right)

def nearer(n, left, right):
    \"\"\"True where seen: a frame sees itself, the `left` frames before it and the `right` frames after it.\"\"\"
    away = torch.arange(n) - torch.arange(n)[:, None]
    return (away > -left) & (away <= right)  # Nearer

class Near(nn.Module):
    def __init__(self, dim, left=16, right=2):
        super().__init__()
        self.qkv, self.sides, self.made = nn.Linear(dim, 3 * dim), (left, right), near

    def forward(self, frames):
        q, k, v = self.qkv(frames).chunk(3, -1)
        seen = self.made(q.shape[1], *self.sides)
        return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -math.inf).softmax(-1) @ v

class Nearer(nn.Module):
    def __init__(self, dim, left=16, right=2):
        super().__init__()
        self.left, self.right, self.qkv = left, right, nn.Linear(dim, 3 * dim)

    def forward(self, frames):
        q, k, v = self.qkv(frames).chunk(3, -1)
        seen = nearer(q.shape[1], self.left, self.right)
        return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~seen, -math.inf).softmax(-1) @ v

class OneKeyHead(nn.Module):
    first, later = 1, 0

    def __init__(self, width, n_heads):
        super().__init__()
        assert n_heads & (n_heads - 1) == 0, "a power of two"
        self.heads, self.d = n_heads, width // n_heads
        self.qkv = nn.Linear(width, width + 2 * self.d)
        self.register_buffer("slopes", 2.0 ** (-8 / n_heads * torch.arange(self.first, n_heads + self.first)))  # slopes

    def forward(self, x):
        \"\"\"x (B, T, D); causal, with ALiBi.\"\"\"
        B, T, W = x.shape
        q, k, v = self.qkv(x).split([W, self.d, self.d], -1)
        s = torch.einsum("bthd,bsd->bhts", q.view(B, T, self.heads, self.d), k) * self.d**-0.5
        away = torch.arange(T)[:, None] - torch.arange(T)
        s = s - self.slopes.to(x.dtype)[:, None, None] * away
        s = s.masked_fill(away < -self.later, -math.inf)  # later
        return torch.einsum("bhts,bsd->bthd", s.softmax(-1), v).reshape(B, T, W)

class OneKeyHeadFromZero(OneKeyHead):
    first = 0

class OneKeyHeadAhead(OneKeyHead):
    later = 1
'''


@pytest.mark.parametrize(
    ("name", "wrong", "marked"),
    [
        ("Dropped", {"dropout_eval"}, "# Dropped"),
        ("DroppedInTraining", set(), ""),
        ("Changes", {"inplace"}, "# Changes"),
        ("StopsDropping", {"dropout_stuck_off"}, "# StopsDropping"),
        ("FactorBelow", {"scale_dmodel"}, "# FactorBelow"),
        ("Added", {"mask_bool_as_float"}, "# Added"),
        ("AsChosen", set(), ""),
        ("NotAsChosen", {"window_off_by_one", "gqa_tile", "softcap_missing"}, ""),
        ("TurnedBack", {"unknown"}, "# TurnedBack"),
        ("TurnedAlike", set(), ""),
        ("copied", {"shared_projection"}, "# copied"),
        ("once", set(), ""),
        ("Tied", set(), ""),
        pytest.param("by_thirds", {"qkv_order"}, "# by_thirds", marks=NEEDS_JAX),
        pytest.param("by_heads", set(), "", marks=NEEDS_JAX),
        ("skewed", {"unknown"}, "# skewed"),
        ("unskewed", set(), ""),
        ("sharpened", set(), ""),
        ("Near", set(), ""),
        ("Nearer", {"window_off_by_one"}, "# Nearer"),
        ("OneKeyHead", set(), ""),
        ("OneKeyHeadFromZero", {"alibi_slopes"}, "# slopes"),
        ("OneKeyHeadAhead", {"causal_off_by_one"}, "# later"),
    ],
)
def test_each(session: Session, file: Path, name: str, wrong: set[str], marked: str) -> None:
    report = examine(session, f"{file}:{name}")
    found = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    assert {f.id for f in found} == wrong, report
    assert "called with" in report.convention
    lines = SOURCE.splitlines()
    for finding in found if marked else ():
        assert lines[(finding.where or {"line": 0})["line"] - 1].endswith(marked), finding
