"""What is alike by chance, is called as nobody foresaw or leads nowhere; and the lines of what helpers take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import Report, UnattendedError
from swapped import right_and_wrong

SOURCE = '''
"""Attention in the words of its authors."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Merged(nn.Module):
    """x (B, L, D); as many heads as the checker likes positions."""

    def __init__(self, D=40, G=5):
        super().__init__()
        self.G, self.all, self.out = G, nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = self.all(x).view(*x.shape[:2], 3, self.G, -1).permute(2, 0, 3, 1, 4)
        y = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Aufmerksam(nn.Module):
    """h (B, T, N), quelle (B, S, N), woerter (B,): was dahinter liegt, ist Fuellung; Luong et al. 2015."""

    def __init__(self, N=20):
        super().__init__()
        self.W = nn.Linear(N, N, bias=False)

    def forward(self, h, quelle, woerter=None):
        punkte = h @ self.W(quelle).mT
        if woerter is not None:
            echt = torch.arange(quelle.size(1))[None] < woerter[:, None]
            punkte = punkte.masked_fill(~echt[:, None], float("-inf"))
        return punkte.softmax(-1) @ quelle


class Gathers(nn.Module):
    """q (B, L, D), k and v (B, S, D), valid (B, S): True for the steps that were observed; others take no part."""

    def __init__(self, D=32):
        super().__init__()
        self.q, self.k, self.v, self.rate = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D), 0.1

    def forward(self, q, k, v, valid=None):
        scores = self.q(q) @ self.k(k).mT / q.shape[-1] ** 0.5
        if valid is not None:
            scores = scores.masked_fill(~valid[:, None], float("-inf"))
        A = scores.softmax(-1)
        return F.dropout(A, self.rate, self.training) @ self.v(v)


class Memory(nn.Module):
    """One hop over sentences (B, Z, W) of numbers of words: keys come from A, values from C."""

    def __init__(self, words=30, e=20):
        super().__init__()
        self.A, self.C = nn.Embedding(words, e), nn.Embedding(words, e)

    def forward(self, u, sentences):
        m = self.A(sentences).sum(2)
        c = self.C(sentences).sum(2)
        p = torch.softmax(torch.einsum("be,bze->bz", u, m), -1)
        return u + torch.einsum("bz,bze->be", p, c)


def decays(H, T):
    gamma = 1 - 2.0 ** (-5 - np.arange(H))
    back = np.arange(T)[:, None] - np.arange(T)
    return np.where(back >= 0, gamma[:, None, None] ** np.maximum(back, 0), 0.0)


def retention(q, k, v):
    """Parallel form, of which there is no softmax: q, k (B, H, T, d), v (B, H, T, e); keys are scaled by d ** -0.5."""
    scores = q @ (k * q.shape[-1] ** -0.5).swapaxes(-1, -2)
    return (scores * decays(q.shape[1], q.shape[2])) @ v


class Nowcast(nn.Module):
    """gauge (B, T, D), radar (B, S, D); gone (B, S) bool, True where the radar frame was lost."""

    def __init__(self, D=16):
        super().__init__()
        self.q, self.kv = nn.Linear(D, D), nn.Linear(D, 2 * D)

    def forward(self, gauge, radar, gone=None):
        # SDPA wants True = take part
        usable = None if gone is None else ~gone[:, None]
        return F.scaled_dot_product_attention(self.q(gauge), *self.kv(radar).chunk(2, -1), attn_mask=usable)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class Visits:
    """h (patients, visits, dim), valid (patients, visits) 1/0: invalid visits get no weight."""

    def __init__(self, dim=8):
        rng = np.random.RandomState(11)
        self.W = rng.randn(3, dim, dim) / np.sqrt(dim)

    def weights(self, h, valid):
        logits = h @ self.W[0] @ np.swapaxes(h @ self.W[1], 1, 2) / np.sqrt(h.shape[-1])
        logits = np.where(valid[:, None] > 0, logits, -np.inf)
        p = softmax(logits, axis=-1)
        return p * valid[:, None, :]

    def forward(self, h, valid):
        p = self.weights(h, valid)
        return p @ (h @ self.W[2])


def positional(length, width):
    """PE[pos, 2i] = sin(pos / 10000^(2i/width)), PE[pos, 2i+1] = cos(same angle)."""
    pe = np.zeros((length, width))
    for i in range(0, width, 2):
        angle = np.arange(length) / np.power(10000, i / width)
        pe[:, i] = np.sin(angle)
        pe[:, i + 1] = np.cos(angle)
    return pe


