"""The open result and merging, against weights worked out in plain NumPy and float64."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import overt
from overt import kernels
from overt.errors import ArgumentError, DtypeError, OvertError, ShapeError

B, H, G, T, S, D, E = 2, 4, 2, 10, 12, 5, 3


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


Q, K, V = normal(B, H, T, D), normal(B, G, S, D, seed=1), normal(B, G, S, E, seed=2)
BITS = np.random.default_rng(3).random((B, H, T, S)) < 0.6
ROWS, KEYS = np.arange(T)[:, None], np.arange(S)
DISTANCE = KEYS - (ROWS + S - T)
LENGTHS = np.array([12, 3])
IDS = np.sort(np.arange(S) % 3)
TABLE = normal(8, H, seed=4)
SLOPES = np.array([0.1, 0.2, 0.4, 0.8])
PADDED = LENGTHS[:, None, None, None] > KEYS

# Options, and what they mean: which cells are kept, and what is added.
CASES: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "plain": ({}, True, 0),
    "causal": ({"mask": overt.causal()}, DISTANCE <= 0, 0),
    "top left": ({"mask": overt.causal(offset=0)}, KEYS <= ROWS, 0),
    "window": ({"mask": overt.window(2, 1)}, (DISTANCE >= -2) & (DISTANCE <= 1), 0),
    "padding": ({"mask": overt.padding(LENGTHS)}, PADDED, 0),
    "nothing": ({"mask": overt.padding(np.array([0, 4]))}, np.array([0, 4])[:, None, None, None] > KEYS, 0),
    "prefix": ({"mask": overt.prefix(LENGTHS)}, PADDED | (DISTANCE <= 0), 0),
    "documents": ({"mask": overt.documents(IDS)}, IDS[ROWS + S - T] == IDS, 0),
    "scattered": ({"mask": overt.documents(IDS % 2)}, IDS[ROWS + S - T] % 2 == IDS % 2, 0),
    "keep": ({"mask": BITS}, BITS, 0),
    "where": ({"mask": overt.where(lambda b, h, t, s: (b + h + t + s) % 3 > 0)}, None, 0),
    "composed": ({"mask": overt.causal() & ~overt.padding(LENGTHS) | overt.keep(BITS)}, None, 0),
    "array": ({"bias": normal(B, H, T, S, seed=5)}, True, normal(B, H, T, S, seed=5)),
    "row": ({"bias": normal(H, 1, S, seed=6)}, True, normal(H, 1, S, seed=6)),
    "transposed": ({"bias": normal(S, T, seed=6).T}, True, normal(S, T, seed=6).T),
    "alibi": (
        {"bias": overt.alibi(SLOPES), "mask": overt.causal()},
        DISTANCE <= 0,
        -SLOPES[:, None, None] * np.abs(DISTANCE),
    ),
    "relative": ({"bias": overt.relative(TABLE, max_distance=9)}, True, None),
    "softcap": ({"softcap": 0.8, "mask": BITS}, BITS, 0),
    "sinks": ({"sinks": np.array([0.5, -1, 2, 0])}, True, 0),
    "all": ({"sinks": SLOPES, "softcap": 2.0, "mask": BITS, "bias": normal(T, S, seed=7)}, BITS, normal(T, S, seed=7)),
}
b, h, t, s = np.ix_(range(B), range(H), range(T), range(S))
CASES["where"] = (CASES["where"][0], (b + h + t + s) % 3 > 0, 0)
CASES["composed"] = (CASES["composed"][0], (DISTANCE <= 0) & ~PADDED | BITS, 0)
RELATIVE = np.where(DISTANCE > 0, 4, 0) + np.where(
    np.abs(DISTANCE) < 2,
    np.abs(DISTANCE),
    np.minimum(2 + (np.log(np.maximum(np.abs(DISTANCE), 1) / 2) / np.log(9 / 2) * 2).astype(int), 3),
)
CASES["relative"] = (CASES["relative"][0], True, np.moveaxis(TABLE[RELATIVE], -1, 0))


def dense(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Capped scores, weights (B, H, T, S) and lse (B, H, T), with nothing of overt in them."""
    options, keep, bias = CASES[name]
    scores = Q @ np.repeat(K, H // G, axis=1).mT / np.sqrt(D)
    cap = options.get("softcap")
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    masked = np.where(keep, scores + bias, -np.inf)
    sinks = options.get("sinks", np.full(H, -np.inf))
    total = np.exp(masked).sum(axis=-1) + np.exp(sinks)[:, None]
    with np.errstate(divide="ignore"):
        lse = np.log(total)
    return scores, np.exp(masked) / np.where(total == 0, 1, total)[..., None], lse


def close(got: Any, expected: Any, **tolerance: float) -> None:
    np.testing.assert_allclose(got, expected, **{"rtol": 1e-9, "atol": 1e-12, **tolerance})


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[str, overt.Attended]:
    return request.param, overt.attend(Q, K, V, **CASES[request.param][0])


# Statistics.


def test_output_weights_and_lse(case: tuple[str, overt.Attended]) -> None:
    name, seen = case
    _, w, lse = dense(name)
    close(seen.lse, lse)
    close(seen.weights[...], w)
    close(np.asarray(seen.weights), w)
    close(seen.output, w @ np.repeat(V, 2, axis=1))
    close(overt.attention(Q, K, V, **CASES[name][0]), seen.output)
    assert np.array_equal(seen.weights[...] == 0, w == 0)


def test_received_and_entropy(case: tuple[str, overt.Attended]) -> None:
    name, seen = case
    w = dense(name)[1]
    close(seen.received(), w.sum(axis=-2))
    close(seen.entropy(), -(w * np.log(np.where(w > 0, w, 1))).sum(axis=-1))
    # Asked twice, the same.
    close(seen.received(), w.sum(axis=-2))
    assert (seen.entropy() >= 0).all()


@pytest.mark.parametrize("k", [1, 3, S])
def test_top(case: tuple[str, overt.Attended], k: int) -> None:
    name, seen = case
    w = dense(name)[1]
    indices, heaviest = seen.top(k)
    assert indices.shape == heaviest.shape == (B, H, T, k)
    close(heaviest, -np.sort(-w, axis=-1)[..., :k])
    close(np.take_along_axis(w, indices, axis=-1), heaviest)
    assert (np.diff(np.sort(indices, axis=-1), axis=-1) > 0).all()
    assert (np.diff(heaviest, axis=-1) <= 0).all()


@pytest.mark.parametrize("pool", ["max", "mean"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 7), (11, 13)])
def test_map(case: tuple[str, overt.Attended], rows: int, columns: int, pool: Any) -> None:
    name, seen = case
    w = dense(name)[1]
    got = seen.map(rows, columns, pool=pool)
    assert got.shape == (B, H, rows, columns)
    reduce = np.max if pool == "max" else np.mean
    for i in range(rows):
        for j in range(columns):
            block = w[..., i * T // rows : -(-(i + 1) * T // rows), j * S // columns : -(-(j + 1) * S // columns)]
            close(got[..., i, j], reduce(block, axis=(-2, -1)))


def test_map_is_adaptive_pooling() -> None:
    seen = overt.attend(Q, K, V)
    w = torch.from_numpy(seen.weights[...])
    close(seen.map(4, 7), torch.nn.functional.adaptive_max_pool2d(w, (4, 7)))
    close(seen.map(4, 7, pool="mean"), torch.nn.functional.adaptive_avg_pool2d(w, (4, 7)))


def test_gradient(case: tuple[str, overt.Attended]) -> None:
    name, seen = case
    options, _, bias = CASES[name]
    scores, w, _ = dense(name)
    dy = normal(B, H, T, E, seed=9)
    k, v = np.repeat(K, 2, axis=1), np.repeat(V, 2, axis=1)
    dw = dy @ v.mT
    dbias = w * (dw - (w * dw).sum(axis=-1, keepdims=True))
    cap = options.get("softcap")
    dscores = (dbias if cap is None else dbias * (1 - (scores / cap) ** 2)) / np.sqrt(D)
    got = seen.gradient(dy)
    close(got.q, dscores @ k)
    close(got.k, (dscores.mT @ Q).reshape(B, G, 2, S, D).sum(axis=2))
    close(got.v, (w.mT @ dy).reshape(B, G, 2, S, E).sum(axis=2))
    if isinstance(options.get("bias"), np.ndarray):
        spread = tuple(i for i, n in enumerate((1,) * (4 - bias.ndim) + bias.shape) if n == 1)
        close(got.bias, dbias.sum(axis=spread, keepdims=True).reshape(bias.shape))
    elif name == "alibi":
        close(got.bias, -(dbias * np.abs(DISTANCE)).sum(axis=(0, 2, 3)))
    elif name == "relative":
        expected = [dbias[..., row == RELATIVE].sum(axis=(0, 2)) for row in range(8)]
        close(got.bias, expected)
    else:
        assert got.bias is None
    assert type(got)._fields == ("q", "k", "v", "bias")


SCORES = {
    "dot": overt.dot(),
    "scaled": overt.scaled_dot(0.3),
    "cosine": overt.cosine(4.0),
    "bilinear": overt.bilinear(normal(3, 4)),
    "additive": overt.additive(normal(6, 3), normal(6, 4), normal(6), normal(6, seed=1)),
}


@pytest.mark.parametrize("dropout", [None, overt.dropout(0.4, 2)])
@pytest.mark.parametrize("score", SCORES)
def test_gradient_against_differences(score: str, dropout: Any) -> None:
    Dk = 4 if score in ("bilinear", "additive") else 3
    arrays = [normal(2, 3, 3), normal(1, 4, Dk), normal(1, 4, 2)]
    dy = normal(2, 3, 2, seed=3)
    options = {"score": SCORES[score], "mask": overt.causal(), "softcap": 3.0, "dropout": dropout}
    got = overt.attend(*arrays, **options).gradient(dy)
    for i, x in enumerate(arrays):
        expected = np.empty(x.shape)
        for place in np.ndindex(*x.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = x.copy()
                moved[place] += step
                y = overt.attention(*arrays[:i], moved, *arrays[i + 1 :], **options)
                ends.append(float((y * dy).sum()))
            expected[place] = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(got[i], expected, rtol=1e-5, atol=1e-8)


def test_a_zero_vector_has_cosine_0_and_a_finite_gradient() -> None:
    q, k, v = normal(1, 3, 4), normal(1, 5, 4), normal(1, 5, 2)
    q[:, 0] = k[:, 2] = 0
    steps, seen = overt.trace(q, k, v, score=overt.cosine()), overt.attend(q, k, v, score=overt.cosine())
    assert np.array_equal(steps["scores"][0, 0], np.zeros(5))
    assert np.array_equal(steps["scores"][0, :, 2], np.zeros(3))
    assert all(np.isfinite(x).all() for x in seen.gradient(seen.output)[:3])


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e15, 1e25])
def test_cosine_does_not_depend_on_length(scale: float) -> None:
    q, k, v = (normal(1, n, 4, dtype=np.float32) for n in (3, 5, 5))
    expected = overt.attend(q, k, v, score=overt.cosine(3.0)).weights[...]
    np.testing.assert_allclose(
        overt.attend(q, k * np.float32(scale), v, score=overt.cosine(3.0)).weights[...], expected, rtol=1e-5
    )


