"""Calls that need more than arrays: sides of clips, weights by names, states of layers, edges, pools of pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from overt.check.calls.call import LADDER, Guess, Tried
from overt.check.calls.mending import mended
from overt.check.checking import examine
from overt.check.process.session import Session
from overt.recorder.operations import holds, leaves

SOURCE = '''
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn

def places(win):
    t, h, w = win
    return t * h * w

class Cubes(nn.Module):
    """x (B, N, C)"""

    power = -0.5

    def __init__(self, dim, win, heads):
        super().__init__()
        self.win, self.heads = tuple(win), heads
        self.bias = nn.Parameter(torch.zeros(heads, 1, places(self.win)))
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = q @ k.mT * q.shape[-1] ** self.power + self.bias[..., :N]
        return self.out((a.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))

class Clips(Cubes):
    def __init__(self, dim, win=(2, 4, 4), heads=3):
        super().__init__(dim, win, heads)

    def forward(self, x):
        B, F, H, W, C = x.shape
        f, h, w = self.win
        x = x.view(B, F // f, f, H // h, h, W // w, w, C).permute(0, 1, 3, 5, 2, 4, 6, 7)
        y = super().forward(x.reshape(-1, f * h * w, C)).view(B, F // f, H // h, W // w, f, h, w, C)
        return y.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(B, F, H, W, C)

class ClipsWrong(Clips):
    power = -1

def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)

class Store:
    def __init__(self, layers, room, dim):
        self.k, self.v = np.zeros((layers, room, dim)), np.zeros((layers, room, dim))
        self.used = 0

class Reader:
    def __init__(self, weights, cfg):
        self.w, self.cfg = weights, cfg

    def new_store(self, room=64):
        return Store(self.cfg["n_layers"], room, self.cfg["dim"])

    def mix(self, i, x, store):
        w, p, past = self.w, "layers.%d.mix." % i, store.used
        q, store.k[i, past : past + len(x)] = x @ w[p + "wq"].T, x @ w[p + "wk"].T
        store.v[i, past : past + len(x)] = x @ w[p + "wv"].T
        k, v = store.k[i, : past + len(x)], store.v[i, : past + len(x)]
        s = q @ k.T / np.sqrt(q.shape[-1])
        s = np.where(np.arange(len(k)) > past + np.arange(len(x))[:, None], -np.inf, s)
        return softmax(s) @ v @ w[p + "wo"].T

    def __call__(self, ids, store):
        x = self.w["table"][np.asarray(ids)]
        for i in range(self.cfg["n_layers"]):
            x = x + self.mix(i, x, store)
        store.used += len(ids)
        return x

    def greedy(self, ids, n):
        store, out = self.new_store(len(ids) + n), []
        y = self(ids, store)
        for _ in range(n):
            out.append(int(y[-1].argmax()))
            y = self(out[-1:], store)
        return out

def shared(cfg, p, x):
    q, k, v = (np.einsum("bld,ndh->bnlh", x, p[n]) for n in ("q", "k", "v"))
    y = softmax(q @ k.swapaxes(-1, -2) * cfg["per_query"] ** -0.5) @ v
    return np.einsum("bnlh,nhd->bld", y.reshape(*x.shape[:1], cfg["num_heads"], -1, cfg["head_dim"]), p["o"])

class Stack(nn.Module):
    def __init__(self, wide, dim, layers):
        super().__init__()
        self.cells = nn.ModuleList(nn.LSTMCell(dim if n else wide, dim) for n in range(layers))

    def forward(self, x, state):
        h0, c0 = state
        hs, cs = [], []
        for i, cell in enumerate(self.cells):
            x, c = cell(x, (h0[i], c0[i]))
            hs.append(x)
            cs.append(c)
        return x, (torch.stack(hs), torch.stack(cs))

class Feeding(nn.Module):
    """tanh(W [c; h]) of Luong; words (tgt_len, batch), memory (src_len, batch, dim)."""

    bend = torch.tanh

    def __init__(self, vocab, emb, dim, layers=2):
        super().__init__()
        self.words, self.rnn = nn.Embedding(vocab, emb), Stack(emb + dim, dim, layers)
        self.a, self.c = nn.Linear(dim, dim, bias=False), nn.Linear(2 * dim, dim, bias=False)

    def forward(self, words, memory, state):
        feed, out, keys = memory[0] * 0, [], memory.transpose(0, 1)
        for one in self.words(words):
            h, state = self.rnn(torch.cat([one, feed], 1), state)
            a = torch.softmax((keys @ self.a(h)[:, :, None])[..., 0], 1)
            feed = type(self).bend(self.c(torch.cat([(a[:, None] @ keys)[:, 0], h], 1)))
            out.append(feed)
        return torch.stack(out), state

class FeedingWrong(Feeding):
    bend = lambda x: x

class Knoten(nn.Module):
    power = -0.5

    def __init__(self, dim):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, punkte, anfang, ende):
        q, k, v = self.q(punkte)[ende], self.k(punkte)[anfang], self.v(punkte)[anfang]
        s = (q * k).sum(-1) * q.shape[-1] ** self.power
        e = torch.exp(s - s.max())
        z = torch.zeros(len(punkte), dtype=e.dtype).index_add(0, ende, e)
        return torch.zeros_like(punkte).index_add(0, ende, (e / z[ende])[:, None] * v)

class KnotenWrong(Knoten):
    power = -1

def columns(X, W):
    Y = []
    for Wq, Wk, Wv in zip(W["q"], W["k"], W["v"]):
        Q, K, V = Wq @ X, Wk @ X, Wv @ X
        Y.append(V @ softmax((K.T @ Q).T / np.sqrt(len(K))).T)
    return W["o"] @ np.vstack(Y)

class Pool:
    def __init__(self, num_pages, page_size, heads, dim):
        self.page_size = page_size
        self.k, self.v = (torch.zeros(num_pages, page_size, heads, dim) for _ in "kv")
        self.free, self.tables, self.lens = list(range(num_pages)), {}, {}

    def begin(self, name):
        if name in self.tables:
            raise KeyError(name)
        self.tables[name], self.lens[name] = [], 0

    def append(self, name, k, v):
        for one, two in zip(k, v):
            n = self.lens[name]
            if n % self.page_size == 0:
                self.tables[name].append(self.free.pop())
            page = self.tables[name][-1]
            self.k[page, n % self.page_size], self.v[page, n % self.page_size] = one, two
            self.lens[name] = n + 1

def pooled(q, pool: Pool, names):
    n, heads, d = q.shape
    most = max(len(pool.tables[name]) for name in names)
    table = torch.zeros(n, most, dtype=torch.long)
    for row, name in enumerate(names):
        table[row, : len(pool.tables[name])] = torch.tensor(pool.tables[name])
    lens = torch.tensor([pool.lens[name] for name in names])
    k, v = (x[table].flatten(1, 2) for x in (pool.k, pool.v))
    s = torch.einsum("nhd,nthd->nht", q.float(), k) / d**0.5
    s = s.masked_fill(torch.arange(k.shape[1]) >= lens[:, None, None], -torch.inf)
    return torch.einsum("nht,nthd->nhd", s.softmax(-1), v).to(q.dtype)

@dataclass
class Fields:
    num_pages: int
    page_size: int
    heads: int
    d: int
    tables: dict = field(default_factory=dict)

    def __post_init__(self):
        self.k, self.v = (torch.zeros(self.num_pages, self.page_size, self.heads, self.d) for _ in "kv")
        self.free = list(range(self.num_pages))

    def append(self, name, k, v):
        for one, two in zip(k, v):
            table = self.tables.setdefault(name, [])
            table.append(self.free.pop() if len(table) % self.page_size == 0 else table[-1])
            place = (len(table) - 1) % self.page_size
            self.k[table[-1], place], self.v[table[-1], place] = one, two

    def gather(self, name):
        table = torch.tensor(self.tables[name])
        place = torch.arange(len(table)) % self.page_size
        return self.k[table, place], self.v[table, place]

def fields(q, pool: Fields, names):
    """q [B, H, d]"""
    out = []
    for one, name in zip(q, names):
        held = len(pool.tables[name])
        k, v = pool.gather(name)
        a = torch.softmax(torch.einsum("hd,nhd->hn", one.float(), k[:held]) / q.shape[-1] ** 0.5, -1)
        out.append(torch.einsum("hn,nhd->hd", a, v[:held]))
    return torch.stack(out).to(q.dtype)
'''

JAX = """
import jax
import jax.numpy as jnp

