"""The gradient of the lse, and the gradient as a tuple that carries more than its four."""

from __future__ import annotations

import copy
import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest

import overt
from overt import kernels
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.problem import Problem
from overt.reference import Gradient


def example(rng: np.random.Generator, dtype: type = np.float64) -> dict[str, np.ndarray]:
    arrays = {"q": (4, 6, 8), "k": (2, 7, 8), "v": (2, 7, 5), "bias": (1, 6, 7), "sinks": (4,)}
    return {name: rng.normal(size=shape).astype(dtype) for name, shape in arrays.items()}


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"dropout": overt.dropout(0.3, 5)}])
def test_gradient_of_output_and_lse_by_differences(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    arrays = example(rng)
    dy, dlse = rng.normal(size=(4, 6, 5)), rng.normal(size=(4, 6))

    def attend() -> overt.Attended:
        q, k, v = (arrays[name] for name in "qkv")
        return overt.attend(q, k, v, mask=overt.window(3, 1), bias=arrays["bias"], sinks=arrays["sinks"], **options)

    found = attend().gradient(dy, dlse)
    for name, array in arrays.items():
        got, expected = getattr(found, name), np.empty(array.shape)
        for place in np.ndindex(array.shape):
            losses, before = [], array[place]
            for step in (1e-6, -1e-6):
                array[place] = before + step
                seen = attend()
                losses.append((seen.output * dy).sum() + (seen.lse * dlse).sum())
            array[place] = before
            expected[place] = (losses[0] - losses[1]) / 2e-6
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-8, err_msg=name)


def test_the_lse_of_a_row_that_sees_nothing_pulls_nothing() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(2, 5, 4)).astype(np.float32) for _ in range(3))
    seen = overt.attend(q, k, v, mask=overt.padding(np.array(0)), sinks=np.array([0, -np.inf], np.float32))
    found = seen.gradient(np.zeros_like(q), np.ones((2, 5), np.float32))
    assert not any(x.any() for x in found[:3])
    # All of the first head's lse is its sink.
    np.testing.assert_allclose(found.sinks, [5, 0], rtol=1e-6)


def test_any_dy_and_dlse_of_the_right_shape() -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(3, 2, 9, 4)).astype(np.float32) for _ in range(3))
    seen = overt.attend(q, k, v)
    dlse = rng.normal(size=(3, 2, 18))[..., ::2]
    with_lse, without = seen.gradient(q, dlse), seen.gradient(q)
    np.testing.assert_array_equal(with_lse.v, without.v)
    assert np.abs(with_lse.q - without.q).max() > 1e-3
    with pytest.raises(ShapeError, match=r"dlse has shape \(3, 2, 8\), but the lse has \(3, 2, 9\)"):
        seen.gradient(q, dlse[..., 1:])
    with pytest.raises(DtypeError, match="dlse is int64, not floats"):
        seen.gradient(q, np.ones((3, 2, 9), np.int64))


def test_an_lse_from_elsewhere_serves_as_well() -> None:
    rng = np.random.default_rng(3)
    q, k, v, dy = (rng.normal(size=(2, 5, 4)).astype(np.float32) for _ in range(4))
    bias = np.where(np.arange(5) == 2, -1e6, 1e4 + rng.normal(size=(5, 5))).astype(np.float32)
    bias[3] = np.finfo(np.float32).min
    seen = overt.attend(q, k, v, bias=bias)
    exact = overt.attend(*(x.astype(np.float64) for x in (q, k, v)), bias=bias.astype(np.float64))
    other = overt.Attended(seen.problem, (seen.output[None], exact.lse[None].astype(np.float32)))
    np.testing.assert_allclose(other.weights, seen.weights, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(other.weights).sum(axis=-1), 1, rtol=1e-6)
    np.testing.assert_allclose(other.weights[:, 3], 1 / 5, rtol=1e-6)
    np.testing.assert_allclose(other.received(), seen.received(), rtol=1e-5)
    np.testing.assert_allclose(other.gradient(dy).v, seen.gradient(dy).v, rtol=1e-5, atol=1e-6)


