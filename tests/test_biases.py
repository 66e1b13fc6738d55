"""Biases: what kernels read against the definition, buckets against T5's, gradients against differences."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import overt
from overt import kernels
from overt.biases import Bias, Dense, as_bias
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Cells, Shape
from strategies import Case

SIZES = [(4, 4), (3, 6), (6, 3), (1, 5), (5, 1), (0, 4), (4, 0), (0, 0)]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def check_view(bias: Bias, shape: Shape) -> np.ndarray:
    """The bias at all cells, which its view, where there is one, and any cells picked one by one must agree with."""
    bias.check(shape)
    full = (shape.B, shape.H, shape.T, shape.S)
    expected = np.broadcast_to(bias.at(shape.cells()), full)
    view = bias.view(shape, np.dtype(np.float64))
    if view is not None:
        assert view.shape == full
        np.testing.assert_array_equal(view, expected)
    if 0 not in full:
        rng = np.random.default_rng(0)
        b, h, t, s = (rng.integers(0, n, size=20) for n in full)
        got = np.broadcast_to(bias.at(Cells(shape, b, h, t, s)), b.shape)
        np.testing.assert_array_equal(got, expected[b, h, t, s])
    return expected


@pytest.mark.parametrize(("T", "S"), SIZES)
@pytest.mark.parametrize("batch", [(), (1,), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("offset", [None, 0, 3, -4, "rows"])
def test_view_and_cells_agree(T: int, S: int, batch: tuple[int, ...], offset: Any) -> None:
    shape = Shape(batch, 2, T, S)
    offset = np.arange(shape.B).reshape(batch) * 2 - 1 if offset == "rows" else offset
    start = np.broadcast_to(S - T if offset is None else offset, batch).reshape(-1)
    distance = np.arange(S) - (np.arange(T)[:, None] + start[:, None, None])
    slopes = np.array([0.5, 3.0])
    view = check_view(overt.alibi(slopes, offset), shape)
    np.testing.assert_allclose(view, -slopes[:, None, None] * np.abs(distance)[:, None])
    for bidirectional in (True, False):
        check_view(overt.relative(normal(9, 2), bidirectional=bidirectional, max_distance=7, offset=offset), shape)


@given(data=st.data(), batch=st.sampled_from([(), (1,), (2,), (2, 3), (2, 1, 2)]))
def test_arrays_broadcast(data: st.DataObject, batch: tuple[int, ...]) -> None:
    full = (*batch, 2, 3, 4)
    axes = [data.draw(st.sampled_from([1, n])) for n in full]
    array = normal(*axes)
    for dropped in range(len(axes) + 1):
        if all(n == 1 for n in axes[:dropped]):
            view = check_view(Dense(array.reshape(axes[dropped:])), Shape(batch, 2, 3, 4))
            np.testing.assert_array_equal(view.reshape(full), np.broadcast_to(array, full))


def memory(view: np.ndarray) -> int:
    """Bytes from the first to the last number that a view reaches, each counted once."""
    low, high = np.lib.array_utils.byte_bounds(view)
    return high - low


def test_a_view_costs_no_matrix() -> None:
    # Where only a copy would have the shape, there is no view.
    shape = Shape((2, 3), 4, 100, 100)
    for bias, most in (
        (overt.alibi(np.ones(4)), 4 * 200),
        (overt.relative(normal(32, 4)), 4 * 200),
        (overt.alibi(np.ones(4), np.zeros((2, 3), int)), 6 * 4 * 200),
        (Dense(normal(100)), 100),
        (Dense(normal(4, 1, 100)), 400),
        (Dense(normal(2, 3, 1, 1, 100)), 600),
        (Dense(normal(3, 1, 1, 100)), 300),
        (Dense(normal(2, 1, 1, 1, 100)), 600),
    ):
        view = bias.view(shape, np.dtype(np.float64))
        assert view is None or memory(view) <= 8 * most


def test_a_view_has_the_dtype_asked_for() -> None:
    for bias in (overt.alibi(np.ones(2, np.float32)), overt.relative(np.ones((4, 2))), Dense(np.ones((3, 4)))):
        for dtype in (np.float32, np.float64):
            assert bias.view(Shape((), 2, 3, 4), np.dtype(dtype)).dtype == dtype


# T5's buckets.


def t5_bucket(distance: int, bidirectional: bool, num_buckets: int, max_distance: int) -> int:
    """transformers' T5Attention._relative_position_bucket, for one key − query, in single precision as there."""
    bucket = 0
    if bidirectional:
        num_buckets //= 2
        bucket += num_buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = -min(distance, 0)
    max_exact = num_buckets // 2
    if distance < max_exact:
        return bucket + distance
    ratio = np.log(np.float32(distance) / np.float32(max_exact)) / np.float32(math.log(max_distance / max_exact))
    return bucket + min(max_exact + int(ratio * np.float32(num_buckets - max_exact)), num_buckets - 1)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 256), (9, 100), (4, 3), (32, 17)])
