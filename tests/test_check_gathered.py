"""Weights of places, layers that are given, keys that are columns, rows that are taken by number, widened heads."""

from __future__ import annotations

import pytest

from overt.check.report import CallError
from swapped import Check, right_and_wrong

pytest.importorskip("torch")

SOURCE = '''
import numpy as np
import torch
from torch import nn


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class Place(nn.Module):
    """A normed window of places: the state says where to look."""

    def __init__(self, width, longest=20):
        super().__init__()
        self.at = nn.Linear(width, 2)
        self.each = nn.Linear(width, longest)

    def forward(self, state, memory):
        """state [B, D], memory [B, S, E] -> context [B, E], weights [B, S]"""
        centre, spread = self.at(state).exp().chunk(2, dim=-1)
        place = torch.arange(memory.size(1), dtype=memory.dtype)
        scores = -(((place - centre) / spread) ** 2)
        weights = scores.softmax(-1)
        return torch.bmm(weights[:, None], memory).squeeze(1), weights


class Pooled(nn.Module):
    """A non-local block, whose keys and values are pooled."""

    def __init__(self, channels):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(channels, channels // 2, 1) for _ in range(3))
        self.out = nn.Conv2d(channels // 2, channels, 1)

    def forward(self, x):
        """x: (N, C, H, W)"""
        n, _, h, w = x.shape
        q = self.q(x).flatten(2)
        k, v = (nn.functional.max_pool2d(one(x), 2).flatten(2) for one in (self.k, self.v))
        weights = (k.transpose(1, 2) @ q).softmax(1)
        return x + self.out((v @ weights).view(n, -1, h, w))


def aufmerksamkeit(q, k, v):
    """q (B, T, D), k (B, S, D), v (B, S, E) -> (B, T, E)

    Ohne den Faktor 1/sqrt(D), den hat q schon.
    """
    return softmax(q @ k.swapaxes(-1, -2)) @ v


def widen(t, r):
    """(B, L, G, d) -> (B, L, G * r, d)"""
    B, L, G, d = t.shape
    return np.repeat(t, r, axis=2)


def grouped(x, W, n_q, n_kv):
    """x (B, L, D); W: dict with q and o (D, D), k and v (D, n_kv*d). Query heads 0..r-1 share kv head 0, and so on."""
    B, L, D = x.shape
    q = (x @ W["q"]).reshape(B, L, n_q, -1)
    k, v = ((x @ W[n]).reshape(B, L, n_kv, -1) for n in ("k", "v"))
    k, v = widen(k, n_q // n_kv), widen(v, n_q // n_kv)
    weights = softmax(np.einsum("bihd,bjhd->bhij", q, k) / q.shape[-1] ** 0.5)
    return np.einsum("bhij,bjhd->bihd", weights, v).reshape(B, L, D) @ W["o"]


class Classes:
    """One question looks at the words of its text, dot scores as in Luong et al.; then a softmax of classes."""

    def __init__(self, vocabulary, dim, classes, seed=0):
        r = np.random.default_rng(seed)
        self.table, self.out = r.normal(0, 0.3, (vocabulary, dim)), r.normal(0, 0.3, (dim, classes))

    def forward(self, text, question):
        """text [B, S] int, question [B] int -> probabilities [B, classes], each row sums to 1"""
        u, m = self.table[question], self.table[text]
        scores = np.einsum("bd,bsd->bs", u, m)
        e = np.exp(scores - scores.max(1, keepdims=True))
        o = np.einsum("bs,bsd->bd", e / e.sum(1, keepdims=True), m)
        return softmax((u + o) @ self.out)


def shaw(q, k, v, a_k):
    """q, k, v (B, H, L, d); a_k (2m+1, d): row r is for the clipped offset r - m of key and query."""
    L, d = q.shape[-2:]
    m = (len(a_k) - 1) // 2
    at = np.arange(L)
    apart = np.clip(at[None, :] - at[:, None], -m, m) + m
    scores = q @ k.swapaxes(-1, -2) + np.einsum("bhid,ijd->bhij", q, a_k[apart])
    return softmax(scores / d**0.5) @ v


class GRU:
    def __init__(self, V, H, rng):
        self.E = rng.normal(size=(V, H))
        self.Wz, self.Wh = rng.normal(size=(2 * H, H)), rng.normal(size=(2 * H, H))
        self.out = rng.normal(size=(H, V))

    def step(self, ch, h):
        """ch (B,) int, h (B, H) -> logits (B, V), new h (B, H)"""
        x = self.E[ch]
        z = 1 / (1 + np.exp(-np.concatenate([x, h], -1) @ self.Wz))
        h = (1 - z) * h + z * np.tanh(np.concatenate([x, z * h], -1) @ self.Wh)
        return h @ self.out, h


def greedy(net, seed, n):
    """seed: list of ints, at least one; returns a list of n character ids"""
    h = np.zeros((1, net.E.shape[1]))
    for c in seed:
        logits, h = net.step(np.array([c]), h)
    out = []
    for _ in range(n):
        out.append(int(logits[0].argmax()))
        logits, h = net.step(np.array([out[-1]]), h)
    return out
'''