def shares(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class Lecture:
    """x: (batch, length, width), every word sees every word."""

    def __init__(self, width=16):
        rng = np.random.default_rng(7)
        self.W = rng.normal(size=(3, width, width)) / width**0.5

    def forward(self, x):
        x = x + positional(x.shape[1], x.shape[2])
        q, k, v = x @ self.W[0], x @ self.W[1], x @ self.W[2]
        return shares(q @ k.swapaxes(1, 2) / q.shape[-1] ** 0.5, axis=-1) @ v  # of keys


def tides(level, width=4):
    """Causal; width: how many hours take part, the current hour among them.  level: (stations, hours, channels)"""
    n = level.shape[1]
    score = level @ level.swapaxes(1, 2) / np.sqrt(level.shape[-1])
    age = np.arange(n)[:, None] - np.arange(n)[None, :]
    outside = (age < 0) | (age >= width)
    score[:, outside] = -np.inf
    return softmax(score, axis=-1) @ level


def pair_bias(s, z, real):
    """s (N, C), z (N, N, c): z[i, j] biases query i to key j; real (N,) 1 for keys that are there, 0 for gaps."""
    rng = np.random.default_rng(0)
    N, H = len(s), 4
    q, k, v = ((s @ rng.normal(size=(s.shape[1], 16)) / 4).reshape(N, H, 4).transpose(1, 0, 2) for _ in range(3))
    bias = (z @ rng.normal(size=(z.shape[-1], H))).transpose(2, 0, 1)
    a = q @ k.transpose(0, 2, 1) / 2 + bias
    a = softmax(np.where(real[None, None] > 0, a, -np.inf), axis=-1)
    return (a @ v).transpose(1, 0, 2).reshape(N, -1)


class Speaks(nn.Module):
    """A causal model of tokens.  idx (B, T)"""

    def __init__(self, vocabulary=65, width=24, heads=2):
        super().__init__()
        self.heads, self.words, self.all = heads, nn.Embedding(vocabulary, width), nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, idx, targets=None):
        x = self.words(idx)
        q, k, v = self.all(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        logits = self.head(x)
        return logits, None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx)
            idx = torch.cat([idx, torch.multinomial(F.softmax(logits[:, -1], -1), 1)], 1)
        return idx


class Spells(nn.Module):
    """letters (B, T) with 0 = padding, at the end; phones (B, S) for teacher forcing; Bahdanau et al. 2015"""

    def __init__(self, letters=30, phones=20, hid=24, longest=32):
        super().__init__()
        self.le, self.pe = nn.Embedding(letters, 16, padding_idx=0), nn.Embedding(phones, 16)
        self.enc, self.cell = nn.LSTM(16, hid, batch_first=True), nn.LSTMCell(16 + hid, hid)
        self.proj, self.key, self.score = nn.Linear(hid, hid), nn.Linear(hid, hid), nn.Linear(hid, 1)
        self.table, self.out = nn.Linear(hid, longest), nn.Linear(2 * hid, phones)

    def forward(self, letters, phones):
        pad = letters == 0
        packed = nn.utils.rnn.pack_padded_sequence(
            self.le(letters), (~pad).sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        frames, _ = nn.utils.rnn.pad_packed_sequence(
            self.enc(packed)[0], batch_first=True, total_length=letters.size(1)
        )
        h = c = frames.new_zeros(letters.size(0), frames.size(2))
        ys = []
        for s in range(phones.size(1)):
            e = self.score(torch.tanh(self.proj(h)[:, None] + self.key(frames)))[..., 0]
            w = torch.softmax(e.masked_fill(pad, float("-inf")), dim=-1)
            ctx = torch.bmm(w.unsqueeze(1), frames).squeeze(1)
            h, c = self.cell(torch.cat([self.pe(phones[:, s]), ctx], -1), (h, c))
            ys.append(self.out(torch.cat([h, ctx], -1)))
        return torch.stack(ys, 1)


class Moves(nn.Module):
    """score(h_t, s) = h_t^T W s  (Luong et al., eq. 8)"""

    def __init__(self, kinds=12, emb=10, hid=20):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(kinds, emb), nn.LSTMCell(emb, hid)
        self.W, self.Wc, self.out = nn.Linear(hid, hid), nn.Linear(2 * hid, hid), nn.Linear(hid, kinds)

    def forward(self, moves, memory, lengths, state):
        keys, S = self.W(memory), memory.size(1)
        outside = torch.arange(S) >= lengths.unsqueeze(1)
        logits = []
        for e in self.emb(moves).unbind(dim=1):
            state = self.rnn(e, state)
            score = torch.bmm(keys, state[0].unsqueeze(2)).squeeze(2)
            a = torch.softmax(score.masked_fill(outside, -float("inf")), dim=1)
            c = torch.bmm(a.unsqueeze(1), memory).squeeze(1)
            logits.append(self.out(torch.tanh(self.Wc(torch.cat((c, state[0]), dim=1)))))
        return torch.stack(logits, dim=1)


class Planner(nn.Module):
    """stacks (B, S, 6), n_stacks (B,) >= 1 real ones (rest padding), moves (B, T) -> (B, T, kinds)"""

    def __init__(self, kinds=12, hid=20):
        super().__init__()
        self.enc, self.dec = nn.LSTM(6, hid, batch_first=True), Moves(kinds, 10, hid)

    def forward(self, stacks, n_stacks, moves):
        packed = nn.utils.rnn.pack_padded_sequence(stacks, n_stacks.cpu(), batch_first=True, enforce_sorted=False)
        mem, (h, c) = self.enc(packed)
        mem, _ = nn.utils.rnn.pad_packed_sequence(mem, batch_first=True, total_length=stacks.size(1))
        return self.dec(moves, mem, n_stacks, (h[0], c[0]))


class Aspects(nn.Module):
    """phrases [lot, n, dim], valide [lot, n] -> [lot, a, dim]; `valide` : bool [lot, n], True = vraie phrase"""

    def __init__(self, dim=24, tetes=4, n=6):
        super().__init__()
        self.tetes, self.q = tetes, nn.Parameter(torch.randn(n, dim) * 0.2)
        self.kv = nn.Linear(dim, 2 * dim)

    def forward(self, phrases, valide):
        q, k, v = (
            x.unflatten(-1, (self.tetes, -1)).transpose(1, 2)
            for x in (self.q[None].expand(len(phrases), -1, -1), *self.kv(phrases).chunk(2, -1))
        )
        score = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
        score = score.masked_fill(~valide[:, None, None], -torch.inf)
        return torch.matmul(F.softmax(score, dim=-1), v).transpose(1, 2).flatten(2)


class Residuos:
    """existe: [B, L] de 0/1 ou None.  x: [B, L, dim]"""

    def __init__(self, dim=24):
        self.W = np.random.default_rng(0).normal(0, dim**-0.5, (3, dim, dim))

    def __call__(self, x, existe=None):
        q, k, v = (x @ w for w in self.W)
        notas = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        if existe is not None:
            notas = np.where(np.asarray(existe)[:, None] > 0, notas, -np.inf)
        return softmax(notas, axis=-1) @ v


def turns(x, seconds):
    half = x.shape[-1] // 2
    ang = np.asarray(seconds)[:, None] * 1000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(ang) - b * np.sin(ang), a * np.sin(ang) + b * np.cos(ang)], axis=-1)