def test_buckets_of_t5(bidirectional: bool, buckets: int, max_distance: int) -> None:
    table = np.arange(float(buckets))[:, None]
    bias = overt.relative(table, bidirectional=bidirectional, max_distance=max_distance)
    view = bias.view(Shape((), 1, 400, 400), np.dtype(np.float64))[0, 0]
    # The first row looks ahead, the last one back; every distance from −399 to 399.
    got = np.concatenate([view[-1], view[0, 1:]])
    expected = [t5_bucket(d, bidirectional, buckets, max_distance) for d in range(-399, 400)]
    assert got.astype(int).tolist() == expected


def test_buckets_that_the_paper_names() -> None:
    # 32 buckets up to distance 128: encoders have 16 to each side, decoders all of them behind.
    view = overt.relative(np.arange(32.0)[:, None]).view(Shape((), 1, 300, 300), np.dtype(float))[0, 0]
    assert view[200, 200 - np.arange(9)].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert view[200, [0, 201, 207, 208, 299]].tolist() == [15, 17, 23, 24, 31 if 99 >= 91 else 30]
    view = overt.relative(np.arange(32.0)[:, None], bidirectional=False).view(Shape((), 1, 300, 300), np.dtype(float))
    assert view[0, 0, 200, [0, 100, 184, 185, 199, 200, 201, 299]].tolist() == [31, 30, 16, 15, 1, 0, 0, 0]


# Gradients.


def numeric(f: Any, x: np.ndarray) -> np.ndarray:
    """Central differences of a number by every entry of x."""
    result = np.empty(x.shape)
    for i in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[i] = 1e-5
        result[i] = (f(x + step) - f(x - step)) / 2e-5
    return result


def check_gradient(parameter: np.ndarray, make: Any, batch: tuple[int, ...] = (), **options: Any) -> None:
    q, k, v = normal(*batch, 2, 4, 3), normal(*batch, 1, 5, 3, seed=1), normal(*batch, 1, 5, 2, seed=2)
    dy = normal(*batch, 2, 4, 2, seed=3)

    def loss(x: np.ndarray) -> float:
        return float((overt.attention(q, k, v, bias=make(x), **options) * dy).sum())

    got = overt.attend(q, k, v, bias=make(parameter), **options).gradient(dy).bias
    assert got.shape == parameter.shape
    np.testing.assert_allclose(got, numeric(loss, parameter), rtol=1e-5, atol=1e-8)


OPTIONS: list[dict[str, Any]] = [
    {},
    {"mask": overt.causal()},
    {"softcap": 1.5},
    {"sinks": np.array([0.5, -0.5])},
    {"mask": overt.window(1, 1), "softcap": 2.0, "sinks": np.zeros(2), "dropout": overt.dropout(0.3, 1)},
    {"score": overt.additive(normal(3, 3), normal(3, 3, seed=1), normal(3))},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.parametrize("offset", [None, 0])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_of_slopes_and_table(batch: tuple[int, ...], offset: int | None, options: dict[str, Any]) -> None:
    check_gradient(np.array([0.3, 0.7]), lambda x: overt.alibi(x, offset), batch, **options)
    table = normal(6, 2, seed=5)
    for bidirectional in (True, False):
        check_gradient(
            table,
            lambda x, both=bidirectional: overt.relative(x, bidirectional=both, max_distance=4, offset=offset),
            batch,
            **options,
        )


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 4, 5), (2, 1, 1), (4, 1), (1, 5), (5,), (1,), ()], ids=str)
@pytest.mark.parametrize("batch", [(), (2,), (2, 1)])
def test_gradients_of_arrays(batch: tuple[int, ...], shape: tuple[int, ...], options: dict[str, Any]) -> None:
    check_gradient(normal(*shape, seed=4), lambda x: x, batch, **options)


@pytest.mark.parametrize("shape", [(2, 2, 4, 5), (2, 1, 1, 1), (1, 1, 4, 1)], ids=str)
def test_gradients_of_arrays_with_a_batch(shape: tuple[int, ...]) -> None:
    check_gradient(normal(*shape, seed=4), lambda x: x, (2,))
    check_gradient(normal(3, *shape, seed=4), lambda x: x, (3, 2))
    check_gradient(normal(1, *shape, seed=4), lambda x: x, (3, 2))


