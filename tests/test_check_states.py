"""Linear attention whose state grows step by step, in loops and in ``lax.scan``, on its own and in layers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report

SOURCE = '''
"""Causal linear attention with the feature map elu + 1, a state and what divides it."""
import torch
import torch.nn.functional as F


def phi(x):
    return F.elu(x) + 1.0


def walk(q, k, v, raw=False):
    state, norm = torch.zeros(*q.shape[1:], v.shape[2]), torch.zeros(q.shape[1:])
    rows = []
    for t in range(len(q)):
        state = state + torch.einsum("hd,he->hde", phi(k[t]), v[t])
        norm = norm + phi(k[t])
        one = torch.einsum("hd,hd->h", q[t] if raw else phi(q[t]), norm)
        rows.append(torch.einsum("hd,hde->he", phi(q[t]), state) / one[:, None])
    return torch.stack(rows)


def by_steps(q, k, v):
    """q, k [T, H, D], v [T, H, D] -> [T, H, D]"""
    return walk(q, k, v)


def by_raw_queries(q, k, v):
    """q, k [T, H, D], v [T, H, D] -> [T, H, D]"""
    return walk(q, k, v, raw=True)


def layer(params, x, raw=False):
    """x [B, T, D] -> [B, T, D]"""
    q, k, v = (torch.einsum("btd,dhk->bthk", x, params[n]) for n in ("wq", "wk", "wv"))
    return torch.einsum("bthk,hkd->btd", torch.stack([walk(*one, raw) for one in zip(q, k, v)]), params["wo"])


def layer_by_raw_queries(params, x):
    """x [B, T, D] -> [B, T, D]"""
    return layer(params, x, True)
'''

KEPT = '''
"""Memories that an object keeps from step to step."""
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class Ticks:
    """Linear attention one tick after the other; there is no scale."""

    power = 1

    def __init__(self, w_in, w_out, heads=2):
        """w_in: (3, dim, dim) for q, k, v; w_out: (dim, dim)"""
        self.w_in, self.w_out, self.heads = w_in, w_out, heads
        self.d = w_out.shape[0] // heads
        self.total, self.norm = np.zeros((heads, self.d, self.d)), np.zeros((heads, self.d))

    def step(self, x):
        """x: (dim,) features of this tick -> (dim,)"""
        q, k, v = ((x @ w).reshape(self.heads, self.d) for w in self.w_in)
        q, k = phi(q), phi(k)
        self.total = self.total + k[:, :, None] * v[:, None, :]
        self.norm = self.norm + k**self.power
        y = np.einsum("hd,hde->he", q, self.total) / np.einsum("hd,hd->h", q, self.norm)[:, None]
        return y.reshape(-1) @ self.w_out


class SquaredTicks(Ticks):
    """Linear attention one tick after the other; there is no scale."""

    power = 2


@dataclass
class State:
    total: np.ndarray
    norm: np.ndarray


@dataclass
class Handed:
    """Causal linear attention whose state is handed on; there is no scale."""

    dim: int = 24
    heads: int = 3

    def __post_init__(self):
        self.wq, self.wk, self.wv = np.random.default_rng(0).normal(0, self.dim**-0.5, (3, self.dim, self.dim))

    def empty(self):
        d = self.dim // self.heads
        return State(np.zeros((self.heads, d, d)), np.zeros((self.heads, d)))

    def step(self, x, state):
        q, k, v = ((x @ w).reshape(self.heads, -1) for w in (self.wq, self.wk, self.wv))
        q, k = phi(q), phi(k)
        state = State(state.total + k[:, :, None] * v[:, None, :], state.norm + k)
        y = np.einsum("hd,hde->he", q, state.total) / np.einsum("hd,hd->h", q, state.norm)[:, None]
        return y.reshape(-1), state

    def __call__(self, xs, state=None):
        """xs [T, dim] -> ys [T, dim], state after the last token."""
        state, ys = state or self.empty(), []
        for x in xs:
            y, state = self.step(x, state)
            ys.append(y)
        return np.stack(ys), state


class Ring(nn.Module):
    """Each frame sees the last ``window`` frames, itself among them; xs: [batch, time, dim]."""

    back = -1

    def __init__(self, dim=16, heads=2, window=6):
        super().__init__()
        self.heads, self.window = heads, window
        self.inner = nn.Linear(dim, 3 * dim)

    def forward(self, xs):
        rings = xs.new_zeros(2, len(xs), self.heads, self.window, xs.shape[-1] // self.heads)
        rows = []
        for t, x in enumerate(xs.unbind(1)):
            q, k, v = self.inner(x).view(len(x), 3, self.heads, -1).unbind(1)
            rings = rings.clone()
            rings[0, :, :, t % self.window], rings[1, :, :, t % self.window] = k, v
            keys, values = rings[:, :, :, : t + 1]
            if t >= self.window:
                oldest = (t + 1) % self.window
                keys, values = rings[0].roll(-oldest, 2), rings[1].roll(self.back * oldest, 2)
            p = torch.einsum("bhd,bhnd->bhn", q, keys) * q.shape[-1] ** -0.5
            rows.append(torch.einsum("bhn,bhnd->bhd", p.softmax(-1), values).flatten(1))
        return torch.stack(rows, 1)


class RingTheOtherWay(Ring):
    """Each frame sees the last ``window`` frames, itself among them; xs: [batch, time, dim]."""

    back = 1
'''

SCANNED = '''
"""Causal linear attention by lax.scan, with the feature map elu + 1."""
import jax
import jax.numpy as jnp


def step(state, row):
    total, norm = state
    q, k, v = row
    q, k = jax.nn.elu(q) + 1.0, jax.nn.elu(k) + 1.0
    total = total + jnp.einsum("hd,he->hde", k, v)
    norm = norm + KEYS
    return (total, norm), jnp.einsum("hd,hde->he", q, total) / jnp.einsum("hd,hd->h", q, norm)[:, None]


def scanned(q, k, v):
    """q, k, v [T, H, D] -> [T, H, D]"""
    state = (jnp.zeros((*q.shape[1:], v.shape[2])), jnp.zeros(q.shape[1:]))
    return jax.lax.scan(step, state, (q, k, v))[1]


@jax.jit
def layer(params, x):
    """x [B, T, D] -> [B, T, D]"""
    def one(row):
        q, k, v = (jnp.einsum("td,dhk->thk", row, params[n]) for n in ("wq", "wk", "wv"))
        return jnp.einsum("thk,hkd->td", scanned(q, k, v), params["wo"])
    return x + jax.vmap(one)(x)
'''


@pytest.fixture(scope="module")
def check(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Report]:
    folder = tmp_path_factory.mktemp("states")
    (folder / "walked.py").write_text(SOURCE)
    (folder / "kept.py").write_text(KEPT)
    (folder / "scanned.py").write_text(SCANNED.replace("KEYS", "k"))
    (folder / "scanned_wrong.py").write_text(SCANNED.replace("KEYS", "k * k"))
    return lambda file, name: examine(session, f"{folder / file}.py:{name}")


@pytest.mark.parametrize("name", ["by_steps", "layer"])
def test_a_state_that_grows_in_a_loop(check: Callable[..., Report], name: str) -> None:
    report = check("walked", name)
    assert report.ok, str(report)
    assert any("mixing" in e["step"] for e in report.to_dict()["tested"]), str(report)


@pytest.mark.parametrize("name", ["by_raw_queries", "layer_by_raw_queries"])
def test_what_divides_it_is_another_sum(check: Callable[..., Report], name: str) -> None:
    assert_divided_otherwise(check("walked", name))


@pytest.mark.parametrize("name", ["Ticks", "Handed", "Ring"])
def test_what_an_object_keeps(check: Callable[..., Report], name: str) -> None:
    report = check("kept", name)
    assert report.ok, str(report)


def test_steps_that_attend_together(check: Callable[..., Report]) -> None:
    assert any(e["step"] == "method step again and again" for e in check("kept", "Ticks").to_dict()["tested"])
    assert_divided_otherwise(check("kept", "SquaredTicks"))


def test_a_ring_is_turned_once_it_is_full(check: Callable[..., Report]) -> None:
    report = check("kept", "RingTheOtherWay")
    found = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    assert [f.id for f in found] == ["unknown"], str(report)
    assert "values of other positions" in found[0].message
    assert found[0].where is not None
    assert "self.back * oldest" in found[0].where["text"]


@pytest.mark.parametrize("name", ["scanned", "layer"])
def test_a_state_that_lax_scan_carries(check: Callable[..., Report], name: str) -> None:
    pytest.importorskip("jax")
    report = check("scanned", name)
    assert report.ok, str(report)
    assert_divided_otherwise(check("scanned_wrong", name))


def assert_divided_otherwise(report: Report) -> None:
    found = [f for f in report.findings if f.kind in ("mistake", "unknown")]
    assert [f.id for f in found] == ["unknown"], str(report)
    assert "divided by something else" in found[0].message