class Orbit:
    """Queries and keys are turned by the times of x [L, dim], seconds [L]; the values stay as they are."""

    def __init__(self, dim=24):
        self.W = np.random.default_rng(0).normal(0, dim**-0.5, (3, dim, dim))

    def __call__(self, x, seconds):
        q, k, v = (x @ W for W in self.W)
        q, k, v = turns(q, seconds), turns(k, seconds), v
        s = np.where(np.tri(len(x), dtype=bool), q @ k.T / np.sqrt(x.shape[-1]), -np.inf)
        return softmax(s, axis=-1) @ v


class Recall:
    """p_i = softmax_i(u . m_i), o = sum_i p_i c_i for each of the words (B, S); u (B, d)"""

    def __init__(self, n=30, d=20):
        rng = np.random.default_rng(0)
        self.A, self.C = (rng.normal(0, 0.3, (n, d)) for _ in range(2))

    def __call__(self, u, words):
        p = softmax(np.einsum("bd,bsd->bs", u, self.A[words] * np.linspace(0.5, 1, 20)), axis=-1)
        return u + np.einsum("bs,bsd->bd", p, self.C[words])


class Interest(nn.Module):
    """As in the paper the weights are NOT normalised.  ad (B, D), clicks (B, L, D), mask (B, L) 1 = a real click"""

    def __init__(self, dim=12):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * dim, 16), nn.PReLU(), nn.Linear(16, 1))

    def forward(self, ad, clicks, mask):
        a = ad.unsqueeze(1).expand_as(clicks)
        w = self.mlp(torch.cat((a, clicks, a - clicks, a * clicks), dim=-1)) * mask.unsqueeze(-1)
        return (w * clicks).sum(dim=1)


class Experts(nn.Module):
    """x (B, T, D): of each token a mean of what the experts that suit it best make of it."""

    def __init__(self, dim=16, n=4, top=2):
        super().__init__()
        self.top, self.router = top, nn.Linear(dim, n, bias=False)
        self.w = nn.Parameter(torch.randn(n, dim, dim) * dim**-0.5)

    def forward(self, x):
        best, at = self.router(x).topk(self.top, dim=-1)
        weights = x.new_full((*x.shape[:2], len(self.w)), float("-inf")).scatter(-1, at, best).softmax(-1)
        return torch.einsum("bte,bted->btd", weights, torch.einsum("btd,edh->bteh", x, self.w).relu())
