"""Positions against the formulas of their papers, written another way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import overt
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.positions import alibi_slopes, learned, rope, sinusoidal

LAYOUTS = ["half", "interleaved"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


# Encodings that are added.


@pytest.mark.parametrize("width", [1, 2, 7, 8, 64])
@pytest.mark.parametrize("T", [0, 1, 5])
def test_sinusoidal(T: int, width: int) -> None:
    even = width + width % 2
    expected = np.empty((T, width))
    for p in range(T):
        for i in range(width):
            angle = p / 10_000 ** ((i - i % 2) / even)
            expected[p, i] = np.cos(angle) if i % 2 else np.sin(angle)
    got = sinusoidal(T, width)
    assert got.dtype == np.float64
    assert got.shape == (T, width)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12)


def test_sinusoidal_of_chosen_positions() -> None:
    whole = sinusoidal(50, 6)
    for positions in (
        np.array([3, 0, 49]),
        np.array([[1, 2], [40, 3]], np.int8),
        np.array(7),
        [5, 6],
        np.zeros(0, int),
    ):
        np.testing.assert_array_equal(sinusoidal(positions, 6), whole[positions])
    np.testing.assert_array_equal(sinusoidal(torch.tensor([3, 4]), 6), whole[3:5])
    np.testing.assert_array_equal(sinusoidal(np.int64(4), 6), whole[:4])
    assert sinusoidal(4, 0).shape == (4, 0)
    # A distance is a rotation, the reason that the paper gives.
    pairs = whole.reshape(50, 3, 2) @ np.array([1j, 1])
    np.testing.assert_allclose(pairs[7:] / pairs[:-7], np.broadcast_to(pairs[7] / pairs[0], (43, 3)), atol=1e-12)


def test_sinusoidal_base() -> None:
    np.testing.assert_allclose(sinusoidal(4, 4, base=100.0)[:, 2], np.sin(np.arange(4) / 10))


def test_learned() -> None:
    table = normal(9, 4)
    np.testing.assert_array_equal(learned(table, 3), table[:3])
    np.testing.assert_array_equal(learned(table, 0), table[:0])
    for positions in (np.array([8, 0]), np.array([[1, 2], [3, 1]]), [2, 2], np.array(5), np.zeros((0, 2), int)):
        np.testing.assert_array_equal(learned(table, positions), table[positions])
    got = learned(torch.from_numpy(table).requires_grad_(), torch.tensor([[1, 2]]))
    assert isinstance(got, torch.Tensor)
    assert got.requires_grad
    np.testing.assert_array_equal(got.detach().numpy(), table[[[1, 2]]])
    for bad in (10, np.array([9]), np.array([-1])):
        with pytest.raises(ArgumentError, match=r"positions.*9 rows"):
            learned(table, bad)


# Rotations.


def rotated(x: np.ndarray, positions: np.ndarray, layout: str, base: float = 10_000.0) -> np.ndarray:
    """Equation 34 with a complex number for each pair of features; positions broadcast to x without its last axis."""
    D = x.shape[-1]
    first, second = (x[..., : D // 2], x[..., D // 2 :]) if layout == "half" else (x[..., 0::2], x[..., 1::2])
    turn = np.exp(1j * positions[..., None] * base ** (-2 * np.arange(D // 2) / D))
    z = (first + 1j * second) * turn
    if layout == "half":
        return np.concatenate([z.real, z.imag], axis=-1)
    return np.stack([z.real, z.imag], axis=-1).reshape(*z.shape[:-1], D)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "shape", [(5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8), (1, 2), (0, 4), (3, 4, 0)], ids=str
)
def test_rope_is_a_rotation(shape: tuple[int, ...], layout: Any) -> None:
    x, T = normal(*shape), shape[-2]
    before = x.copy()
    np.testing.assert_allclose(rope(x, layout=layout), rotated(x, np.arange(T), layout), atol=1e-12)
    np.testing.assert_allclose(rope(x, 7, layout=layout), rotated(x, np.arange(T) + 7, layout), atol=1e-12)
    np.testing.assert_allclose(rope(x, -3, layout=layout), rotated(x, np.arange(T) - 3, layout), atol=1e-12)
    points = np.random.default_rng(0).integers(-50, 50, size=T)
    np.testing.assert_allclose(rope(x, points, layout=layout), rotated(x, points, layout), atol=1e-12)
    got = rope(x, points, layout=layout, base=100.0)
    np.testing.assert_allclose(got, rotated(x, points, layout, 100.0), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(got, axis=-1), np.linalg.norm(x, axis=-1))
    assert np.array_equal(x, before)
    assert got.shape == x.shape


def test_rope_of_a_pair_by_hand() -> None:
    x = np.array([[1.0, 0, 0, 0]])
    np.testing.assert_allclose(rope(x, 1, layout="half")[0], [np.cos(1), 0, np.sin(1), 0])
    np.testing.assert_allclose(rope(x, 1, layout="interleaved")[0], [np.cos(1), np.sin(1), 0, 0])
    x = np.array([[0, 1.0, 0, 0]])
    np.testing.assert_allclose(rope(x, 1, layout="half")[0], [0, np.cos(0.01), 0, np.sin(0.01)])
    np.testing.assert_allclose(rope(x, 1, layout="interleaved")[0], [-np.sin(1), np.cos(1), 0, 0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_are_a_permutation_of_each_other(layout: Any) -> None:
    x = normal(5, 8)
    order = np.arange(8).reshape(2, 4).T.reshape(-1)
    np.testing.assert_allclose(rope(x[:, order], layout="interleaved"), rope(x, layout="half")[:, order], atol=1e-15)


@given(
    m=st.integers(-100, 100), n=st.integers(-100, 100), shift=st.integers(-1000, 1000), layout=st.sampled_from(LAYOUTS)
)
def test_only_the_distance_counts(m: int, n: int, shift: int, layout: Any) -> None:
    q, k = normal(1, 16), normal(1, 16, seed=1)

    def score(a: int, b: int) -> float:
        return float(rope(q, a, layout=layout)[0] @ rope(k, b, layout=layout)[0])

    np.testing.assert_allclose(score(m, n), score(m + shift, n + shift), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cache_may_rotate_as_it_goes(layout: Any) -> None:
    x = normal(2, 9, 6)
    parts = [rope(x[:, t : t + 1], t, layout=layout) for t in range(9)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), rope(x, layout=layout), atol=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_per_batch_row(layout: Any) -> None:
    x = normal(2, 3, 4, 6)
    points = np.array([[0, 1, 2, 3], [5, 9, 9, -1]])
    got = rope(x, points, layout=layout)
    for b in range(2):
        np.testing.assert_allclose(got[b], rope(x[b], points[b], layout=layout))
    np.testing.assert_allclose(rope(x, points[:1], layout=layout), rope(x, points[0], layout=layout))
    np.testing.assert_allclose(rope(x[None], points, layout=layout), got[None])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [0, 2, 4, 6])
def test_only_the_first_features(width: int, layout: Any) -> None:
    x = normal(2, 5, 6)
    got = rope(x, 3, layout=layout, width=width)
    np.testing.assert_array_equal(got[..., width:], x[..., width:])
    # The frequencies are those of the width that turns.
    np.testing.assert_allclose(got[..., :width], rope(x[..., :width], 3, layout=layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ">f4", ">f8"], ids=str)
def test_rope_keeps_the_dtype(dtype: Any, layout: Any) -> None:
    dtype = np.dtype(dtype)
    x = normal(2, 5, 8).astype(dtype)
    got = rope(x, 10_000, layout=layout, width=6)
    assert got.dtype == dtype
    exact = x.astype(np.float64)
    exact[..., :6] = rotated(exact[..., :6], np.arange(5) + 10_000, layout)
    # Angles are worked out in double precision, so that far positions lose nothing, and half types are rounded once.
    rounding = {2: 2.0**-8 if dtype.name == "bfloat16" else 2.0**-11, 4: 1e-6, 8: 1e-12}[dtype.itemsize]
    np.testing.assert_allclose(got.astype(float), exact, rtol=1.01 * rounding, atol=min(rounding, 1e-6))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_rope_of_tensors(dtype: str, layout: Any) -> None:
    x = torch.from_numpy(normal(2, 3, 5, 8)).to(getattr(torch, dtype)).requires_grad_()
    for positions in (4, torch.tensor([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]]), np.arange(5)):
        got = rope(x, positions, layout=layout, width=4)
        assert got.dtype == x.dtype
        other = positions.numpy() if isinstance(positions, torch.Tensor) else positions
        expected = rope(x.detach().double().numpy(), other, layout=layout, width=4)
        np.testing.assert_allclose(got.detach().double(), expected, rtol=1e-2, atol=0.05 if "16" in dtype else 1e-6)
    got.sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_positions_that_lie_on_a_device_stay_there(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, table = torch.empty(2, 3, 5, 8, device="meta"), torch.empty(9, 4, device="meta")
    there = torch.empty(2, 5, dtype=torch.int64, device="meta")
    turned, rows = rope(x, there, layout=layout), learned(table, there)
    assert (turned.shape, turned.device.type, rows.shape, rows.device.type) == (x.shape, "meta", (2, 5, 4), "meta")
    # Here, as if it were another device.
    x, there = torch.from_numpy(normal(2, 3, 5, 8)), torch.tensor([[0, 1, 2, 3, 4], [9, 8, 7, 6, 5]])
    expected = rope(x, there.numpy(), layout=layout)
    monkeypatch.setattr("overt.positions.is_elsewhere", torch.is_tensor)
    monkeypatch.setattr("overt.grid.is_elsewhere", torch.is_tensor)
    torch.testing.assert_close(rope(x, there, layout=layout), expected, rtol=0, atol=1e-12)
    # And read for what does not lie there.
    np.testing.assert_allclose(rope(x.numpy(), there, layout=layout), expected, rtol=0, atol=1e-12)


# Slopes.


PUBLISHED = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    8: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8],
    16: [2 ** (-i / 2) for i in range(1, 17)],
    # The eight of 8 heads, then every second one of 16.
    12: [*(2**-i for i in range(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    3: [2**-4, 2**-8, 2**-2],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
}


@pytest.mark.parametrize("heads", PUBLISHED)
def test_published_slopes(heads: int) -> None:
    np.testing.assert_allclose(alibi_slopes(heads), PUBLISHED[heads], rtol=1e-6)


def slopes(n: int) -> list[float]:
    """get_slopes of Press et al., github.com/ofirpress/attention_with_linear_biases."""
    if np.log2(n).is_integer():
        start = 2 ** (-(2 ** -(np.log2(n) - 3)))
        return [start * start**i for i in range(n)]
    below = 2 ** int(np.floor(np.log2(n)))
    return slopes(below) + slopes(2 * below)[0::2][: n - below]


@pytest.mark.parametrize("heads", [*range(1, 21), 31, 64, 71])
def test_slopes_of_the_authors(heads: int) -> None:
    for count in (heads, np.int64(heads), np.uint8(heads)):
        got = alibi_slopes(count)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, slopes(heads), rtol=1e-6)


def test_no_slopes() -> None:
    assert alibi_slopes(0).shape == (0,)


# What cannot be.


X = np.zeros((2, 3, 5, 6))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: sinusoidal(-1, 4), ArgumentError, r"positions.*at least 0.*-1"),
        (lambda: sinusoidal(3, -4), ArgumentError, r"width.*at least 0.*-4"),
        (lambda: sinusoidal(3, 4.0), ArgumentError, r"width.*whole number.*4\.0"),
        (lambda: sinusoidal(np.array([0.5]), 4), DtypeError, r"positions.*integers.*float64"),
        (lambda: sinusoidal(True, 4), (ArgumentError, DtypeError), r"positions"),
        (lambda: sinusoidal(3, 4, base=0), ArgumentError, r"base.*positive.*0"),
        (lambda: sinusoidal(3, 4, base=float("nan")), ArgumentError, r"base.*positive.*nan"),
        (lambda: sinusoidal(3, 4, base="ten"), ArgumentError, r"base.*positive.*ten"),
        (lambda: sinusoidal(None, 4), DtypeError, r"positions.*integers"),
        (lambda: learned([[1.0]], 1), DtypeError, r"table.*list"),
        (lambda: learned(np.zeros(3), 1), ShapeError, r"table.*\(3,\).*\(N, width\)"),
        (lambda: learned(np.zeros((3, 2)), 1.5), DtypeError, r"positions.*integers"),
        (lambda: alibi_slopes(-1), ArgumentError, r"heads.*at least 0.*-1"),
        (lambda: alibi_slopes(2.0), ArgumentError, r"heads.*whole number.*2\.0"),
        (lambda: rope([[1.0, 2.0]], layout="half"), DtypeError, r"x.*list"),
        (lambda: rope(None, layout="half"), DtypeError, r"x.*NoneType"),
        (lambda: rope(np.zeros(4), layout="half"), ShapeError, r"\(4,\).*|.*\(…, T, D\).*\(4,\)"),
        (lambda: rope(np.zeros((4, 3)), layout="half"), ShapeError, r"width 3.*even.*D = 3"),
        (lambda: rope(X, layout="half", width=8), ShapeError, r"width 8.*at most D = 6"),
        (lambda: rope(X, layout="half", width=3), ShapeError, r"width 3.*even"),
        (lambda: rope(X, layout="half", width=-2), ArgumentError, r"width.*-2"),
        (lambda: rope(X.astype(int), layout="half"), DtypeError, r"rope.*floats.*int64"),
        (lambda: rope(X.astype(complex), layout="half"), DtypeError, r"rope.*floats.*complex"),
        (lambda: rope(X.astype(object), layout="half"), DtypeError, r"rope.*floats.*object"),
        (lambda: rope(X, np.zeros(5), layout="half"), DtypeError, r"positions.*integers.*float64"),
        (lambda: rope(X, np.arange(4), layout="half"), ShapeError, r"positions.*\(4,\).*5"),
        (lambda: rope(X, np.zeros((3, 5), int), layout="half"), ShapeError, r"positions.*\(3, .*5\).*\(2, 3, 5, 6\)"),
        (lambda: rope(X[0], np.zeros((4, 5), int), layout="half"), ShapeError, r"positions.*\(4, .*5\).*\(3, 5, 6\)"),
        (lambda: rope(X[0, 0], np.zeros((4, 5), int), layout="half"), ShapeError, r"positions.*\(4, .*5\).*\(5, 6\)"),
        (lambda: rope(X[:1], np.zeros((4, 5), int), layout="half"), ShapeError, r"positions.*\(4, .*5\)"),
        (lambda: rope(X, layout="half", base="ten"), ArgumentError, r"base"),
        (lambda: rope(X, "0", layout="half"), DtypeError, r"positions.*integers"),
        (lambda: rope(X, [[0], [0, 1]], layout="half"), (ShapeError, DtypeError), r"positions"),
    ],
    ids=range(33),
)
def test_what_cannot_be(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_rope_and_alibi_serve_attention() -> None:
    q, k, v = normal(2, 4, 8), normal(2, 6, 8), normal(2, 6, 3)
    turned = [overt.attention(rope(q, n + 2, layout="half"), rope(k, n, layout="half"), v) for n in (0, 100)]
    np.testing.assert_allclose(*turned, atol=1e-12)
    overt.attention(q.astype(np.float16), k.astype(np.float16), v.astype(np.float16), bias=overt.alibi(alibi_slopes(2)))
