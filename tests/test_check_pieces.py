"""Pieces and their ends, documented lengths, numbers half as wide, what a flag gives, and where a line is decided."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report
from overt.check.text.lines import counted_at, failed_at

SOURCE = '''
"""Things that attend."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Kept:
    def __init__(self):
        self.k = self.v = None

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat((self.k, k), 2)
        self.v = v if self.v is None else torch.cat((self.v, v), 2)
        return self.k, self.v


class Chunks(nn.Module):
    """prompt (B, T, 24), a few tokens at a time; everything is causal."""

    right = True

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(24, 72), nn.Linear(24, 24)

    def piece(self, x, kept):
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.inner(x).chunk(3, -1))
        k, v = kept.append(k, v)
        see = torch.ones(q.size(2), k.size(2), dtype=torch.bool).tril(k.size(2) - q.size(2) if self.right else 0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
        return self.outer(y.transpose(1, 2).flatten(2))

    def forward(self, prompt):
        kept = Kept()
        return torch.cat([self.piece(x, kept) for x in prompt.split(4, 1)], 1)


class TopLeft(Chunks):
    """prompt (B, T, 24), a few tokens at a time; everything is causal."""

    right = False


class Dictation(nn.Module):
    """text [B, T, 24] asks audio [B, S, 24], after itself."""

    right = True

    def __init__(self):
        super().__init__()
        self.own, self.other = (nn.ModuleList(nn.Linear(24, 24) for _ in range(4)) for _ in range(2))

    def _heads(self, x, length):
        return x.view(len(x), length, 3, 8).transpose(1, 2)

    def attend(self, maps, x, y, mask=0.0):
        q = self._heads(maps[0](x), (x if self.right else y).shape[1])
        k = self._heads(maps[1](y), y.shape[1])
        v = self._heads(maps[2](y), y.shape[1])
        w = (q @ k.transpose(2, 3) / 8**0.5 + mask).softmax(-1)
        return maps[3]((w @ v).transpose(1, 2).reshape(x.shape))

    def forward(self, text, audio):
        T = text.shape[1]
        text = text + self.attend(self.own, text, text, torch.full((T, T), float("-inf")).triu(1))
        return text + self.attend(self.other, text, audio)


class Misheard(Dictation):
    """text [B, T, 24] asks audio [B, S, 24], after itself."""

    right = False


class Half:
    """score(tokens, n_tokens) -> a number for each document.  Its weights are float16."""

    fill = None

    def __init__(self, dim=32, dtype=torch.float16):
        self.maps = [nn.Linear(dim, dim).to(dtype) for _ in range(3)]
        self.dtype = dtype

    @torch.no_grad()
    def __call__(self, tokens, n_tokens):
        x = tokens.to(self.dtype)
        q, k, v = (m(x) for m in self.maps)
        keep = torch.arange(x.shape[1]) < n_tokens[:, None]
        s = (q @ k.transpose(1, 2)) * q.shape[-1] ** -0.5
        s = s.masked_fill(~keep[:, None], torch.finfo(s.dtype).min if self.fill is None else self.fill)
        return (s.float().softmax(-1).to(v.dtype) @ v)[:, 0].float().sum(-1)


class Overfilled(Half):
    """score(tokens, n_tokens) -> a number for each document.  Its weights are float16."""

    fill = -1e9


class Ranker(nn.Module):
    """A session's events, of which lengths[b] are real, read for a query; items are what it is compared with."""

    right = True

    def __init__(self, query=10, event=14, item=12, dim=24):
        super().__init__()
        self.query, self.event, self.item = nn.Linear(query, dim), nn.Linear(event, dim), nn.Linear(item, dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)

    def forward(self, query, events, lengths, items):
        # query B x query_dim, events B x T x event_dim, items B x N x item_dim
        h, q = self.event(events), self.query(query)
        real = torch.arange(events.shape[1]) < lengths[:, None]
        y, _ = self.attn(q[:, None], h, h, key_padding_mask=~real if self.right else real, need_weights=False)
        return torch.einsum("bd,bnd->bn", q + y[:, 0], self.item(items))


class Misread(Ranker):
    """A session's events, of which lengths[b] are real, read for a query; items are what it is compared with."""

    right = False


class Strip(nn.Module):
    """windows [B, n, 12] -> what each of 4 alarms reads; return_attention: and how much of each window."""

    right = True

    def __init__(self):
        super().__init__()
        self.alarms, self.keys = nn.Parameter(torch.randn(4, 12)), nn.Linear(12, 12)

    def forward(self, windows, return_attention=False):
        s = self.alarms @ self.keys(windows).transpose(1, 2) / 12**0.5
        w = s.softmax(-1)
        y = w @ windows
        if return_attention:
            return y, w if self.right else s
        return y


class Scored(Strip):
    """windows [B, n, 12] -> what each of 4 alarms reads; return_attention: and how much of each window."""

    right = False


class Caption(nn.Module):
    """forward(feats, words) -> logits and the attention weights of every word."""

    right = True

    def __init__(self, vocab, feat=12, hid=10):
        super().__init__()
        self.word, self.cell, self.out = nn.Embedding(vocab, 6), nn.LSTMCell(6 + feat, hid), nn.Linear(hid, vocab)
        self.feat, self.state, self.score = nn.Linear(feat, 8), nn.Linear(hid, 8), nn.Linear(8, 1)
        self.first = nn.Linear(feat, hid)

    def forward(self, feats, words):
        h = c = torch.tanh(self.first(feats.mean(1)))
        logits, alphas = [], []
        for t in range(words.size(1)):
            e = self.score(torch.tanh(self.feat(feats) + self.state(h)[:, None])).squeeze(2)
            a = e.softmax(1)
            h, c = self.cell(torch.cat([self.word(words[:, t]), (a[:, None] @ feats)[:, 0]], 1), (h, c))
            logits.append(self.out(h))
            alphas.append(a if self.right else e)
        return torch.stack(logits, 1), torch.stack(alphas, 1)


class Energies(Caption):
    """forward(feats, words) -> logits and the attention weights of every word."""

    right = False


class Radius(nn.Module):
    """Position i of x [B, L, dim] sees i - radius .. i + radius, clipped at the ends."""

    def __init__(self, dim, heads, radius):
        super().__init__()
        self.heads, self.radius, self.maps = heads, radius, nn.Linear(dim, 3 * dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.maps(x).chunk(3, -1))
        r = self.radius
        k, v = (F.pad(t, (0, 0, r, r)).unfold(2, 2 * r + 1, 1) for t in (k, v))
        s = torch.einsum("bhld,bhldw->bhlw", q, k) * q.shape[-1] ** -0.5
        there = F.pad(torch.ones(n, dtype=torch.bool), (r, r)).unfold(0, 2 * r + 1, 1)
        w = s.masked_fill(~there, float("-inf")).softmax(-1)
        return torch.einsum("bhlw,bhldw->bhld", w, v).transpose(1, 2).reshape(b, n, c)


class Interest(nn.Module):
    """As in the paper the weights are not normalised with a softmax; item 0 is padding, and weighs 0."""

    def __init__(self, items=100, dim=16):
        super().__init__()
        self.item = nn.Embedding(items, dim, padding_idx=0)
        self.unit = nn.Sequential(nn.Linear(4 * dim, 20), nn.PReLU(), nn.Linear(20, 1))
        self.tower = nn.Linear(2 * dim, 1)

    def forward(self, ad_id, click_ids):
        """ad_id [B], click_ids [B, T] (0 = pad) -> logit [B]"""
        ad, clicks = self.item(ad_id), self.item(click_ids)
        one = ad[:, None].expand_as(clicks)
        w = self.unit(torch.cat([clicks, one, clicks - one, clicks * one], -1)).squeeze(-1)
        w = w.masked_fill(click_ids == 0, 0.0)
        return self.tower(torch.cat([torch.bmm(w[:, None], clicks)[:, 0], ad], -1)).squeeze(-1)


class Bags(nn.Module):
    """Instances [sum of sizes, dim], a softmax within each bag."""

    def __init__(self, dim):
        super().__init__()
        self.v, self.u, self.w = nn.Linear(dim, 8), nn.Linear(dim, 8), nn.Linear(8, 1)

    def forward(self, h, sizes):
        logits = self.w(torch.tanh(self.v(h)) * torch.sigmoid(self.u(h)))
        bags = zip(h.split(sizes.tolist()), logits.split(sizes.tolist()))
        return torch.stack([(torch.softmax(e, 0).t() @ x)[0] for x, e in bags])


def voiced_only(x, voiced):
    """x [N, T, D], voiced [N, T] in {0, 1}: frames without a voice are no keys"""
    s = x @ x.swapaxes(1, 2) / np.sqrt(x.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True)) * voiced[:, None]
    return p / p.sum(-1, keepdims=True) @ x


