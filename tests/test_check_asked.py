"""What is given together, in lists, by flags, or one word at a time; what is chosen by attention; whose line it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.process.session import Session
from swapped import right_and_wrong
from test_check_chosen import found

SOURCE = '''
"""present is 1 for who is there: the others get no weight."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Prior(nn.Module):
    """x (B, N, C); seen (B, N) bool, True for what is read; prior (B, N, N), added to the scores of all layers."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

    def forward(self, x, seen=None, prior=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        if prior is None:
            prior = x.new_zeros(len(x), x.shape[1], x.shape[1])
        if seen is not None:
            prior = prior.masked_fill(~seen[:, None, :], -torch.inf)
        w = (q @ k.mT / q.shape[-1] ** 0.5 + prior[:, None]).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)


class Players:
    def __init__(self, d=8):
        random = np.random.RandomState(0)
        self.q, self.k, self.v = (random.normal(size=(6, d)) for _ in range(3))

    def __call__(self, x, present=None):
        s = (x @ self.q) @ (x @ self.k).T / np.sqrt(self.q.shape[1])
        if present is not None:
            s = np.where(np.asarray(present)[None, :] > 0, s, -np.inf)
        return softmax(s) @ (x @ self.v)


def pesos(ancho=32, n_q=4, n_kv=2, semilla=7):
    g = np.random.default_rng(semilla)
    d = ancho // n_q
    return {"q": g.normal(size=(ancho, ancho)), "k": g.normal(size=(n_kv * d, ancho)),
            "v": g.normal(size=(n_kv * d, ancho)), "o": g.normal(size=(ancho, ancho))}


class Grupos:
    """Grupos consecutivos, como en Llama."""

    def __init__(self, pesos, n_q, n_kv):
        self.p, self.n_q, self.n_kv = pesos, n_q, n_kv

    def __call__(self, x):
        t = len(x)
        q = (x @ self.p["q"].T).reshape(t, self.n_q, -1)
        k, v = ((x @ self.p[name].T).reshape(t, self.n_kv, -1) for name in "kv")
        k, v = (np.repeat(y, self.n_q // self.n_kv, 1) for y in (k, v))
        s = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(q.shape[-1])
        return np.einsum("hij,jhd->ihd", softmax(s), v).reshape(t, -1) @ self.p["o"].T


@dataclass(frozen=True)
class Config:
    dim: int = 64
    heads: int = 4
    # number of tokens that a token of a local layer sees, itself included
    sliding_window: int = 8


class Local(nn.Module):
    """Causal, and local where it is said so."""

    def __init__(self, config: Config, local: bool):
        super().__init__()
        self.config, self.local = config, local
        self.qkv = nn.Linear(config.dim, 3 * config.dim)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (y.unflatten(-1, (self.config.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        away = torch.arange(n)[:, None] - torch.arange(n)
        hidden = away < 0
        if self.local:
            hidden = hidden | (away >= self.config.sliding_window)
        w = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)


class Chunked(nn.Module):
    """x (B, C, dim): a chunk, which sees what was kept and all of itself.  state: a dict {k, v}, changed in place."""

    def __init__(self, dim=64, heads=4, left=20):
        super().__init__()
        self.heads, self.left, self.q, self.kv = heads, left, nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, x, state=None):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (self.q(x), *self.kv(x).chunk(2, -1)))
        if state is not None:
            if state["k"] is not None:
                k, v = torch.cat((state["k"], k), 2), torch.cat((state["v"], v), 2)
            state["k"], state["v"] = k[:, :, -self.left :], v[:, :, -self.left :]
        w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)


class Biased:
    """logits[h, i, j] = q[h, i] . k[h, j] / sqrt(d) + bias[h, i, j]

    params: wq, wk and wv of shape (dim, dim); x (L, dim); bias (H, L, L).
    """

    def __init__(self, params, heads):
        self.p, self.h, self.d = params, heads, params["wq"].shape[1] // heads

    def __call__(self, x, bias):
        q, k, v = ((x @ self.p[n]).reshape(len(x), self.h, self.d).transpose(1, 0, 2) for n in ("wq", "wk", "wv"))
        logits = bias + q @ k.transpose(0, 2, 1) / np.sqrt(self.d)
        return (softmax(logits) @ v).transpose(1, 0, 2).reshape(len(x), -1)


class Word(nn.Module):
    """mot : indice du mot précédent, cache: (1, 1, H), sorties: (L, H)"""

    def __init__(self, cachee, sortie):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(sortie, cachee), nn.GRU(2 * cachee, cachee)
        self.a, self.b, self.v = nn.Linear(cachee, cachee), nn.Linear(cachee, cachee), nn.Linear(cachee, 1)

    def forward(self, mot, cache, sorties):
        e = self.embedding(mot).view(1, 1, -1)
        w = F.softmax(self.v(torch.tanh(self.a(cache[0]) + self.b(sorties))), 0)
        y, cache = self.gru(torch.cat((e, (w * sorties).sum(0)[None, None]), -1), cache)
        return y[0], cache, w


class Tour(nn.Module):
    """memory (L, B, dim), hidden (B, dim): where attention points to is what comes next.  Gives the way of each."""

    def __init__(self, dim):
        super().__init__()
        self.cell, self.v = nn.GRUCell(dim, dim), nn.Linear(dim, 1)
        self.a, self.b = nn.Linear(dim, dim), nn.Linear(dim, dim)

    def forward(self, memory, hidden):
        x, ways = memory.mean(0), []
        for _ in range(len(memory)):
            hidden = self.cell(x, hidden)
            w = self.v(torch.tanh(self.a(hidden) + self.b(memory))).squeeze(-1).softmax(0)
            hidden = hidden + torch.einsum("lb,lbd->bd", w, memory)
            x = memory[w.argmax(0), torch.arange(memory.shape[1])]
            ways.append(hidden)
        return torch.stack(ways)


def attend(cfg, p, x, kv=None):
    """Causal; x (T, D) are the tokens after those in kv.  Gives (T, D), and kv that has grown, each (S, H, d)."""
    H, d = cfg["H"], cfg["D"] // cfg["H"]
    q, k, v = (a.reshape(len(x), H, d) for a in np.split(x @ p["qkv"], 3, -1))
    if kv is not None:
        k, v = np.concatenate([kv[0], k]), np.concatenate([kv[1], v])
    see = np.tril(np.ones((len(q), len(k)), bool), len(k) - len(q))
    s = np.where(see, np.einsum("thd,shd->hts", q, k) / np.sqrt(d), -np.inf)
    return np.einsum("hts,shd->thd", softmax(s), v).reshape(len(x), -1) @ p["o"], (k, v)


class Clicks(nn.Module):
    """forward([candidate (B, E), clicks (B, T, E), many (B,)]) -> (B, E)

    many: how many of the clicks are real, at least one.
    """

    def __init__(self, width):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * width, 8), nn.Sigmoid(), nn.Linear(8, 1))

    def forward(self, inputs):
        cand, clicks, many = inputs
        c = cand[:, None].expand_as(clicks)
        s = self.score(torch.cat([c, clicks, c - clicks, c * clicks], -1)).squeeze(-1)
        real = torch.arange(clicks.shape[1])[None] < torch.as_tensor(many)[:, None]
        w = s.masked_fill(~real, -torch.inf).softmax(-1)
        return (w[:, None] @ clicks)[:, 0]


class Store:
    def __init__(self):
        self.rows = OrderedDict()

    def get(self, name):
        if name in self.rows:
            self.rows.move_to_end(name)
            return self.rows[name]
        return None


def weigh(q, k):
    return torch.softmax(torch.einsum("bhd,nhd->bhn", q, k) / q.shape[-1] ** 0.5, -1)


class Places(nn.Module):
    """pose (B, P), marks (N, F): what is worth a look.  Marks that have a name are kept until training."""

    def __init__(self, pose, mark, dim=32, heads=4):
        super().__init__()
        self.heads, self.q, self.kv = heads, nn.Linear(pose, dim), nn.Linear(mark, 2 * dim)
        self.known = Store()

    def forward(self, pose, marks, name=None):
        key = None if self.training or name is None else name
        q, hit = self.q(pose).view(len(pose), self.heads, -1), self.known.get(key)
        if hit is None:
            k, v = self.kv(marks).view(len(marks), 2, self.heads, -1).unbind(1)
            hit = k, v
            self.known.rows.update({} if key is None else {key: hit})
        w = weigh(q, hit[0])
        return torch.einsum("bhn,nhd->bhd", w, hit[1]).flatten(1)


class Hours(nn.Module):
    """x (B, T, dim): an hour sees itself and those before."""

    def __init__(self, dim, heads, dropout=0.1, most=32):
        super().__init__()
        self.heads, self.dropout, self.qkv = heads, dropout, nn.Linear(dim, 3 * dim)
        self.register_buffer("tril", torch.tril(torch.ones(most, most)))

    def train(self, mode=True):
        super().train(mode)
        return self

    def forward(self, x):
        n = x.shape[1]
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        scale = q.size(-1) ** -0.5
        s = torch.matmul(q, k.mT) * scale
        w = s.masked_fill(self.tril[:n, :n] == 0, -torch.inf).softmax(-1)
        return (F.dropout(w, self.dropout, self.training) @ v).transpose(1, 2).flatten(2)
'''

# A candidate, what stands in the place of what in it, and what is found then: in the line that ends in "here".
WRONG = [
    ("Prior", "prior = prior.masked_fill(", "prior = prior.masked_fill_(", "inplace"),
    (
        "Players",
        "s = np.where(np.asarray(present)[None, :] > 0, s, -np.inf)",
        "s = s * np.asarray(present)[None, :]  # here",
        "mask_times_scores",
    ),
    ("Grupos", "(np.repeat(y, self.n_q // self.n_kv, 1)", "(np.tile(y, (1, self.n_q // self.n_kv, 1))", "gqa_tile"),
    (
        "Local",
        "(away >= self.config.sliding_window)",
        "(away > self.config.sliding_window)  # here",
        "window_off_by_one",
    ),
    ("Chunked", 'torch.cat((state["v"], v), 2)', 'torch.cat((v, state["v"]), 2)', "decode_differs"),
    ("Biased", "logits = bias + q @", "logits = bias\n        logits += q @", "inplace"),
    (
        "Word",
        "self.a(cache[0]) + self.b(sorties)",
        "self.a(cache[0]) + self.b(torch.ones_like(sorties))",
        "additive_ignores_keys",
    ),
    (
        "Tour",
        "self.v(torch.tanh(self.a(hidden) + self.b(memory)))",
        "self.v(self.a(hidden) + self.b(memory))",
        "additive_no_tanh",
    ),
    ("attend", "(len(q), len(k)), bool), len(k) - len(q))", "(len(q), len(k)), bool))  # here", "causal_top_left"),
    (
        "Clicks",
        "s.masked_fill(~real, -torch.inf).softmax(-1)",
        "s.softmax(-1).masked_fill(~real, 0)",
        "mask_after_softmax",
    ),
    (
        "Places",
        """None else name
        q, hit = self.q(pose).view(len(pose), self.heads, -1), self.known.get(key)
        if hit is None:
            k, v = self.kv(marks).view(len(marks), 2, self.heads, -1).unbind(1)
            hit = k, v
            self.known.rows.update({} if key is None else {key: hit})
        w = weigh(q, hit[0])
