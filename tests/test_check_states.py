"""Linear attention whose state grows step by step, in loops and in ``lax.scan``, on its own and in layers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