def voiced_after(x, voiced):
    """x [N, T, D], voiced [N, T] in {0, 1}: frames without a voice are no keys"""
    s = x @ x.swapaxes(1, 2) / np.sqrt(x.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) * voiced[:, None] @ x


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def linear(q, k, v):
    """q, k, v (N, H, D) -> (N, H, D)"""
    q, f = phi(q), phi(k)
    y = np.einsum("nhd,hde->nhe", q, np.einsum("nhd,nhe->hde", f, v))
    return y / (np.einsum("nhd,hd->nh", q, f.sum(0))[..., None] + 1e-6)


def linear_of_keys(q, k, v):
    """q, k, v (N, H, D) -> (N, H, D)"""
    q, f = phi(q), phi(k)
    y = np.einsum("nhd,hde->nhe", q, np.einsum("nhd,nhe->hde", f, v))
    return y / (np.einsum("nhd,hd->nh", q, k.sum(0))[..., None] + 1e-6)


def story(params, lines, question, hops=2):
    """lines: int (n, J).  question: int (J,).  params: 'E' list of hops + 1 word tables (V, d)."""
    u = params["E"][0][question].sum(0)
    for k in range(hops):
        m, c = params["E"][k][lines].sum(1), params["E"][k + 1][lines].sum(1)
        s = m @ u
        p = np.exp(s - s.max())
        u = u + p / p.sum() @ c
    return params["E"][hops] @ u


