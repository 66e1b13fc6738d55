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
