"""Arrays of other libraries on the CPU: the kernels' own numbers, in the library that asked."""

from __future__ import annotations

from typing import Any

import array_api_strict
import numpy as np
import pytest

import overt
import overt.interchange
from overt import kernels
from overt.errors import DtypeError, QuadraticWarning
from overt.interchange import lent


def arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3))]


def libraries() -> list[Any]:
    found = [pytest.param(array_api_strict, id="strict")]
    try:
        import jax.numpy as jnp
    except ImportError:
        return found
    return [*found, pytest.param(jnp, id="jax")]


@pytest.mark.parametrize("xp", libraries())
def test_kernels_compute_and_the_library_gets_its_own(xp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = arrays()
    given = [xp.asarray(x) for x in numbers]
    views, _ = lent(*given)  # type: ignore[misc]  # it is lent
    assert all(np.shares_memory(view, np.asarray(x)) for view, x in zip(views, given, strict=True))
    options = {"mask": overt.causal(), "bias": overt.alibi(overt.positions.alibi_slopes(4)) + np.ones(7, np.float32)}
    calls = []
    monkeypatch.setattr(kernels, "attend", lambda problem, real=kernels.attend: calls.append(1) or real(problem))
    seen, expected = overt.attend(*given, **options), overt.attend(*numbers, **options)
    assert len(calls) == 2
    kind = type(given[0])
    gradient, right = seen.gradient(seen.output), expected.gradient(expected.output)
    for ours, theirs in (
        (overt.attention(*given, **options), expected.output),
        (seen.output, expected.output),
        (seen.lse, expected.lse),
        (seen.received(), expected.received()),
        (seen.entropy(), expected.entropy()),
        (seen.top(3)[0], expected.top(3)[0]),
        (seen.top(3)[1], expected.top(3)[1]),
        (seen.map(3, 3), expected.map(3, 3)),
        (seen.weights[0, 1], expected.weights[0, 1]),
        (seen.weights[[0, 1], [1, 2], 3, 4], expected.weights[[0, 1], [1, 2], 3, 4]),
        (gradient.q, right.q),
        (gradient.bias[0], right.bias[0]),
    ):
        assert isinstance(ours, kind)
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(seen.weights), np.asarray(expected.weights))
    with pytest.raises(DtypeError, match="one library"):
        overt.attention(given[0], numbers[1], given[2])


def test_what_jax_traces_takes_the_definition() -> None:
    jax = pytest.importorskip("jax")
    q, k, v = (jax.numpy.asarray(x) for x in arrays())

    def loss(q: Any) -> Any:
        return (overt.attention(q, k, v, mask=overt.causal()) ** 2).sum()

    y = overt.attention(q, k, v, mask=overt.causal())
    expected = overt.attend(q, k, v, mask=overt.causal()).gradient(2 * y).q
    np.testing.assert_allclose(jax.grad(loss)(q), expected, rtol=0, atol=1e-5)


def test_what_is_quadratic_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(overt.interchange, "SMALL", 100)
    q, k, v = (jax.numpy.asarray(x) for x in arrays())
    overt.attention(q, k, v)
    with pytest.warns(QuadraticWarning, match="280 weights"):
        jax.grad(lambda q: overt.attention(q, k, v).sum())(q)


def test_bfloat16_of_jax() -> None:
    jax = pytest.importorskip("jax")
    q, k, v = (jax.numpy.asarray(x).astype(jax.numpy.bfloat16) for x in arrays())
    y = overt.attention(q, k, v)
    assert y.dtype == q.dtype
    assert isinstance(y, type(q))