BOTH = [
    ("Place", "-(((place - centre) / spread) ** 2)", "self.each(state)[:, : memory.size(1)]", "additive_ignores_keys"),
    ("Pooled", "softmax(1)", "softmax(2)", "softmax_axis_q"),
    ("aufmerksamkeit", "Ohne den Faktor 1/sqrt(D), den hat q schon.", "Die Summe der Gewichte ist 1.", "scale_missing"),
    ("grouped", "axis=2)", "axis=1).reshape(B, L, G * r, d)", "gqa_repeat_wrong_axis"),
    ("Classes", "e.sum(1, keepdims=True)", "e.sum()", "softmax_global"),
    ("shaw", "a_k[apart]", "a_k[apart - m]", "unknown"),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


EACH = '''
import jax
import jax.numpy as jnp


def begin(key, n_seed=3, d=16, heads=2):
    a, b, c, e = jax.random.split(key, 4)
    return {
        "embed": jax.random.normal(a, (4, d)) * 0.5,
        "seed": jax.random.normal(b, (n_seed, heads, d // heads)),
        "k": jax.random.normal(c, (heads, d, d // heads)) * d**-0.5,
        "v": jax.random.normal(e, (heads, d, d // heads)) * d**-0.5,
    }


def one(p, feat, pt):
    """feat [n, 4], pt [n]; pt == 0 marks a padding slot, at least one particle has pt > 0."""
    x = jax.nn.gelu(feat @ p["embed"])
    k, v = (jnp.einsum("nd,hde->hne", x, p[name]) for name in ("k", "v"))
    logit = jnp.einsum("she,hne->hsn", p["seed"], k) / jnp.sqrt(k.shape[-1])
    weights = jax.nn.softmax(jnp.where(pt > 0, logit, -jnp.inf), axis=-1)
    return jnp.einsum("hsn,hne->she", weights, v).reshape(-1)


def tagger(p, feat, pt):
    """feat [B, n, 4], pt [B, n] -> [B, n_seed * d]"""
    return jax.vmap(one, in_axes=(None, 0, 0))(p, feat, pt)
'''


@pytest.mark.parametrize(
    ("was", "now", "told"), [("", "", []), ("logit, -jnp.inf)", "logit, 0.0)", ["mask_times_scores"])]
)
def test_what_is_called_for_each_of_several(check: Check, was: str, now: str, told: list[str]) -> None:
    pytest.importorskip("jax")
    report = check("tagger", EACH.replace(was, now) if was else EACH)
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == told, str(report)


def test_layers_that_are_given_do_not_attend(check: Check) -> None:
    with pytest.raises(CallError, match="no attention was found"):
        check("greedy", SOURCE)