# Shapes that callers bring.


def test_without_heads() -> None:
    q, k, v = Q[0, 0], K[0, 0], V[0, 0]
    seen, whole = overt.attend(q, k, v, mask=overt.causal()), overt.attend(Q, K, V, mask=overt.causal())
    assert seen.output.shape == (T, E)
    for got, expected in (
        (seen.output, whole.output),
        (seen.lse, whole.lse),
        (seen.weights[...], whole.weights[...]),
        (seen.received(), whole.received()),
        (seen.entropy(), whole.entropy()),
        (seen.top(2)[0], whole.top(2)[0]),
        (seen.top(2)[1], whole.top(2)[1]),
        (seen.map(3, 4), whole.map(3, 4)),
    ):
        assert got.shape == expected.shape[2:]
        close(got, expected[0, 0])
    assert seen.weights.shape == (T, S)
    close(seen.weights[3], whole.weights[0, 0, 3])
    close(seen.weights[[3, 4], [1, -2]], whole.weights[0, 0, [3, 4], [1, -2]])
    dy = normal(T, E)
    gradient = seen.gradient(dy)
    assert [x.shape for x in gradient[:3]] == [q.shape, k.shape, v.shape]
    with_heads = overt.attend(q[None], k[None], v[None], mask=overt.causal()).gradient(dy[None])
    for got, expected in zip(gradient[:3], with_heads[:3], strict=True):
        close(got, expected[0])


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [((2, 1), (3,), (1, 1)), ((), (2, 3), ()), ((1,), (3,), (2, 1)), ((2, 3), (), (3,)), ((4,), (1,), (4,))],
)
def test_leading_axes_broadcast(a: tuple[int, ...], b: tuple[int, ...], c: tuple[int, ...]) -> None:
    batch = np.broadcast_shapes(a, b, c)
    q, k, v = normal(*a, H, T, D), normal(*b, G, S, D), normal(*c, G, S, E)
    wide = [np.ascontiguousarray(np.broadcast_to(x, (*batch, *x.shape[-3:]))) for x in (q, k, v)]
    lengths = np.arange(np.prod(batch)).reshape(batch)
    options = {"mask": overt.padding(lengths) | overt.causal(), "bias": normal(batch[-1], 1, 1, S)}
    seen, whole = overt.attend(q, k, v, **options), overt.attend(*wide, **options)
    assert seen.output.shape == (*batch, H, T, E)
    for got, expected in (
        (seen.output, whole.output),
        (seen.lse, whole.lse),
        (seen.weights[..., 2, :], whole.weights[..., 2, :]),
        (seen.received(), whole.received()),
        (seen.top(2)[1], whole.top(2)[1]),
        (seen.map(2, 2), whole.map(2, 2)),
    ):
        assert got.shape == expected.shape
        close(got, expected)
    dy = normal(*seen.output.shape)
    for x, got, expected in zip((q, k, v), seen.gradient(dy)[:3], whole.gradient(dy)[:3], strict=True):
        assert got.shape == x.shape
        leading = (1,) * (len(batch) + 3 - x.ndim) + x.shape
        spread = tuple(i for i, (n, m) in enumerate(zip(leading, expected.shape, strict=True)) if n != m)
        close(got, expected.sum(axis=spread, keepdims=True).reshape(x.shape))
    # One row of the batch alone gives the same.
    row = tuple(n - 1 for n in batch)
    alone = overt.attend(
        *(x[row] for x in wide), mask=overt.padding(lengths[row]) | overt.causal(), bias=options["bias"][-1]
    )
    close(seen.output[row], alone.output)