""",
        """None else name  # here
        q, hit = self.q(pose).view(len(pose), self.heads, -1), self.known.get(key)
        if hit is None:
            k, v = self.kv(marks).view(len(marks), 2, self.heads, -1).unbind(1)
            hit = weigh(q, k), v
            self.known.rows.update({} if key is None else {key: hit})
        w = hit[0]
""",
        "cache_key",
    ),
    (
        "Hours",
        "super().train(mode)\n",
        "super().train(mode)\n        self.dropout = self.dropout if mode else 0.0  # here\n",
        "dropout_stuck_off",
    ),
    (
        "Hours",
        "torch.tril(torch.ones(most, most)))",
        "torch.tril(torch.ones(most, most), 1))  # here",
        "causal_off_by_one",
    ),
    ("Hours", "scale = q.size(-1) ** -0.5", "scale = x.size(-1) ** -0.5  # here", "scale_dmodel"),
]
NAMES = [*dict.fromkeys(row[0] for row in WRONG)]


test_right, test_wrong = right_and_wrong(SOURCE, WRONG, right=NAMES)


FLAX = '''
import flax.linen as nn
import jax.numpy as jnp
from jax import lax


def turned(x, positions):
    """x (B, T, H, D), its halves turned."""
    rates = 100.0 ** (-jnp.arange(0, x.shape[-1], 2) / x.shape[-1])
    c, s = (f(positions[:, None] * rates)[:, None, :] for f in (jnp.cos, jnp.sin))
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


class Decodes(nn.Module):
    """Causal; with decode=True what is fed in pieces gives what it gives at once."""

    heads: int
    most: int = 32

    @nn.compact
    def __call__(self, x, decode: bool = False):
        B, T, W = x.shape
        q, k, v = (nn.DenseGeneral((self.heads, W // self.heads), name=name)(x) for name in "qkv")
        at = jnp.arange(T)
        if decode:
            shape = (B, self.most, self.heads, W // self.heads)
            keys, values = (self.variable("cache", name, jnp.zeros, shape) for name in ("keys", "values"))
            seen = self.variable("cache", "seen", lambda: jnp.array(0, jnp.int32))
            at = at + seen.value
        q, k = turned(q, at), turned(k, at)
        if decode:
            k = lax.dynamic_update_slice(keys.value, k, (0, seen.value, 0, 0))
            v = lax.dynamic_update_slice(values.value, v, (0, seen.value, 0, 0))
            if not self.is_initializing():
                keys.value, values.value, seen.value = k, v, seen.value + T
        s = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
        s = jnp.where(at[:, None] >= jnp.arange(k.shape[1]), s, -jnp.inf)
        return jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(s, -1), v).reshape(B, T, W)
'''


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [("turned(q, at), turned(k, at)", []), ("turned(q, jnp.arange(T)), turned(k, at)", ["rope_offset"])],
)
def test_what_a_module_of_flax_keeps(session: Session, tmp_path: Path, text: str, mistakes: list[str]) -> None:
    pytest.importorskip("flax")
    source = FLAX.replace("turned(q, at), turned(k, at)", text)
    assert [*found(session, tmp_path / f"decodes_{len(mistakes)}.py", "Decodes", source)] == mistakes