'''

# An attention of JAX, of which samples and heads lie otherwise behind a product than in it.
GROUPED = '''
"""Weights come from a checkpoint where key head j serves the query heads j*G .. j*G + G - 1 (G = Hq // Hkv)."""
import jax.numpy as jnp
from jax.nn import softmax


def attend(x, wq, wk, wv):
    """x (B, T, C), wq (C, 4, 8), wk and wv (C, 2, 8)"""
    q, k, v = (jnp.einsum("btc,chd->bhtd", x, w) for w in (wq, wk, wv))
    k, v = (jnp.repeat(one, 2, axis=1) for one in (k, v))
    s = jnp.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhij,bhjd->bihd", softmax(s, -1), v)
'''

# What is right, how it is made wrong, what that is called, and what its line says.
BOTH = [
    ("Merged", "y.transpose(1, 2).reshape", "y.reshape", {"merge_view": "y.reshape"}),
    ("Aufmerksam", 'echt[:, None], float("-inf"))', "echt[:, None], 1e-9)", {"mask_times_scores": "1e-9"}),
    (
        "Gathers",
        """            scores = scores.masked_fill(~valid[:, None], float("-inf"))
        A = scores.softmax(-1)
        return F.dropout(A, self.rate, self.training)""",
        """            scores = scores + 0
        A = scores.softmax(-1)
        A = A if valid is None else A * valid[:, None]
        return F.dropout(A, self.rate)""",
        {"dropout_eval": "", "mask_after_softmax": ""},
    ),
    ("Memory", "p, c)", "p, m)", {"unknown": "p, m)"}),
    ("Nowcast", "~gone[:, None]", "gone[:, None]", {"mask_inverted": "usable = "}),
    ("Visits", "np.where(valid[:, None] > 0, logits, -np.inf)", "logits", {"mask_after_softmax": "return p * valid"}),
    ("Lecture", "axis=-1) @ v  #", "axis=1) @ v  #", {"softmax_axis_q": "# of keys"}),
    ("Lecture", "i / width)\n", "2 * i / width)\n", {"pe_exponent": "np.power"}),
    ("Speaks", "v, is_causal=True", "v, is_causal=False", {"causal_missing": "is_causal=False"}),
    (
        "Spells",
        "self.score(torch.tanh(self.proj(h)[:, None] + self.key(frames)))[..., 0]",
        "self.table(torch.tanh(self.proj(h)))[:, : frames.size(1)]",
        {"additive_ignores_keys": "self.table"},
    ),
    ("Planner", "dim=1)\n            c", "dim=0)\n            c", {"softmax_axis_head_or_batch": "dim=0"}),
    (
        "Aspects",
        "score.masked_fill(~valide[:, None, None], -torch.inf)",
        "score * valide[:, None, None].to(score.dtype)",
        {"mask_times_scores": "score * valide"},
    ),
    (
        "Residuos",
        "np.where(np.asarray(existe)[:, None] > 0, notas, -np.inf)\n        return softmax(notas, axis=-1) @ v",
        "notas + 0\n        return softmax(notas, axis=-1) * (existe is None or np.asarray(existe)[:, None]) @ v",
        {"mask_after_softmax": "return softmax"},
    ),
    ("Orbit", "turns(k, seconds), v", "turns(k, seconds), turns(v, seconds)", {"unknown": "np.concatenate"}),
    ("Recall", "sd->bs\", u", "sd->bs\", -u", {"unknown": "einsum"}),
    ("Interest", "* mask.unsqueeze(-1)", "* (1 - mask).unsqueeze(-1)", {"mask_inverted": "1 - mask"}),
    ("tides", "age >= width", "age > width", {"window_off_by_one": "age > width"}),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(
    SOURCE,
    BOTH,
    right=(
        "retention",
        "pair_bias",
    ),
)


@pytest.mark.parametrize(
    ("repeats", "expected"), [("jnp.repeat(one, 2, axis=1)", []), ("jnp.tile(one, (1, 2, 1, 1))", ["gqa_tile"])]
)
def test_heads_behind_a_product_of_jax(check: Callable[[str, str], Report], repeats: str, expected: list[str]) -> None:
    pytest.importorskip("jax")
    report = check("attend", GROUPED.replace("jnp.repeat(one, 2, axis=1)", repeats))
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == expected, str(report)


def test_experts_are_no_keys(check: Callable[[str, str], Report]) -> None:
    with pytest.raises(UnattendedError, match="no attention was found"):
        check("Experts", SOURCE)


def test_a_sentence_ends_where_its_text_does(check: Callable[[str, str], Report]) -> None:
    # What stands first in another text says nothing of the mask that the first ends with.
    report = check("Interest", SOURCE.replace("a real click", "a click"))
    assert report.ok, str(report)