def stepped(q, k, cache, pos):
    '''q, k (B, T, D), cache (B, S, D)'''
    kept = jax.lax.dynamic_update_slice(cache, k, (0, pos, 0))
    s = q @ kept.swapaxes(1, 2) / jnp.sqrt(q.shape[-1])
    seen = jnp.arange(kept.shape[1]) <= pos + jnp.arange(q.shape[1])[:, None]
    return jax.nn.softmax(jnp.where(seen, s, -jnp.inf), -1) @ kept
"""


@pytest.mark.parametrize(
    "name", ["Cubes", "Clips", "Reader", "shared", "Feeding", "Knoten", "columns", "pooled", "fields"]
)
def test_what_needs_more_than_arrays_is_called(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert report.ok, report


@pytest.mark.parametrize(
    ("name", "mistake"),
    [("ClipsWrong", "scale_d"), ("FeedingWrong", "luong_no_tanh_out"), ("KnotenWrong", "scale_d")],
)
def test_what_is_wrong_there_is_found(session: Session, file: Path, name: str, mistake: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert [f.id for f in report.findings if f.kind == "mistake"] == [mistake], report


def test_where_something_begins_is_a_number(session: Session, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    (tmp_path / "steps.py").write_text(JAX)
    report = examine(session, f"{tmp_path / 'steps.py'}:stepped")
    assert report.ok, report
    assert "pos: 0" in report.convention["called with"]


def test_an_axis_that_is_cut_has_two_windows() -> None:
    """Also where there is less of it than of one."""
    guess = Guess(((("x",), "BThwW"),), LADDER[0])
    message = "shape '[2, 2, 2, 0, 4, 0, 4, 12]' is invalid for input of size 480"
    first = next(mended(guess, {"message": message, "arguments": ["x"]}, lambda path: True))
    assert first.lengths.shape("BThwW") == (2, 4, 8, 8, 12)


def test_a_call_is_shown_in_one_short_line() -> None:
    guess = Guess(tuple((("weights", f"layers.{n}.weight"), "WW") for n in range(40)), LADDER[0])
    error = {"type": "ValueError", "message": "no such\nthing " * 40 + "."}
    told = str(Tried(guess, {"error": error}))
    assert len(told) < 420
    assert "\n" not in told
    assert told[-1] != "."


def test_what_fields_do_not_name_lies_in_their_object_too() -> None:
    @dataclass
    class Plain:
        one: int = 1

    @dataclass
    class More(Plain):
        def __post_init__(self) -> None:
            self.two = 2

    made = More()
    assert leaves((Plain(), made)) == [1, 1, made]
    assert [holds(Plain()), holds(made)] == [False, True]