# Indexing.


INDICES: list[Any] = [
    (),
    0,
    -1,
    np.int64(1),
    np.s_[:],
    ...,
    None,
    np.s_[0, 3],
    np.s_[0, 3, 4:8, :],
    np.s_[1, -1, -3],
    np.s_[..., -1],
    np.s_[..., 0, 0],
    np.s_[0, ..., 2],
    np.s_[0, 0, 0, 0],
    np.s_[1, ..., 2, 3, 4],
    np.s_[:, :, ::2],
    np.s_[:, ::3, 1::2, ::5],
    np.s_[..., ::-1],
    np.s_[::-1, ::-2, ::-3, 10:1:-4],
    np.s_[..., 5:2],
    np.s_[..., 5:2, 3:3],
    np.s_[..., 3:100, -100:4],
    np.s_[..., 100:],
    np.s_[2:],
    np.s_[..., np.int64(2) : np.int64(9) : np.int64(2)],
    np.s_[None, 0],
    np.s_[0, None, ..., 3, None],
    np.s_[..., None],
    [0, 1, 0],
    np.array([1, 0]),
    np.s_[[0], [3], [2], [1]],
    np.s_[[0, 1], [1, 2], [3, 4], [5, 6]],
    np.s_[[[0], [1]], [1, 2]],
    np.s_[0, [1, 3]],
    np.s_[:, [0, 2], :, [1, 1]],
    np.s_[:, [0, 2], [1, 1], ::4],
    np.s_[..., [0, -1, 3]],
    np.s_[..., np.array([], int)],
    np.s_[..., np.array([3, 200, 4], np.uint8) % 12],
    np.s_[1, 2, [4, 4, 4], 2:5],
    np.s_[1, None, [2, 3], 1:4, None],
    np.s_[np.array(1), 2],
    np.s_[range(2), 0],
    [],
    np.array([True, False]),
    np.array([False, False]),
    np.s_[:, np.array([True, False, True, True])],
    np.s_[..., np.arange(S) % 3 == 0],
    np.s_[np.array([[True, False, True, False], [False, False, False, True]])],
    np.s_[0, 1, np.eye(T, S, dtype=bool)],
    BITS,
    np.zeros_like(BITS),
    np.s_[np.array([True, False]), ..., [0]],
    True,
    False,
    np.s_[True, 0],
    np.s_[..., True],
]