class Reader:
    def __init__(self, wq, wk, wv, heads):
        self.wq, self.wk, self.wv, self.heads = wq, wk, wv, heads

    def __call__(self, queries, memory):
        n, m = queries.shape[0], memory.shape[0]
        q = (queries @ self.wq).reshape(n, self.heads, -1)
        k = (memory @ self.wk).reshape(m, self.heads, -1)
        v = (memory @ self.wv).reshape(m, self.heads, -1)
        s = np.einsum("nhd,mhd->nhm", q, k) / np.sqrt(q.shape[-1])
        e = np.exp(s - s.max(-1, keepdims=True))
        return np.einsum("nhm,mhd->nhd", e / e.sum(-1, keepdims=True), v).reshape(n, -1)


class Pool:
    """A token of each request, its keys in blocks of a pool.  q, k, v (N, heads, dim)"""

    def __init__(self, heads=4, dim=8, blocks=16, size=4):
        self.k, self.v = (torch.zeros(blocks * size, heads, dim) for _ in range(2))
        self.size, self.free, self.blocks, self.length = size, list(range(blocks)), {}, {}

    def rows(self, name):
        first = torch.tensor(self.blocks[name]) * self.size
        return (first[:, None] + torch.arange(self.size)).reshape(-1)[: self.length[name]]

    def decode(self, names: list[str], q, k, v):
        out = []
        for i, name in enumerate(names):
            mine, n = self.blocks.setdefault(name, []), self.length.get(name, 0)
            if n == len(mine) * self.size:
                mine.append(self.free.pop(0))
            self.k[mine[-1] * self.size + n % self.size] = k[i]
            self.v[mine[-1] * self.size + n % self.size] = v[i]
            self.length[name] = n + 1
            at = self.rows(name)
            w = (torch.einsum("hd,thd->ht", q[i], self.k[at]) * q.shape[-1] ** -0.5).softmax(-1)
            out.append(torch.einsum("ht,thd->hd", w, self.v[at]))
        return torch.stack(out)


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, 6) for _ in range(3))

    def forward(self, x):
        return (self.q(x) @ self.k(x).transpose(1, 2) / 6**0.5).softmax(-1) @ self.v(x)


class Several(nn.Module):
    """x [B, T, 12]"""

    def __init__(self):
        super().__init__()
        self.parts = [Head(12) for _ in range(2)]
        self.out = nn.Linear(12, 12)

    def forward(self, x):
        sizes = [x.shape[1]]
        return self.out(torch.cat([part(x) for part in self.parts], -1)[:, : sizes[0]])
'''

MODEL = '''
"""A small model.  Decoder-only: a token sees itself and the tokens before it, and no padded one."""
import numpy as np


def capped(q, k, v, valid, cap, causal):
    s = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    s = cap * np.tanh(s / cap)
    s = np.where(valid[:, None, None, :], s, -1e30)
    if causal:
        s = np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhts,bshd->bthd", p / p.sum(-1, keepdims=True), v)