def test_what_the_gradient_reads_cannot_be_written_to() -> None:
    q = np.random.default_rng(4).normal(size=(2, 5, 4))
    seen = overt.attend(q, q, q)
    before = seen.gradient(q)
    y = seen.output
    with pytest.raises(ValueError, match="read-only"):
        y += 1
    for array in (seen.lse, seen.received(), seen.entropy()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    np.testing.assert_array_equal(seen.gradient(q).q, before.q)
    # The output of `attention` is the caller's own.
    overt.attention(q, q, q)[...] = 0


def test_weights_of_what_has_changed_are_an_error() -> None:
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(1, 9, 4)).astype(np.float32) for _ in range(3))
    seen = overt.attend(q, k, v, mask=overt.causal())
    for ask in (
        lambda seen: seen.weights[0],
        lambda seen: seen.weights[[0], [8]],
        lambda seen: seen.top(2),
        lambda seen: seen.map(3, 3),
        lambda seen: seen.received(),
    ):
        seen = overt.attend(q, k, v, mask=overt.causal(), num_threads=1)
        ask(seen)
        seen = overt.attend(q.copy(), k, v, mask=overt.causal())
        seen.problem.q[...] *= 40
        with pytest.raises(ArgumentError, match="q, k, the mask or the bias have changed"):
            ask(seen)


def gradient() -> Gradient:
    arrays = example(np.random.default_rng(5), np.float32)
    q, k, v = (arrays[name] for name in "qkv")
    return overt.attend(
        q, k, v, bias=arrays["bias"], sinks=arrays["sinks"], score=overt.bilinear(np.eye(8, dtype=np.float32))
    ).gradient(np.ones((4, 6, 5), np.float32))


def same(a: Gradient, b: Gradient) -> bool:
    assert type(a) is type(b) is Gradient
    assert a.score.keys() == b.score.keys() == {"weight"}
    pairs = [*zip(a, b, strict=True), (a.sinks, b.sinks), (a.score["weight"], b.score["weight"])]
    return all(np.array_equal(x, y) for x, y in pairs)


def test_a_gradient_keeps_its_sinks_and_scores() -> None:
    found = gradient()
    assert found.sinks is not None
    assert same(found._replace(), found)
    changed = found._replace(q=0 * found.q, sinks=None)
    assert not changed.q.any()
    assert changed.sinks is None
    assert changed.score is found.score
    assert np.array_equal(changed.k, found.k)
    with pytest.raises(ValueError, match="no value"):
        found._replace(value=0)
    for twin in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert same(twin, found)
    q, *_, bias = found
    assert q is found.q
    assert bias is found.bias
    assert len(found) == 4


def test_a_gradient_is_a_tree_of_jax() -> None:
    jax = pytest.importorskip("jax")
    found = gradient()
    leaves, shape = jax.tree_util.tree_flatten(found)
    assert len(leaves) == 6
    assert same(jax.tree_util.tree_unflatten(shape, leaves), found)
    doubled = jax.tree_util.tree_map(lambda x: 2 * x, found)
    np.testing.assert_array_equal(doubled.sinks, 2 * found.sinks)
    np.testing.assert_array_equal(doubled.score["weight"], 2 * found.score["weight"])


def test_a_gradient_is_a_tree_of_torch() -> None:
    trees = pytest.importorskip("torch.utils._pytree")
    found = gradient()
    leaves, shape = trees.tree_flatten(found)
    assert len(leaves) == 6
    assert same(trees.tree_unflatten(leaves, shape), found)
    np.testing.assert_array_equal(trees.tree_map(lambda x: 2 * x, found).sinks, 2 * found.sinks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("by_rows", [False, True])
def test_what_is_not_wanted_is_not_computed(dtype: type, by_rows: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = (2, 4, 40, 8), (2, 2, 300, 8), (2, 2, 300, 5), (2, 4, 40, 5)
    q, k, v, dy = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    # Masks without a span or a bias are computed some rows at a time.
    more = {"mask": overt.where(lambda b, h, t, s: (s + t) % 3 > 0), "bias": overt.alibi(np.ones(4, dtype))}
    problem = Problem.of(q, k, v, score=overt.scaled_dot(), softcap=3.0, **(more if by_rows else {}))
    output, lse = kernels.forward(problem)
    whole = kernels.gradient(problem, output, lse, dy)
    for wanted in product([False, True], repeat=3):
        some = kernels.gradient(problem, output, lse, dy, wanted=wanted)
        for want, part, full in zip(wanted, some[:3], whole[:3], strict=True):
            assert (part is not None) == want
            assert part is None or np.array_equal(part, full)
        assert whole.bias is None or np.array_equal(some.bias, whole.bias)