@pytest.mark.parametrize("name", ["all", "where", "alibi", "nothing", "transposed"])
@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_indexing_is_that_of_numpy(index: Any, name: str) -> None:
    expected = dense(name)[1][index]
    seen = overt.attend(Q, K, V, **CASES[name][0])
    got = seen.weights[index]
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    close(got, expected)
    whole = np.asarray(seen.weights)
    close(got, whole[index], rtol=1e-12)


@pytest.mark.parametrize("index", INDICES, ids=range(len(INDICES)))
def test_indexing_of_the_additive_score_and_half_types(index: Any) -> None:
    additive = overt.additive(normal(6, D), normal(6, D, seed=1), normal(6))
    for dtype, score in ((np.float64, additive), (np.float16, overt.scaled_dot()), (ml_dtypes.bfloat16, additive)):
        q, k, v = (x.astype(dtype) for x in (Q, K, V))
        seen = overt.attend(q, k, v, score=score, mask=overt.causal())
        expected = overt.trace(q, k, v, score=score, mask=overt.causal())["weights"][index]
        got = seen.weights[index]
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


@given(data=st.data(), name=st.sampled_from(["causal", "keep", "all", "relative"]))
def test_any_index(data: st.DataObject, name: str) -> None:
    w = dense(name)[1]
    parts: list[Any] = []
    for n in w.shape:
        integer = st.integers(-n, n - 1)
        end = st.one_of(st.none(), st.integers(-n - 2, n + 2))
        steps = st.sampled_from([None, 1, 2, 3, -1, -2, -5])
        parts.append(data.draw(st.one_of(integer, st.builds(slice, end, end, steps), st.just(slice(None)))))
    parts = parts[: data.draw(st.integers(0, 4))]
    for new, place in ((..., 5), (None, 5)):
        if data.draw(st.booleans()):
            parts.insert(data.draw(st.integers(0, place)), new)
    index = tuple(parts)
    got = overt.attend(Q, K, V, **CASES[name][0]).weights[index]
    assert np.shape(got) == w[index].shape
    close(got, w[index])