def uncapped(q, k, v, valid, cap, causal):
    s = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[-1])
    s = np.where(valid[:, None, None, :], s, -1e30)
    s = np.where(np.tri(s.shape[-1], dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("bhts,bshd->bthd", p / p.sum(-1, keepdims=True), v)


def gemma(q, k, v, valid):
    """q, k, v (B, T, H, D), valid (B, T) bool, True = a token"""
    return capped(q, k, v, valid, 50.0, True)


def gemma_seeing(q, k, v, valid):
    """q, k, v (B, T, H, D), valid (B, T) bool, True = a token"""
    return capped(q, k, v, valid, 50.0, False)


def gemma_uncapped(q, k, v, valid):
    """q, k, v (B, T, H, D), valid (B, T) bool, True = a token"""
    return uncapped(q, k, v, valid, 50.0, True)
'''

RIGHT = ("Chunks", "Dictation", "Half", "Ranker", "Strip", "Caption", "gemma", "Radius", "Interest", "Bags",
         "voiced_only", "linear", "story", "Reader", "Pool")  # fmt: skip
# Mistakes, and what stands in the line.
WRONG = {
    "TopLeft": ("causal_top_left", ""),
    "Misheard": ("cross_wrong_length", "q = self._heads"),
    "Overfilled": ("mask_fp16_overflow", "masked_fill"),
    "Misread": ("mask_inverted", "key_padding_mask"),
    "Scored": ("returns_scores", ""),
    "Energies": ("returns_scores", ""),
    "gemma_seeing": ("causal_missing", ""),
    "gemma_uncapped": ("softcap_missing", ""),
    "voiced_after": ("mask_after_softmax", "* voiced"),
    "linear_of_keys": ("unknown", "k.sum(0)"),
    "Several": ("python_list", "self.parts = ["),
}


@pytest.fixture(scope="module")
def check(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    folder = tmp_path_factory.mktemp("pieces")
    (folder / "pieces.py").write_text(SOURCE)
    (folder / "model.py").write_text(MODEL)
    return lambda name: examine(session, f"{folder / ('model' if 'gemma' in name else 'pieces')}.py:{name}")


@pytest.mark.parametrize("name", RIGHT)
def test_right(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    found = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    mistake, text = WRONG[name]
    assert [f.id for f in found] == [mistake], str(report)
    assert found[0].where is None or text in found[0].where["text"], str(report)


def test_keys_that_are_asked_twice(session: Session, tmp_path: Path) -> None:
    (tmp_path / "pool.py").write_text(SOURCE.replace("(self.blocks[name]) * self.size", "(self.blocks[name])"))
    report = examine(session, f"{tmp_path / 'pool.py'}:Pool")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == ["unknown"], str(report)
    assert "a second time" in report.findings[0].message


TURNED = """
def turn(x, cos, sin):
    return x * cos + half(x) * sin


class Rotary:
    def forward(self, x, start=0):
        n = x.shape[-2]
        c, s = self.cos[start:start + n], self.sin[start:start + n]
        return x * c + half(x) * s


class Attention:
    def __init__(self):
        self.rotary = Rotary()

    def counted_at(self, x, past=None):
        q, k = self.split(x)
        places = torch.arange(x.shape[1])
        q, k = turn(q, *angles(places)), turn(k, *angles(places))

    def sliced(self, x, past=None):
        q, k = self.split(x)
        q = turn(q, self.cos[:len(x)], self.sin[:len(x)])

    def read(self, x, past=None):
        q, k = self.split(x)
        seen = past[0].shape[1] if past is not None else 0
        q, k = self.rotary(q, seen), self.rotary(k, seen)

    def left(self, x, past=None):
        q, k = self.split(x)
        q = self.rotary(q)
"""


@pytest.mark.parametrize(
    ("line", "decides"),
    [
        ("q, k = turn(q, *angles", "places = torch.arange"),
        ("q = turn(q, self.cos[:len(x)]", "q = turn(q, self.cos[:len(x)]"),
        ("q, k = self.rotary(q, seen)", "seen = past[0].shape[1]"),
        ("return x * c + half", "q = self.rotary(q)"),
    ],
)
def test_positions_are_counted_where_it_is_decided(tmp_path: Path, line: str, decides: str) -> None:
    (tmp_path / "turned.py").write_text(TURNED)
    texts = TURNED.splitlines()
    number = next(n for n, text in enumerate(texts, 1) if line in text)
    assert decides in texts[counted_at(str(tmp_path / "turned.py"), number) - 1]


def test_a_helper_that_is_called_at_several_places_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "helped.py").write_text("def f(x):\n    return x\n\n\ndef g(x):\n    y = f(x)\n    return f(y)\n")
    assert failed_at(str(tmp_path / "helped.py"), [6, 2]) == 6
    assert failed_at(str(tmp_path / "helped.py"), [2]) == 2
