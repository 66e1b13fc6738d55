"""Parts of a problem: any heads, any rows, any keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import overt
from overt import kernels, reference
from overt.problem import Problem

RANGES = [
    range(8),
    range(4),
    range(2, 6),
    range(1, 7),
    range(3, 4),
    range(5, 8),
    range(0, 8, 2),
    range(1, 8, 3),
    range(2, 4),
]


@pytest.mark.parametrize("h", RANGES, ids=str)
@pytest.mark.parametrize("G", [8, 4, 2, 1])
def test_some_of_the_heads(h: range, G: int) -> None:
    rng = np.random.default_rng(G)
    q, k, v = (rng.normal(size=(2, n, 6, 5)) for n in (8, G, G))
    problem = Problem.of(
        q,
        k,
        v,
        score=overt.scaled_dot(),
        mask=overt.causal(),
        bias=overt.alibi(np.arange(8.0)),
        sinks=rng.normal(size=8),
    )
    whole, lse = reference.forward(problem)
    part = problem.part(h=h, t=range(1, 5))
    assert part.q.shape[1] == len(h)
    assert part.k.shape[1] <= len(h)
    for engine in (kernels, reference):
        output, part_lse = engine.forward(part)
        np.testing.assert_allclose(output, whole[:, h.start : h.stop : h.step, 1:5], rtol=1e-10)
        np.testing.assert_allclose(part_lse, lse[:, h.start : h.stop : h.step, 1:5], rtol=1e-10)
    # A part of a part.
    output = kernels.forward(part.part(h=h[1:], t=range(2, 4)))[0]
    np.testing.assert_allclose(output, whole[:, list(h[1:]), 2:4], rtol=1e-10)


@pytest.mark.parametrize("level", kernels.levels())
@pytest.mark.parametrize("s", [range(37), range(1, 37), range(2, 23), range(7, 36), range(12, 13)], ids=str)
def test_a_cell_is_dropped_wherever_it_is_computed(s: range, level: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v, dy = (rng.normal(size=(3, n, m, 5)) for n, m in ((4, 19), (2, 37), (2, 37), (4, 19)))
    problem = Problem.of(q, k, v, score=overt.scaled_dot(), mask=overt.causal(), dropout=overt.dropout(0.4, 2**63 + 5))
    kept = problem.dropout.factor(problem.cells)  # type: ignore[union-attr]
    assert 0.5 < (kept > 0).mean() < 0.7
    for b, h, t in ((range(3), range(4), range(19)), (range(1, 3), range(2, 4), range(5, 18))):
        part = problem.part(b, h, t, s)
        output, lse = kernels.forward(part, level=level)
        own = slice(b.start, b.stop), slice(h.start, h.stop), slice(t.start, t.stop)
        weights = reference.weights(part, lse)
        dropped = weights * kept[(*own, slice(s.start, s.stop))]
        np.testing.assert_allclose(output, dropped @ part.heads(part.v), rtol=1e-10, atol=1e-12)
        found = kernels.gradient(part, output, lse, dy[own], level=level)
        np.testing.assert_allclose(found.v, part.ungroup(dropped.mT @ dy[own]), rtol=1e-10, atol=1e-12)
        expected = reference.gradient(part, dy[own])
        for x, y in zip(found[:3], expected[:3], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def test_whole_groups_are_views() -> None:
    q, k = np.zeros((1, 8, 3, 4)), np.zeros((1, 4, 3, 4))
    problem = Problem.of(q, k, k, score=overt.dot())
    for h in (range(8), range(2, 6), range(5, 6), range(4, 8)):
        assert np.shares_memory(problem.part(h=h).k, k)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_some_of_the_heads_of_other_arrays(library: str) -> None:
    xp: Any = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, n, 6, 5)) for n in (6, 2, 2))
    problem = Problem.of(*(xp.asarray(x) for x in (q, k, v)), score=overt.scaled_dot())
    expected = overt.attention(q, k, v)
    output = reference.forward(problem.part(h=range(1, 5)))[0]
    np.testing.assert_allclose(np.asarray(output), expected[:, 1:5], rtol=1e-10)