def test_the_gradient_of_what_is_hidden_is_zero() -> None:
    bias = normal(4, 5)
    bias[:, 2] = -np.inf
    q, k, v = normal(1, 4, 3), normal(1, 5, 3), normal(1, 5, 2)
    gradient = overt.attend(q, k, v, bias=bias, mask=overt.causal(0)).gradient(np.ones((1, 4, 2))).bias
    assert np.array_equal(gradient[:, 2], np.zeros(4))
    assert np.array_equal(gradient[np.triu_indices(4, 1)], np.zeros(6))


# Sums.


def terms(batch: tuple[int, ...] = ()) -> list[tuple[np.ndarray, Any]]:
    """Parameters, and the biases made of them."""
    return [
        (np.array([0.3, 0.7]), overt.alibi),
        (normal(6, 2), lambda x: overt.relative(x, max_distance=4)),
        (normal(2, 4, 1, seed=1), lambda x: x),
        (normal(*batch, 1, 1, 5, seed=2), lambda x: x),
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3), (3, 1), (0, 1), (0, 0)], ids=str)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_sums_and_their_gradients(batch: tuple[int, ...], order: tuple[int, ...], options: dict[str, Any]) -> None:
    q, k, v = normal(*batch, 2, 4, 3), normal(*batch, 1, 5, 3, seed=1), normal(*batch, 1, 5, 2, seed=2)
    dy = normal(*batch, 2, 4, 2, seed=3)
    parts = [terms(batch)[i] for i in order]

    def added(parameters: list[np.ndarray]) -> Any:
        first, *others = (make(x) for x, (_, make) in zip(parameters, parts, strict=True))
        for other in others:
            # An array stands on either side.
            first = first + other
        return first

    def one_array(parameters: list[np.ndarray]) -> np.ndarray:
        biases = [as_bias(make(x), on_host=True) for x, (_, make) in zip(parameters, parts, strict=True)]
        shape = Shape(batch, 2, 4, 5)
        return np.sum([np.broadcast_to(b.at(shape.cells()), (shape.B, 2, 4, 5)) for b in biases if b], 0).reshape(
            shape.full
        )

    given_parameters = [x for x, _ in parts]
    seen = overt.attend(q, k, v, bias=added(given_parameters), **options)
    expected = overt.attend(q, k, v, bias=one_array(given_parameters), **options)
    for name in ("output", "lse"):
        np.testing.assert_allclose(getattr(seen, name), getattr(expected, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(seen.weights[...], expected.weights[...], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(seen.weights[..., [0, 1], [2, 3]], expected.weights[..., [0, 1], [2, 3]], atol=1e-12)
    got = seen.gradient(dy).bias
    assert isinstance(got, tuple)
    for i, (parameter, gradient) in enumerate(zip(given_parameters, got, strict=True)):
        alone = lambda x, i=i: added([*given_parameters[:i], x, *given_parameters[i + 1 :]])  # noqa: E731
        loss = lambda x: float((overt.attention(q, k, v, bias=alone(x), **options) * dy).sum())  # noqa: B023, E731
        assert gradient.shape == parameter.shape
        np.testing.assert_allclose(gradient, numeric(loss, parameter), rtol=1e-5, atol=1e-8)


def test_a_sum_of_distances_is_one_view() -> None:
    shape = Shape((2,), 2, 30, 40)
    for other in (overt.relative(normal(8, 2)), overt.alibi(np.ones(2), np.array([3, 4]))):
        view = check_view(overt.alibi(np.array([0.5, 2.0])) + other, shape)
        found = (overt.alibi(np.array([0.5, 2.0])) + other).view(shape, np.dtype(np.float64))
        assert memory(found) <= 8 * 2 * 2 * 70
        np.testing.assert_array_equal(found, view)


def test_sums_are_flat_and_short() -> None:
    total = (overt.alibi(np.ones(2)) + np.ones(5)) + (np.ones(4) + overt.relative(np.ones((8, 2))))
    assert len(total.parameter) == 4
    assert [np.shape(x) for x in total.parameter] == [(2,), (5,), (4,), (8, 2)]


@pytest.mark.parametrize("other", ["x", None, overt.causal(), np.ones(3, int), np.ones(3, bool)], ids=repr)
def test_what_does_not_add_up(other: Any) -> None:
    bias = overt.alibi(np.ones(2))
    for add in (lambda: bias + other, lambda: other + bias):
        with pytest.raises(DtypeError, match=r"bias"):
            add()


def test_terms_are_checked_each_for_itself() -> None:
    q = normal(2, 3, 4).astype(np.float16)
    with pytest.raises(DtypeError, match="bias is float64 beside float16"):
        overt.attention(q, q, q, bias=overt.alibi(np.ones(2)) + normal(3, 3))
    with pytest.raises(ShapeError, match="does not broadcast"):
        overt.attention(q, q, q, bias=overt.alibi(np.ones(2)) + np.ones((4, 4), np.float16))
    with pytest.raises(ShapeError, match="alibi has slopes for 3 heads"):
        overt.attention(q, q, q, bias=np.ones((3, 3), np.float16) + overt.alibi(np.ones(3)))


# What does not fit.


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: overt.alibi(np.ones((2, 2))), ShapeError, r"slopes.*\(2, 2\).*\(H,\)"),
        (lambda: overt.alibi(1.0), ShapeError, r"slopes.*\(\).*\(H,\)"),
        (lambda: overt.alibi(np.ones(2, int)), DtypeError, r"slopes.*floats.*int64.*astype"),
        (lambda: overt.alibi(np.ones(2), 0.5), DtypeError, r"offset.*integers.*float64"),
        (lambda: overt.alibi(None), DtypeError, r"slopes.*floats"),
        (lambda: overt.relative(np.ones(8)), ShapeError, r"table.*\(8,\).*\(buckets, H\)"),
        (lambda: overt.relative(np.ones((3, 2))), ShapeError, r"table.*\(3, 2\).*4 buckets"),
        (lambda: overt.relative(np.ones((1, 2)), bidirectional=False), ShapeError, r"table.*\(1, 2\).*2 buckets"),
        (lambda: overt.relative(np.ones((32, 2)), max_distance=8), ArgumentError, r"max_distance.*more than 8"),
        (lambda: overt.relative(np.ones((32, 2)), max_distance=0.5), ArgumentError, r"max_distance.*whole"),
        (lambda: overt.relative(np.ones((32, 2)), max_distance=-1), ArgumentError, r"max_distance"),
        (lambda: overt.relative([[1.0], [1.0, 2.0]]), (ShapeError, DtypeError), r"table"),
    ],
    ids=range(12),
)
def test_biases_that_cannot_be(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (np.zeros((4, 4)), r"bias.*\(4, 4\).*\(2, 3, 4, 5\)"),
        (np.zeros((2, 4, 5)), r"bias.*\(2, 4, 5\).*\(2, 3, 4, 5\)"),
        (np.zeros((1, 2, 3, 4, 5)), r"bias.*\(1, 2, 3, 4, 5\).*\(2, 3, 4, 5\)"),
        (overt.alibi(np.ones(2)), r"alibi.*2 heads.*q has 3"),
        (overt.relative(np.ones((8, 4))), r"relative.*4 heads.*q has 3"),
        (overt.alibi(np.ones(3), np.arange(3)), r"offsets.*\(3,\).*\(2,\)"),
    ],
    ids=range(6),
)
def test_biases_that_do_not_fit(bias: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        overt.attention(np.zeros((2, 3, 4, 1)), np.zeros((2, 3, 5, 1)), np.zeros((2, 3, 5, 1)), bias=bias)


def test_a_mask_is_no_bias_and_a_bias_no_mask() -> None:
    q = np.zeros((2, 3, 4))
    with pytest.raises(DtypeError, match=r"mask="):
        overt.attention(q, q, q, bias=overt.causal())
    with pytest.raises(DtypeError, match=r"bias="):
        overt.attention(q, q, q, mask=overt.alibi(np.ones(2)))


def test_slopes_given_as_a_list_fit_any_inputs() -> None:
    # A list has no dtype that could be mixed with another.
    q = normal(2, 3, 4).astype(np.float32)
    y = overt.attention(q, q, q, bias=overt.alibi([0.5, 0.25]))
    np.testing.assert_array_equal(y, overt.attention(q, q, q, bias=overt.alibi(np.float32([0.5, 0.25]))))


# Biases that are broadcast.


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("shape", [(2000, 1), (1, 2000), (1,), (3, 1, 1)])
def test_a_broadcast_bias_is_never_made_whole(dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(3, 2000, 4)).astype(dtype) for _ in range(3))
    stored = rng.normal(size=shape).astype(dtype)
    bias = np.broadcast_to(stored, (3, 2000, 2000))
    expected = overt.attend(q, k, v, bias=np.broadcast_to(stored, (3, 2000, 2000)).astype(np.float32))
    tracemalloc.start()
    try:
        seen = overt.attend(q, k, v, bias=bias)
        seen.top(2)
        seen.received()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20
    np.testing.assert_allclose(seen.output, expected.output, rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(seen.lse, expected.lse, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(seen.weights[:, 7:9, 100:500], expected.weights[:, 7:9, 100:500], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("level", kernels.levels())
def test_one_number_a_row(level: str) -> None:
    rng = np.random.default_rng(1)
    q, k, v, dy = (rng.normal(size=(1, 4, n, 8)).astype(np.float32) for n in (70, 130, 130, 70))
    bias = rng.normal(size=(4, 70, 1)).astype(np.float32)
    results = []
    # Parts of a sum and slices of rows too.
    for same in (bias, np.repeat(bias, 130, axis=-1), overt.alibi(np.zeros(4, np.float32)) + bias):
        problem = Case(
            q, k, v, {"bias": same, "mask": overt.window(40, 40), "sinks": np.zeros(4, np.float32)}
        ).problem()
        output, lse = kernels.forward(problem, level=level)
        w = kernels.weights(problem, lse, level=level)
        some = problem.part(t=range(20, 41, 3), s=range(9, 100))
        tile = kernels.weights(some, np.ascontiguousarray(lse[:, :, 20:41:3]), level=level)
        np.testing.assert_allclose(tile, w[:, :, 20:41:3, 9:100], rtol=1e-5, atol=1e-7)
        found = kernels.gradient(problem, output, lse, dy, level=level)
        results.append([output, lse, w, *found[:3], found.sinks])
    for other in results[1:]:
        for got, expected in zip(other, results[0], strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_at_their_edges(bidirectional: bool) -> None:
    # The formula of T5 in single precision, whose logarithm of float32 is right to the last bit.
    distance = np.arange(-3000, 3001)
    sizes = product((4, 8, 12, 20, 32, 48, 64, 100, 128), (20, 50, 64, 100, 128, 200, 256, 1000, 1024))
    # Where a logarithm of NumPy's in single precision has been another number.
    for buckets, max_distance in (*sizes, (34, 27), (36, 98), (38, 49), (48, 81), (72, 100)):
        near = buckets // (4 if bidirectional else 2)
        if max_distance <= near:
            continue
        found = overt.relative(np.zeros((buckets, 1)), bidirectional=bidirectional, max_distance=max_distance)
        half = buckets // 2 if bidirectional else buckets
        away = np.abs(distance) if bidirectional else np.maximum(-distance, 0)
        ratio = (np.maximum(away, 1).astype(np.float32) / np.float32(near)).astype(np.float64)
        far = np.log(ratio).astype(np.float32) / np.float32(np.log(max_distance / near)) * np.float32(half - near)
        far = np.minimum(near + far.astype(int), half - 1)
        expected = np.where(away < near, away, far) + (half * (distance > 0) if bidirectional else 0)
        np.testing.assert_array_equal(found.bucket(distance), expected)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_of_the_library_that_people_use(bidirectional: bool) -> None:
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention._relative_position_bucket
    distance = np.arange(-3000, 3001)
    for buckets in (8, 12, 20, 32, 64, 100):
        for max_distance in (64, 100, 128, 200, 256, 1000, 1024):
            found = overt.relative(np.zeros((buckets, 1)), bidirectional=bidirectional, max_distance=max_distance)
            expected = t5(torch.from_numpy(distance), bidirectional, buckets, max_distance).numpy()
            np.testing.assert_array_equal(found.bucket(distance), expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_biases_of_half_types_add_up_in_float32(dtype: type) -> None:
    H, T, S = 2, 16, 17
    q, k, v = (normal(H, n, 8, seed=n).astype(dtype) for n in (T, S, S))
    a, b, x = normal(8, H).astype(dtype), normal(8, H, seed=1).astype(dtype), normal(H, T, S, seed=2).astype(dtype)

    def sums(of: Callable[[np.ndarray], np.ndarray]) -> list[overt.Bias]:
        first, second, whole = of(a), of(b), of(x)
        return [
            overt.relative(first) + overt.relative(second),
            overt.relative(first) + whole,
            whole + overt.relative(first) + overt.alibi(np.abs(second[0])),
        ]

    def wide(y: np.ndarray) -> np.ndarray:
        return y.astype(np.float64)

    for half, exact in zip(sums(lambda y: y), sums(wide), strict=True):
        expected = overt.attend(wide(q), wide(k), wide(v), bias=exact)
        seen = overt.attend(q, k, v, bias=half)
        picked = np.ix_(range(H), range(T), range(S))
        np.testing.assert_allclose(seen.weights[...], expected.weights[...], atol=5e-6)
        np.testing.assert_allclose(seen.weights[picked], expected.weights[...], atol=5e-6)
        np.testing.assert_allclose(seen.lse, expected.lse, atol=2e-5)
