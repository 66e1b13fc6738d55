"""Names of weights in lists, what makes them, what caps; and losses and routers, which only look like attention."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import UnattendedError
from swapped import right_and_wrong
from test_check_chosen import found

SOURCE = '''
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

NAMES = ("wq", "wk", "wv", "wo", "rest")


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def squashed(q, k, v, *, tope=None, gaps=None):
    """q (B, H, T, D), k and v (B, H, S, D); tope, where it is given, holds the scores between -tope and tope."""
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if tope is not None:
        s = tope * np.tanh(s / tope)
    return softmax(s) @ v


class Buoy:
    """The keys and values of the frames heard last; each head has a logit of nothing, which has no value."""

    def __init__(self, weights, heads, window):
        lacking = [name for name in NAMES if name not in weights]
        if lacking:
            raise KeyError(", ".join(lacking))
        self.w = {name: np.asarray(weights[name]) for name in NAMES}
        self.heads, self.window = heads, window
        self.width = self.w["wk"].shape[1]
        self.keys, self.values = (np.zeros((window, self.width)) for _ in range(2))
        self.heard = 0

    def hear(self, x):
        """x (T, W)"""
        out = []
        for row in np.atleast_2d(x):
            at = self.heard % self.window
            self.keys[at], self.values[at] = row @ self.w["wk"], row @ self.w["wv"]
            self.heard += 1
            live = min(self.heard, self.window)
            s = (row @ self.w["wq"]).reshape(self.heads, -1) @ self.keys[:live].T / np.sqrt(self.width)
            top = np.maximum(s.max(1), self.w["rest"])[:, None]
            e = np.exp(s - top)
            p = e / (e.sum(1, keepdims=True) + np.exp(self.w["rest"][:, None] - top))
            out.append((p @ self.values[:live]).ravel())
        return np.stack(out) @ self.w["wo"]


def drawn(d, heads, hd, seed=0):
    g = np.random.default_rng(seed)
    shapes = {"wq": (d, heads * hd), "wk": (d, hd), "wv": (d, hd), "wo": (heads * hd, d), "rest": (heads,)}
    return {name: g.normal(size=shape) * 6 for name, shape in shapes.items()}


class Tied(nn.Module):
    """x (B, R, C, D), one map for all rows R; the logits of the rows are added up.  pad (B, R, C), True = no cell."""

    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))

    def forward(self, x, pad=None):
        B, R, C, _ = x.shape
        q, k, v = (f(x).view(B, R, C, self.h, self.d) for f in (self.q, self.k, self.v))
        q = q / (self.d * R) ** 0.5
        if pad is not None:
            q = q * (~pad)[..., None, None].to(q.dtype)
        s = torch.einsum("brihd,brjhd->bhij", q, k)
        if pad is not None:
            s = s.masked_fill(pad[:, 0][:, None, None, :], torch.finfo(s.dtype).min)
        return torch.einsum("bhij,brjhd->brihd", s.softmax(-1), v).reshape(B, R, C, -1)


def verify(q, k_past, v_past, k_new, v_new):
    """A few words at once behind those that are there.

    q [B, N, H, D], k_past [B, S, K, D], k_new [B, N, K, D], values likewise; word n sees all that is there and the
    new ones 0..n.  The H // K neighbouring query heads share one kv head.
    """
    k, v = np.concatenate([k_past, k_new], 1), np.concatenate([v_past, v_new], 1)
    h = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, h, axis=2) for x in (k, v))
    s = np.einsum("bnhd,bshd->bhns", q, k) / np.sqrt(q.shape[-1])
    n, m = s.shape[-2:]
    s = np.where(np.tril(np.ones((n, m), bool), m - n), s, -np.inf)
    return np.einsum("bhns,bshd->bnhd", softmax(s), v)


class Sizes(NamedTuple):
    d: int = 32
    n_q: int = 4
    n_kv: int = 2
    hd: int = 8
    most: int = 24


class Past(NamedTuple):
    k: np.ndarray
    v: np.ndarray
    length: int

    @staticmethod
    def zeros(sizes: Sizes, b: int) -> "Past":
        shape = (b, sizes.most, sizes.n_kv, sizes.hd)
        return Past(np.zeros(shape), np.zeros(shape), 0)


def started(d, n_q, n_kv, hd, seed=0):
    g = np.random.default_rng(seed)
    shapes = {"q": (d, n_q, hd), "k": (d, n_kv, hd), "v": (d, n_kv, hd), "o": (n_q * hd, d)}
    return {name: g.normal(size=shape) * shape[0] ** -0.5 for name, shape in shapes.items()}


def stepped(w, sizes: Sizes, x, past: Past):
    """Causal; x (B, T, d) are the next T words, and slots of what is to come are never seen."""
    T = x.shape[1]
    q, k, v = (np.einsum("btd,dhk->bthk", x, w[name]) for name in ("q", "k", "v"))
    keys, values = past.k.copy(), past.v.copy()
    at = past.length
    keys[:, at : at + T], values[:, at : at + T] = k, v
    q = q.reshape(*q.shape[:2], sizes.n_kv, -1, sizes.hd)
    s = np.einsum("btgrd,bsgd->bgrts", q, keys) / np.sqrt(sizes.hd)
    s = np.where(np.arange(sizes.most) <= at + np.arange(T)[:, None], s, -np.inf)
    o = np.einsum("bgrts,bsgd->btgrd", softmax(s), values).reshape(*x.shape[:2], -1)
    return o @ w["o"], Past(keys, values, at + T)


class Exported:
    """Gives the numbers of nn.MultiheadAttention(d, heads, batch_first=True) from its state."""

    def __init__(self, state, heads):
        self.w, self.b = np.asarray(state["in_proj_weight"]), np.asarray(state["in_proj_bias"])
        self.out, self.heads = np.asarray(state["out_proj.weight"]), heads

    def __call__(self, x):
        """x [b, n, d]"""
        b, n, d = x.shape
        packed = (x @ self.w.T + self.b).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = packed.transpose(2, 0, 3, 1, 4)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(d // self.heads)
        return (softmax(s) @ v).transpose(0, 2, 1, 3).reshape(b, n, d) @ self.out.T


class Turned:
    """Keeps its keys: called with a prompt, and then with more words.  x [B, T, dim]; causal."""

    def __init__(self, sd, prefix, spec, tables):
        self.wq, self.wk, self.wv = (sd[f"{prefix}.{name}_proj.weight"] for name in "qkv")
        self.h, self.d = spec["heads"], spec["dim"] // spec["heads"]
        self.cos, self.sin = tables
        self.k = self.v = None

    def turn(self, x, start):
        cos, sin = (table[start : start + x.shape[2]] for table in (self.cos, self.sin))
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat([-b, a], -1) * sin

    def __call__(self, x):
        B, T, _ = x.shape
        q, k, v = ((x @ w.T).view(B, T, self.h, self.d).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        past = 0 if self.k is None else self.k.shape[2]
        q, k = self.turn(q, past), self.turn(k, past)
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        keep = torch.ones(T, past + T, dtype=torch.bool).tril(past)
        y = nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=keep)
        return y.transpose(1, 2).reshape(B, T, -1)


def contrast(query, key, tau=0.1):
    """The loss by which row i of one (N, d) finds row i of the other, and its gradients."""
    p = softmax(query @ key.T / tau)
    n = len(p)
    g = (p - np.eye(n)) / n
    return -np.log(np.diag(p)).mean(), g @ key / tau, g.T @ query / tau


class Router(nn.Module):
    """Which of the experts read a word, and how much."""

    def __init__(self, d, experts, k):
        super().__init__()
        self.query, self.keys = nn.Linear(d, d), nn.Parameter(torch.randn(experts, d))
        self.k = k

    def forward(self, x):
        p = (self.query(x) @ self.keys.t() * x.shape[-1] ** -0.5).softmax(-1)
        w, which = p.topk(self.k, -1)
        return w / w.sum(-1, keepdim=True), which


class Forgets(nn.Module):
    def __init__(self, width=12, heads=3):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x, pad=None):
        return x + self.attention(x, key_padding_mask=pad)[0]  # here
'''

WRONG = [
    ("squashed", "k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])", "k.swapaxes(-1, -2) / q.shape[-1]  # here", "scale_d"),
    ("Buoy", "@ self.keys[:live].T / np.sqrt(self.width)", "@ self.keys[:live].T  # here", "scale_missing"),
    ("Tied", "(self.d * R) ** 0.5", "(self.d * R)  # here", "scale_d"),
    ("verify", "bool), m - n), s, -np.inf)", "bool)), s, -np.inf)  # here", "causal_top_left"),
    ("verify", "np.repeat(x, h, axis=2)", "np.tile(x, (1, 1, h, 1))", "gqa_tile"),
    (
        "Exported",
        """3, self.heads, d // self.heads)
        q, k, v = packed.transpose(2, 0, 3, 1, 4)""",
        """self.heads, 3, d // self.heads)
        q, k, v = packed.transpose(3, 0, 2, 1, 4)""",
        "qkv_order",
    ),
    ("Turned", "self.turn(q, past), ", "self.turn(q, 0), ", "rope_offset"),
    ("stepped", "<= at + np.arange(T)[:, None], s, -", "< at + np.arange(T)[:, None] + 2, s, -", "causal_off_by_one"),
]


test_right, test_wrong = right_and_wrong(SOURCE, WRONG)


@pytest.mark.parametrize("name", ["contrast", "Router"])
def test_what_mixes_nothing_is_no_attention(session: Session, tmp_path: Path, name: str) -> None:
    (tmp_path / "none.py").write_text(SOURCE)
    with pytest.raises(UnattendedError, match="no attention was found inside"):
        examine(session, f"{tmp_path / 'none.py'}:{name}")


def test_what_fails_whatever_it_is_given_raises(session: Session, tmp_path: Path) -> None:
    told = found(session, tmp_path / "forgets.py", "Forgets", SOURCE)
    assert [*told] == ["raises"]
    assert "# here" in told["raises"]


NNX = '''
import jax
import jax.numpy as jnp
from flax import nnx


class Attends(nnx.Module):
    """x: (B, T, W)"""

    def __init__(self, width: int, heads: int, *, rngs: nnx.Rngs):
        self.heads = heads
        self.qkv, self.out = nnx.Linear(width, 3 * width, rngs=rngs), nnx.Linear(width, width, rngs=rngs)

    def __call__(self, x):
        b, t, w = x.shape
        q, k, v = (z.reshape(b, t, self.heads, -1).swapaxes(1, 2) for z in jnp.split(self.qkv(x), 3, -1))
        s = q @ k.swapaxes(-1, -2) / jnp.sqrt(w // self.heads)
        return self.out((jax.nn.softmax(s, -1) @ v).swapaxes(1, 2).reshape(b, t, w))
'''


@pytest.mark.parametrize(("divisor", "mistakes"), [("w // self.heads", []), ("w", ["scale_dmodel"])])
def test_a_module_of_nnx(session: Session, tmp_path: Path, divisor: str, mistakes: list[str]) -> None:
    pytest.importorskip("flax")
    source = NNX.replace("w // self.heads", divisor)
    assert [*found(session, tmp_path / f"nnx_{len(mistakes)}.py", "Attends", source)] == mistakes


def test_what_a_frozen_thing_holds_is_filled() -> None:
    from dataclasses import dataclass

    import numpy as np

    from overt.check.process.parameters import parameters

    jnp = pytest.importorskip("jax.numpy")

    @dataclass(frozen=True)
    class Frozen:
        weight: object

    thing = Frozen(jnp.zeros((3, 4)))
    parameters(thing, 1)
    assert np.asarray(thing.weight).any()
