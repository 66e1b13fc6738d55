"""What a file hands on: masks, tables of turns, stores of one step after the other, blocks, names that results have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session

Mistakes = Callable[[str], list[str]]

SOURCE = '''import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def turn(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin

class Residues(nn.Module):
    factor = 1.0

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.dh = heads, width // heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x, table):
        def by_head(t):
            return t.view(*x.shape[:2], self.heads, self.dh).transpose(1, 2)
        cos, sin = table
        # scaled before it is turned
        q = turn(by_head(self.q(x) * (self.factor * self.dh ** -0.5)), cos, sin)
        s = q @ turn(by_head(self.k(x)), cos, sin).mT
        return (s.softmax(-1) @ by_head(self.v(x))).transpose(1, 2).flatten(2)

class ResiduesTwice(Residues):
    @property
    def factor(self):
        return self.dh ** -0.5

class Documented(Residues):
    def forward(self, x, cos, sin):
        """x (B, n, width); cos, sin: [n, dh]"""
        return super().forward(x, (cos, sin))

def hidden(seen):
    """[B, L] bool -> [B, 1, L, L] of 0 and -1e30; causal"""
    ok = np.tril(np.ones((seen.shape[1],) * 2, bool)) & seen[:, None]
    return np.where(ok | np.eye(seen.shape[1], dtype=bool), 0.0, -1e30)[:, None]

def capped(q, k, v, mask, cap=5.0):
    """q, k, v [B, H, T, D]"""
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    return softmax(cap * np.tanh(s / cap) + mask) @ v

def capped_late(q, k, v, mask, cap=5.0):
    """q, k, v [B, H, T, D]"""
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask
    return softmax(cap * np.tanh(s / cap)) @ v

def layer(q, k, v, mask):
    return capped(q, k, v, mask) + capped_late(q, k, v, mask)

def model(q, k, v, seen):
    m = hidden(seen)
    return layer(q, k, v, m)

class Fenster(nn.Module):
    """Jeder Schritt sieht genau `fenster` Schritte: sich selbst und die fenster - 1 davor."""
    more = 0

    def __init__(self, breite, fenster):
        super().__init__()
        self.fenster, self.rein = fenster, nn.Linear(breite, 3 * breite)

    def forward(self, x):
        q, k, v = self.rein(x).chunk(3, -1)
        i = torch.arange(x.shape[1])
        fern = i[:, None] - i
        s = q @ k.mT / math.sqrt(q.shape[-1])
        s = s.masked_fill((fern < 0) | (fern >= self.fenster + self.more), -math.inf)
        return s.softmax(-1) @ v

class FensterDazu(Fenster):
    more = 1

class Roll:
    """Keys and values of the last `span` steps of one layer: [heads, t, dh]."""
    def __init__(self, heads, dh, span):
        self.span = span
        self.k = self.v = np.zeros((heads, 0, dh))

    def push(self, k, v):
        self.k = np.concatenate([self.k, k], axis=1)[:, -self.span:]
        self.v = np.concatenate([self.v, v], axis=1)[:, -self.span:]

    def push_before(self, k, v):
        self.k = np.concatenate([self.k, k], axis=1)[:, -self.span:]
        self.v = np.concatenate([v, self.v], axis=1)[:, : self.span]

def step(p, x, roll, h, by=Roll.push, power=0.5):
    """One new token x [d] looks at itself and at the cached steps before it."""
    d = x.shape[0]
    q, k, v = ((x @ p[n]).reshape(h, 1, d // h) for n in "qkv")
    by(roll, k, v)
    s = (q @ roll.k.transpose(0, 2, 1)) / (d // h) ** power
    return (softmax(s) @ roll.v).reshape(d) @ p["o"]

def step_before(p, x, roll, h):
    """One new token x [d] looks at itself and at the cached steps before it."""
    return step(p, x, roll, h, Roll.push_before)

def step_by_width(p, x, roll, h):
    """One new token x [d] looks at itself and at the cached steps before it."""
    return step(p, x, roll, h, power=1)

class Tiles(nn.Module):
    """keep: bool [B, n], True = tile may be attended to."""
    def __init__(self, dim, heads, block=32):
        super().__init__()
        self.heads, self.block, self.qkv = heads, block, nn.Linear(dim, 3 * dim, bias=False)

    def join(self, num, fix, more):
        return num * fix + more

    def forward(self, x, keep):
        B, n, D = x.shape
        q, k, v = self.qkv(x).view(B, n, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        q = q * (D // self.heads) ** -0.5
        top = torch.full((B, self.heads, n, 1), -1e30, dtype=x.dtype)
        den, num = torch.zeros_like(top), torch.zeros_like(q)
        for a in range(0, n, self.block):
            s = q @ k[:, :, a:a + self.block].mT
            s = s.masked_fill(~keep[:, None, None, a:a + self.block], -math.inf)
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p, fix = torch.exp(s - new), torch.exp(top - new)
            den = den * fix + p.sum(-1, keepdim=True)
            num, top = self.join(num, fix, p @ v[:, :, a:a + self.block]), new
        return (num / den.clamp_min(1e-20)).transpose(1, 2).reshape(B, n, D)

class TilesUnscaled(Tiles):
    def join(self, num, fix, more):
        return num + more

def partial(q, k, v):
    s = np.einsum("hd,hnd->hn", q, k) * (q.shape[-1] ** -0.5 / math.log(2))
    top = s.max(-1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(-1, keepdims=True)
    return np.einsum("hn,hnd->hd", p / total, v), (top + np.log2(total))[:, 0]

def in_splits(q, k, v, n_splits, power=np.exp2):
    """softmax(q k^T / sqrt(d)) v for a single query token, computed in n_splits pieces."""
    H, n, d = k.shape
    edges = np.linspace(0, n, n_splits + 1).astype(int)
    some = [partial(q, k[:, a:b], v[:, a:b]) for a, b in zip(edges[:-1], edges[1:]) if a < b]
    outs, sums = (np.stack(one) for one in zip(*some))
    w = power(sums - sums.max(0))
    return (w[..., None] * outs).sum(0) / w.sum(0)[:, None]

def in_splits_of_e(q, k, v, n_splits):
    """softmax(q k^T / sqrt(d)) v for a single query token, computed in n_splits pieces."""
    return in_splits(q, k, v, n_splits, np.exp)

class Decisions(nn.Module):
    """question [Lq, dim] x paragraphs [Lp, dim] -> [Lq, dim]"""
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.memo = nn.Linear(dim, dim), nn.Linear(dim, dim), {}

    def train(self, mode=True):
        self.memo.clear()
        return super().train(mode)

    def forward(self, question, paragraphs, doc_id=None):
        """doc_id: name of the decision (its paragraphs never change)"""
        k = self.memo.get(doc_id)
        if k is None:
            k = self.k(paragraphs)
        if doc_id is not None:
            self.memo[doc_id] = k
        return (self.q(question) @ k.mT / math.sqrt(k.shape[-1])).softmax(-1) @ paragraphs

class DecisionsWeighed(Decisions):
    def forward(self, question, paragraphs, doc_id=None):
        """doc_id: name of the decision (its paragraphs never change)"""
        w = self.memo.get(doc_id)
        if w is None:
            w = (self.q(question) @ self.k(paragraphs).mT / math.sqrt(question.shape[-1])).softmax(-1)
        if doc_id is not None:
            self.memo[doc_id] = w
        return w @ paragraphs

class Cell(nn.Module):
    def __init__(self, enc, hid, n_out):
        super().__init__()
        self.W, self.U, self.v = nn.Linear(enc, hid), nn.Linear(hid, hid), nn.Linear(hid, 1)
        self.rnn = nn.GRUCell(enc + n_out, hid)

    def forward(self, state, memory, prev):
        e = self.v(torch.tanh(self.W(memory) + self.U(state)[:, None])).squeeze(2)
        alpha = e.softmax(1)
        return self.rnn(torch.cat([(alpha[:, None] @ memory)[:, 0], prev], 1), state), alpha

def attend(w, pre, x, cache, heads):
    """x [T, dim] new tokens, cache a dict that keeps k and v between calls.  Causal."""
    T, hd = len(x), x.shape[-1] // heads
    q, k, v = ((x @ w[pre + n].T).reshape(T, heads, hd) for n in ("wq", "wk", "wv"))
    past = len(cache["k"]) if "k" in cache else 0
    if past:
        k, v = np.concatenate([cache["k"], k]), np.concatenate([cache["v"], v])
    cache["k"], cache["v"] = k, v
    s = np.einsum("thd,shd->hts", q, k) / math.sqrt(hd)
    s = np.where(np.arange(len(k)) > np.arange(past, past + T)[:, None], -np.inf, s)
    return np.einsum("hts,shd->thd", softmax(s), v).reshape(T, -1) @ w[pre + "wo"].T

def sees(w, i, x, n_heads, root=0.5):
    """attention of layer i over x [L, D]"""
    q, k, v = (t.reshape(len(x), n_heads, -1).swapaxes(0, 1) for t in np.split(x @ w[f"b{i}.wqkv"], 3, axis=1))
    s = q @ k.swapaxes(1, 2) / q.shape[-1] ** root
    return (softmax(s) @ v).swapaxes(0, 1).reshape(x.shape) @ w[f"b{i}.wo"]

def sees_by_width(w, i, x, n_heads):
    """attention of layer i over x [L, D]"""
    return sees(w, i, x, n_heads, 1)

class One(nn.Module):
    def __init__(self, dim, hd):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, hd) for _ in range(3))

    def forward(self, x, by):
        return (self.q(x) @ self.k(x).mT / by).softmax(-1) @ self.v(x)

class Several(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.heads = nn.ModuleList([One(dim, dim // n_heads) for _ in range(n_heads)])
        self.by, self.o = math.sqrt(dim // n_heads), nn.Linear(dim, dim)

    def forward(self, x):
        """x [B, N, dim]"""
        return self.o(torch.cat([h(x, self.by) for h in self.heads], -1))

class SeveralByNumber(Several):
    def __init__(self, dim, n_heads):
        super().__init__(dim, n_heads)
        self.by = math.sqrt(n_heads)

class Neighbours(nn.Module):
    """An agent without neighbours gets zeros."""
    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.rel = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(2, dim)

    def forward(self, h, pos, near):
        S, A, _ = h.shape
        delta = self.rel(pos[:, None, :, :] - pos[:, :, None, :])
        k = self.k(h)[:, None] + delta
        e = (self.q(h)[:, :, None] * k).sum(-1) / h.shape[-1] ** 0.5
        e = e.masked_fill(~near, -math.inf).masked_fill(~near.any(2)[..., None], 0.0)
        return (e.softmax(2).masked_fill(~near, 0.0)[..., None] * k).sum(2)
'''


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Residues", []),
        ("ResiduesTwice", ["scale_d"]),
        ("Documented", []),
        ("capped", []),
        ("capped_late", ["softcap_after_mask"]),
        ("Fenster", []),
        ("FensterDazu", ["window_off_by_one"]),
        ("step", []),
        ("step_before", ["unknown"]),
        ("step_by_width", ["scale_d"]),
        ("Tiles", []),
        ("TilesUnscaled", ["unknown"]),
        ("in_splits", []),
        ("in_splits_of_e", ["lse_base2"]),
        ("Decisions", []),
        ("DecisionsWeighed", ["cache_key"]),
        ("Cell", []),
        ("Neighbours", []),
        ("attend", []),
        ("sees", []),
        ("sees_by_width", ["scale_d"]),
        ("Several", []),
        ("SeveralByNumber", ["scale_num_heads"]),
    ],
)
def test_each(mistakes: Mistakes, name: str, wanted: list[str]) -> None:
    assert mistakes(name) == wanted


TURNED = '''import torch
from torch import nn

def rotary(x, offset=0):
    n, d = x.shape[-2:]
    a = torch.arange(offset, offset + n)[:, None] * 100.0 ** (-torch.arange(0, d, 2) / d)
    a = torch.cat([a, a], -1).to(x.dtype)
    return x * a.cos() + torch.cat([-x[..., d // 2:], x[..., : d // 2]], -1) * a.sin()

class Served(nn.Module):
    """Causal attention of pieces; kept (k, v) of those before."""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd, self.qkv = heads, dim // heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, kept=None):
        B, n, dim = x.shape
        q, k, v = self.qkv(x).view(B, n, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        q, k = rotary(q), rotary(k)
        if kept is not None:
            k, v = torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)
        see = torch.ones(n, k.shape[2], dtype=torch.bool).tril(k.shape[2] - n)
        s = (q @ k.mT / self.hd ** 0.5).masked_fill(~see, -torch.inf)
        return (s.softmax(-1) @ v).transpose(1, 2).reshape(B, n, dim), (k, v)

def squash(s, cap):
    return cap * torch.tanh(s / cap)

def late(q, k, v, mask, cap=5.0):
    """q, k, v (B, T, D); mask: True = keep"""
    s = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -1e30)
    s = squash(s, cap)
    return s.softmax(-1) @ v

class Folded(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dk, self.q, self.kv = heads, dim // heads, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def fold(self, x):
        x = x.view(*x.shape[:2], self.heads, self.dk).permute(0, 2, 1, 3)
        return x.reshape(-1, x.shape[2], self.dk)

    def forward(self, audio, video):
        B, T, _ = audio.shape
        q, (k, v) = self.fold(self.q(audio)), map(self.fold, self.kv(video).chunk(2, -1))
        x = (q @ k.mT / self.dk ** 0.5).softmax(-1) @ v
        x = x.view(self.heads, B, T, self.dk).permute(1, 2, 0, 3)
        return x.reshape(B, T, self.heads * self.dk)
'''


@pytest.mark.parametrize(
    ("name", "mistake", "text"),
    [
        ("Served", "rope_offset", "q, k = rotary(q), rotary(k)"),
        ("late", "softcap_after_mask", "s = squash(s, cap)"),
        ("Folded", "fold_batch_head_swap", "x = x.view(self.heads, B, T, self.dk).permute(1, 2, 0, 3)"),
    ],
)
def test_lines_are_those_where_it_is_decided(
    session: Session, tmp_path: Path, name: str, mistake: str, text: str
) -> None:
    file = tmp_path / f"decided_{name.lower()}.py"
    file.write_text(TURNED)
    (found,) = (f for f in examine(session, f"{file}:{name}").findings if f.id == mistake)
    assert found.where is not None
    assert found.where["text"] == text