@pytest.mark.parametrize(
    "index",
    [
        2,
        -3,
        np.s_[0, 4],
        np.s_[0, 0, 0, S],
        np.s_[0, 0, 0, -S - 1],
        np.s_[0, 0, 0, 0, 0],
        np.s_[..., 0, ...],
        np.s_[..., [0, S]],
        np.s_[:, [0, 1], [0, 1, 2]],
        np.array([True, False, True]),
        np.s_[..., np.ones(S + 1, bool)],
        1.5,
        "a",
        np.s_[..., [0.5]],
        np.s_[::0],
        np.s_["a":"b"],
    ],
    ids=range(16),
)
def test_indices_that_numpy_refuses(index: Any) -> None:
    array = np.zeros((B, H, T, S))
    with pytest.raises((IndexError, TypeError, ValueError)) as expected:
        array[index]
    with pytest.raises(expected.type):
        overt.attend(Q, K, V).weights[index]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of the tiles that the engine is asked for."""
    shapes: list[tuple[int, ...]] = []
    original = kernels.weights

    def spy(problem: Any, lse: Any) -> Any:
        assert lse.shape == problem.q.shape[:3]
        assert problem.q.shape[:2] == (len(problem.b), len(problem.h))
        shapes.append((*problem.q.shape[:3], problem.k.shape[2]))
        assert shapes[-1] == tuple(len(part) for part in (problem.b, problem.h, problem.t, problem.s))
        return original(problem, lse)

    monkeypatch.setattr(kernels, "weights", spy)
    return shapes


def test_a_tile_computes_its_cells_and_no_others(computed: list[tuple[int, ...]]) -> None:
    q, k, v = normal(2, 4, 200, 8), normal(2, 2, 300, 8), normal(2, 2, 300, 3)
    for options in ({}, {"mask": overt.causal()}, {"score": overt.additive(normal(6, 8), normal(6, 8), normal(6))}):
        seen = overt.attend(q, k, v, **options)
        del computed[:]
        seen.weights[0, 3, 100:110, :]
        assert computed == [(1, 1, 10, 300)]
        for index, expected in (
            (np.s_[0, 3, 7], [(1, 1, 1, 300)]),
            (np.s_[1, :, 5, 9:12], [(1, 1, 1, 3)] * 4),
            (np.s_[0, 0, ::50, ::-100], [(1, 1, 4, 3)]),
            (np.s_[0, 0, 0, 0], [(1, 1, 1, 1)]),
            (np.s_[..., 0:0], [(1, 1, 200, 0)] * 8),
        ):
            del computed[:]
            assert seen.weights[index].size == sum(int(np.prod(tile)) for tile in expected)
            assert [tile for tile in computed if 0 not in tile] == [tile for tile in expected if 0 not in tile]
        del computed[:]
        # Statistics ask for no tile at all.
        seen.top(2), seen.received(), seen.entropy(), seen.map(4, 4)
        assert computed == []


def test_picked_cells_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = overt.Weights._cells

    def spy(self: Any, cells: Any) -> Any:
        asked.append(cells.b.size)
        return original(self, cells)

    monkeypatch.setattr(overt.Weights, "_cells", spy)
    seen = overt.attend(Q, K, V)
    seen.weights[0, [1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert sum(asked) == 3
    del asked[:]
    seen.weights[BITS]
    assert sum(asked) == BITS.sum()


def test_weights_as_an_array() -> None:
    seen = overt.attend(Q, K, V)
    w = seen.weights
    assert (w.shape, w.ndim, w.size, len(w), w.dtype) == ((B, H, T, S), 4, B * H * T * S, B, np.float64)
    assert np.asarray(w, dtype=np.float32).dtype == np.float32
    assert np.array(w).dtype == np.float64
    close(np.array(w, copy=True), dense("plain")[1])
    with pytest.raises(ValueError, match="copy"):
        np.asarray(w, copy=False)
    assert len(list(w)) == B
    close(np.concatenate([row[None] for row in w]), dense("plain")[1])
    close(np.einsum("bhts->bhs", w), seen.received())
    assert str(w.shape) in repr(w)
    assert len(repr(w)) < 200
    assert len(repr(seen)) < 300
    assert repr(seen.output.shape) in repr(seen)


def test_the_open_result_can_be_copied_and_pickled() -> None:
    seen = overt.attend(Q, K, V, mask=overt.causal(), bias=overt.alibi(SLOPES))
    for other in (copy.copy(seen), copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):
        close(other.output, seen.output)
        close(other.weights[0, :, 3], seen.weights[0, :, 3])
        close(other.received(), seen.received())


# Ties.


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("length", [3, 17, 64, 600])
def test_ties_go_to_the_lower_index(length: int, dtype: Any) -> None:
    q = np.zeros((1, 5, 4), dtype)
    k = np.zeros((1, length, 4), dtype)
    indices, w = overt.attend(q, k, k).top(3)
    assert np.array_equal(indices, np.broadcast_to(np.arange(3), (1, 5, 3)))
    np.testing.assert_allclose(w, 1 / length, rtol=1e-5)
    # Pairs of equal keys, among others.
    k = np.repeat(normal(1, -(-length // 2), 4), 2, axis=1)[:, :length].astype(dtype)
    q = normal(1, 5, 4, seed=1, dtype=dtype)
    seen = overt.attend(q, k, k)
    indices = seen.top(length)[0]
    w = seen.weights[...]
    np.testing.assert_array_equal(indices, np.argsort(-w, axis=-1, stable=True))


def test_top_of_rows_that_see_little() -> None:
    # Masked keys have weight 0 and come last, in order.
    indices, w = overt.attend(Q, K, V, mask=overt.where(lambda b, h, t, s: s == 5)).top(3)
    assert np.array_equal(indices, np.broadcast_to([5, 0, 1], (B, H, T, 3)))
    close(w, np.broadcast_to([1.0, 0, 0], (B, H, T, 3)))
    indices, w = overt.attend(Q, K, V, mask=overt.padding(0)).top(3)
    assert np.array_equal(indices, np.broadcast_to([0, 1, 2], (B, H, T, 3)))
    assert not w.any()


# Tensors give tensors.


@pytest.mark.parametrize("name", ["plain", "causal", "all", "alibi", "nothing"])
def test_tensors(name: str) -> None:
    options = CASES[name][0]
    expected = overt.attend(Q, K, V, **options)
    seen = overt.attend(*(torch.from_numpy(x) for x in (Q, K, V)), **options)
    dy = normal(B, H, T, E, seed=9)
    for got, array in (
        (seen.output, expected.output),
        (seen.lse, expected.lse),
        (seen.received(), expected.received()),
        (seen.entropy(), expected.entropy()),
        (seen.top(3)[1], expected.top(3)[1]),
        (seen.map(3, 4), expected.map(3, 4)),
        *zip(seen.gradient(torch.from_numpy(dy))[:3], expected.gradient(dy)[:3], strict=True),
    ):
        assert isinstance(got, torch.Tensor)
        close(got, array)
    assert repr(seen)
    for index in (np.s_[0, 1, 2:5], np.s_[..., -1, ::-2], np.s_[0, [1, 2], [3, 4]], BITS):
        close(seen.weights[index], expected.weights[index])


def test_tensors_that_want_a_gradient() -> None:
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in (Q, K, V))
    seen = overt.attend(q, k, v, mask=overt.causal(), softcap=2.0)
    dy = torch.from_numpy(normal(B, H, T, E))
    seen.output.backward(dy)
    for x, got in zip((q, k, v), seen.gradient(dy)[:3], strict=True):
        close(got.detach(), x.grad)


# Merging.


@given(
    owner=st.lists(st.integers(0, 4), min_size=S, max_size=S),
    parts=st.integers(1, 5),
    name=st.sampled_from(["plain", "causal", "nothing", "keep", "alibi", "softcap"]),
)
def test_disjoint_sets_of_keys_merge(owner: list[int], parts: int, name: str) -> None:
    options = dict(CASES[name][0])
    whole = overt.attend(Q, K, V, **options)
    mask = options.pop("mask", np.ones((1, 1), bool))
    mask = overt.keep(mask) if isinstance(mask, np.ndarray) else mask
    members = np.array(owner) % parts
    # Some part may see nothing, for some rows or for all.
    seen = [overt.attend(Q, K, V, mask=mask & overt.keep(members == i), **options) for i in range(parts)]
    output, lse = overt.merge((part.output, part.lse) for part in seen)
    close(output, whole.output)
    close(lse, whole.lse)


def test_slices_of_keys_merge() -> None:
    for dtype, tolerance in ((np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2), (np.float32, 1e-5), (np.float64, 1e-12)):
        q, k, v = (x.astype(dtype) for x in (Q, K, V))
        whole = overt.attend(q, k, v, sinks=SLOPES.astype(dtype))
        seen = [overt.attend(q, k[..., :4, :], v[..., :4, :], sinks=SLOPES.astype(dtype))]
        seen += [overt.attend(q, k[..., i : i + 4, :], v[..., i : i + 4, :]) for i in (4, 8)]
        output, lse = overt.merge([(part.output, part.lse) for part in seen])
        assert output.dtype == dtype
        assert lse.dtype == whole.lse.dtype
        np.testing.assert_allclose(output.astype(float), whole.output.astype(float), rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(lse, whole.lse, rtol=1e-5)


def test_merging_is_stable_and_can_be_nested() -> None:
    q, k, v = Q * 100, K * 100, V
    whole = overt.attend(q, k, v)
    parts = [
        (part.output, part.lse)
        for part in (overt.attend(q, k[..., i : i + 3, :], v[..., i : i + 3, :]) for i in range(0, S, 3))
    ]
    nested = overt.merge([overt.merge(parts[:2]), overt.merge(parts[2:])])
    for got in (nested, overt.merge(parts), overt.merge(reversed(parts))):
        close(got[0], whole.output)
        close(got[1], whole.lse)


def test_merging_little() -> None:
    seen = overt.attend(Q, K, V, mask=overt.causal())
    output, lse = overt.merge([(seen.output, seen.lse)])
    close(output, seen.output)
    close(lse, seen.lse)
    nothing = overt.attend(Q, K, V, mask=overt.padding(0))
    output, lse = overt.merge([(nothing.output, nothing.lse)] * 3)
    assert not output.any()
    assert np.all(lse == -np.inf)
    output, lse = overt.merge([(nothing.output, nothing.lse), (seen.output, seen.lse)])
    close(output, seen.output)
    close(lse, seen.lse)
    # What other libraries leave where nothing was seen does not count.
    output, _ = overt.merge([(np.full_like(nothing.output, np.nan), nothing.lse), (seen.output, seen.lse)])
    close(output, seen.output)


def test_tensors_merge() -> None:
    q, k, v = (torch.from_numpy(x) for x in (Q, K, V))
    parts = [overt.attend(q, k[:, :, i::2], v[:, :, i::2]) for i in range(2)]
    output, lse = overt.merge([(part.output, part.lse) for part in parts])
    close(output, overt.attention(Q, K, V))
    assert isinstance(lse, torch.Tensor)


def test_what_cannot_merge() -> None:
    y, lse = overt.attend(Q, K, V).output, overt.attend(Q, K, V).lse
    with pytest.raises(ArgumentError, match=r"no parts.*at least one"):
        overt.merge([])
    with pytest.raises(ArgumentError, match="no parts"):
        overt.merge(iter(()))
    for parts, message in (
        ([(y, lse), (y[..., :2], lse)], r"output 1.*\(2, 4, 10, 2\).*\(2, 4, 10, 3\)"),
        ([(y, lse[0])], r"lse 0.*\(4, 10\)"),
        ([(y, lse), (y, y)], r"lse 1.*\(2, 4, 10, 3\)"),
    ):
        with pytest.raises(ShapeError, match=message):
            overt.merge(parts)
    for parts in (None, 3, [y], [(y,)], [(y, lse, lse)], [(y.tolist(), lse.tolist())], [(y, None)], [None], "ab"):
        with pytest.raises(OvertError, match=r"output|lse"):
            overt.merge(parts)  # type: ignore[arg-type]
    for parts in (
        [(y.astype(int), lse)],
        [(y, lse), (y.astype(np.float32), lse)],
        [(y, lse.astype(int))],
        [(y, lse), (torch.from_numpy(y.copy()), torch.from_numpy(lse.copy()))],
    ):
        with pytest.raises(DtypeError):
            overt.merge(parts)


@pytest.mark.parametrize("error", [ValueError("mine"), TypeError("mine"), KeyError("mine")], ids=repr)
def test_errors_of_the_caller_come_through(error: Exception) -> None:
    seen = overt.attend(Q, K, V)

    def parts() -> Any:
        yield seen.output, seen.lse
        raise error

    with pytest.raises(type(error)) as raised:
        overt.merge(parts())
    assert raised.value is error
    assert raised.value.__cause__ is None


def test_merging_computes_in_single_precision_at_least() -> None:
    seen = [overt.attend(Q, K[..., i::2, :], V[..., i::2, :]) for i in range(2)]
    expected = overt.merge([(part.output, part.lse) for part in seen])
    # Between 16 and 32 a float16 knows steps of 1/64: what is lost is that of the numbers given, and no more.
    shift = 20 - min(part.lse.min() for part in seen)
    halves = [(part.output.astype(np.float16), (part.lse + shift).astype(np.float16)) for part in seen]
    output, lse = overt.merge(halves)
    assert (output.dtype, lse.dtype) == (np.float16, np.float32)
    exact = overt.merge([(y.astype(np.float64), lse.astype(np.float64)) for y, lse in halves])
    np.testing.assert_allclose(lse, exact[1], rtol=1e-6)
    np.testing.assert_array_equal(output, exact[0].astype(np.float16))
    np.testing.assert_allclose(lse - shift, expected[1], atol=0.05)
    for wider in (np.float32, np.float64):
        # An lse may be wider than its output, as it is beside half types.
        output, lse = overt.merge([(y, lse.astype(wider)) for y, lse in halves])
        assert (output.dtype, lse.dtype) == (np.float16, wider)
        np.testing.assert_allclose(lse, exact[1], rtol=1e-6)


def test_gradients_go_through_a_merge() -> None:
    outputs, lses = (torch.from_numpy(normal(3, *shape)).requires_grad_() for shape in ((4, 2), (4,)))
    with torch.no_grad():
        lses[0, :2] = -torch.inf
        lses[:, 0] = -torch.inf

    def merged(outputs: torch.Tensor, lses: torch.Tensor) -> Any:
        y, lse = overt.merge(list(zip(outputs, lses, strict=True)))
        return y, torch.where(lse == -torch.inf, 0, lse)

    # Where a part sees nothing there is nothing to differ by, so those lses stay as they are.
    some = torch.where(torch.isfinite(lses), lses, 0).detach().requires_grad_()
    hidden = ~torch.isfinite(lses)
    assert torch.autograd.gradcheck(lambda y, x: merged(y, x.masked_fill(hidden, -torch.inf)), (outputs, some))
    # What stands in a part that saw nothing never reaches a gradient.
    poisoned = outputs.detach().clone()
    poisoned[0, :2] = torch.nan
    poisoned.requires_grad_()
    y, lse = merged(poisoned, lses)
    found = torch.autograd.grad(y.sum() + lse.sum(), (poisoned, lses))
    assert all(torch.isfinite(x).all() for x in found)


# What is asked for wrongly.


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda seen: seen.top(0), ArgumentError, r"^top\(k\) wants 1 ≤ k ≤ S = 12, not 0$"),
        (lambda seen: seen.top(13), ArgumentError, r"^top\(k\) wants 1 ≤ k ≤ S = 12, not 13$"),
        (lambda seen: seen.top(-1), ArgumentError, r"^k must be at least 0, not -1$"),
        (lambda seen: seen.top(1.0), ArgumentError, r"^k must be a whole number, not 1\.0$"),
        (lambda seen: seen.top(True), ArgumentError, r"^k must be a whole number, not True$"),
        (lambda seen: seen.top("2"), ArgumentError, r"^k must be a whole number, not '2'$"),
        (lambda seen: seen.map(0, 3), ArgumentError, r"^map wants at least one bin .* not 0 rows of 10$"),
        (lambda seen: seen.map(3, 0), ArgumentError, r"^map wants at least one bin .* not 0 columns of 12$"),
        (lambda seen: seen.map(2.5, 3), ArgumentError, r"^rows must be a whole number, not 2\.5$"),
        (lambda seen: seen.map(2, None), ArgumentError, r"^columns must be a whole number, not None$"),
        (lambda seen: seen.map(2, 2, pool="sum"), ArgumentError, r"""^pool must be "max" or "mean", not 'sum'$"""),
        (lambda seen: seen.map(2, 2, pool=None), ArgumentError, r'^pool must be "max" or "mean", not None$'),
        (
            lambda seen: seen.gradient(np.ones((B, H, T, 1))),
            ShapeError,
            r"^dy has shape \(2, 4, 10, 1\), but .* \(2, 4, 10, 3\)",
        ),
        (
            lambda seen: seen.gradient(np.ones((H, T, E))),
            ShapeError,
            r"^dy has shape \(4, 10, 3\), but .* \(2, 4, 10, 3\)",
        ),
        (lambda seen: seen.gradient(1.0), DtypeError, r"^dy is a float, not an array"),
        (lambda seen: seen.gradient(None), DtypeError, r"^dy is a NoneType, not an array"),
        (lambda seen: seen.gradient(seen.output.tolist()), DtypeError, r"^dy is a list, not an array"),
        (lambda seen: seen.gradient(seen.output.astype(complex)), DtypeError, r"^dy is complex128, not floats"),
        (lambda seen: seen.gradient(seen.output.astype(object)), DtypeError, r"^dy is object, not floats"),
        (lambda seen: seen.gradient(seen.output > 0), DtypeError, r"^dy is bool, not floats"),
        (
            lambda seen: seen.gradient(torch.from_numpy(seen.output.copy())),
            DtypeError,
            r"not dy torch\.Tensor, output numpy\.ndarray$",
        ),
    ],
    ids=range(21),
)
def test_what_is_asked_for_wrongly(ask: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        ask(overt.attend(Q, K, V))


@pytest.mark.parametrize("lengths", [(0, 5), (5, 0)])
def test_there_is_no_picture_of_nothing(lengths: tuple[int, int]) -> None:
    seen = overt.attend(*(np.ones((1, n, 2)) for n in (lengths[0], lengths[1], lengths[1])))
    with pytest.raises(ArgumentError, match="not empty"):
        seen.map(2, 2)
