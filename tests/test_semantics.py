"""What overt means, row by row of the table that fixes it, each against NumPy written out here."""

from __future__ import annotations

import pickle
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import overt
from overt.errors import ArgumentError, DtypeError

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
DTYPES = [*HALVES, np.dtype(np.float32), np.dtype(np.float64)]
# One part in so many of the largest value, when inputs are exact and the result is rounded once.
ROUNDING = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}
LENGTHS = [(4, 4), (3, 5), (5, 3), (1, 6), (6, 1), (7, 40)]


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def qkv(T: int = 5, S: int = 7, H: int = 2, G: int = 2, D: int = 4, E: int = 3, dtype: Any = np.float64) -> tuple:
    return normal(H, T, D, dtype=dtype), normal(G, S, D, seed=1, dtype=dtype), normal(G, S, E, seed=2, dtype=dtype)


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def seen_by(T: int, S: int, mask: overt.masks.Mask, batch: tuple[int, ...] = ()) -> np.ndarray:
    """Which keys have weight, out of keys that are all alike."""
    q, k, v = (np.zeros((*batch, 1, n, 2)) for n in (T, S, S))
    return (overt.attend(q, k, v, mask=mask).weights[...] > 0)[..., 0, :, :]


def bias_of(T: int, S: int, bias: Any, H: int = 1) -> np.ndarray:
    q, k, v = (np.zeros((H, n, 2)) for n in (T, S, S))
    steps = overt.trace(q, k, v, bias=bias)
    np.testing.assert_allclose(overt.attend(q, k, v, bias=bias).weights[...], steps["weights"], rtol=1e-9)
    return steps["biased"]


# Order of operations.


def test_order_of_operations() -> None:
    q, k, _ = qkv(H=1, G=1)
    v, bias = np.eye(7)[None], normal(1, 5, 7, seed=3)
    keep = np.random.default_rng(4).random((1, 5, 7)) < 0.7
    keep[..., 0] = True
    # Only a mask that comes after the bias can hide this.
    bias[~keep] = np.nan
    options = {"mask": keep, "bias": bias, "softcap": 1.5, "score": overt.scaled_dot(0.8)}
    # With the identity for values the output is the weights, and shows which of them were dropped.
    drop = overt.dropout(0.4, 5)
    kept = np.where(overt.attention(q, k, v, dropout=drop) > 0, 1 / 0.6, 0)
    assert 0 < (kept == 0).sum() < kept.size

    operations = {
        "scale": lambda x: x * 0.8,
        "softcap": lambda x: 1.5 * np.tanh(x / 1.5),
        "bias": lambda x: x + bias,
        "mask": lambda x: np.where(keep, x, -np.inf),
        "softmax": softmax,
        "dropout": lambda x: x * kept,
    }
    got = overt.attention(q, k, v, dropout=drop, **options)
    traced = overt.trace(q, k, v, dropout=drop, **options)["output"]
    with np.errstate(invalid="ignore", over="ignore"):
        for order in permutations(operations):
            x = q @ k.mT
            for name in order:
                x = operations[name](x)
            agrees = np.allclose(x @ v, got, rtol=1e-9, atol=1e-9) or np.allclose(x @ v, traced, rtol=1e-9, atol=1e-9)
            assert agrees == (order == tuple(operations)), order


# Masks say True for what may be attended to.


def test_true_means_may_attend() -> None:
    q, k, v = qkv()
    keep = np.zeros((5, 7), bool)
    keep[:, 2] = True
    np.testing.assert_allclose(overt.attention(q, k, v, mask=keep), np.broadcast_to(v[:, 2:3], (2, 5, 3)))
    assert np.array_equal(overt.attend(q, k, v, mask=keep).weights[...] > 0, np.broadcast_to(keep, (2, 5, 7)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@pytest.mark.parametrize("call", [overt.attention, overt.attend, overt.trace])
def test_a_float_mask_raises_and_names_bias(call: Any, dtype: Any) -> None:
    with pytest.raises(DtypeError, match=r"bias="):
        call(*qkv(), mask=np.zeros((5, 7), dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_an_integer_mask_raises(dtype: Any) -> None:
    with pytest.raises(DtypeError, match=r"mask.*boolean.*mask == 1"):
        overt.attention(*qkv(), mask=np.ones((5, 7), dtype))


@pytest.mark.parametrize("dtype", [bool, np.int64])
def test_a_boolean_or_integer_bias_raises(dtype: Any) -> None:
    with pytest.raises(DtypeError, match=r"bias must be floats" + (".*mask=" if dtype is bool else "")):
        overt.attention(*qkv(), bias=np.ones((5, 7), dtype))


# Query t stands at key t + S − T, for everything that speaks of positions.


@pytest.mark.parametrize(("T", "S"), LENGTHS)
def test_positions_are_aligned_to_the_end(T: int, S: int) -> None:
    def expected(sees: Any) -> np.ndarray:
        return np.array([[sees(t + S - T, s) for s in range(S)] for t in range(T)])

    n = min(2, S)
    ids = np.arange(S) // 2
    masks = {
        overt.causal(): lambda p, s: s <= p,
        overt.window(2, 1): lambda p, s: p - 2 <= s <= p + 1,
        overt.prefix(n): lambda p, s: s < n or s <= p,
        overt.documents(ids): lambda p, s: p >= 0 and ids[p] == ids[s],
        overt.documents(ids % 2): lambda p, s: p >= 0 and ids[p] % 2 == ids[s] % 2,
    }
    for mask, sees in masks.items():
        assert np.array_equal(seen_by(T, S, mask), expected(sees)), mask
    distance = np.arange(S) - (np.arange(T)[:, None] + S - T)
    np.testing.assert_allclose(bias_of(T, S, overt.alibi(np.array([0.5])))[0], -0.5 * np.abs(distance))
    table = normal(200, 1)
    # As many buckets as there are distances: behind the query from row 0, after it from row 100.
    relative = overt.relative(table, max_distance=1000)
    assert np.abs(distance).max() < 50
    rows = np.where(distance > 0, 100 + distance, -distance)
    np.testing.assert_allclose(bias_of(T, S, relative)[0], table[rows, 0])


@pytest.mark.parametrize(("T", "S"), LENGTHS)
@pytest.mark.parametrize("offset", [0, 1, -2, 50])
def test_an_offset_places_the_first_query(T: int, S: int, offset: int) -> None:
    distance = np.arange(S) - (np.arange(T)[:, None] + offset)
    assert np.array_equal(seen_by(T, S, overt.causal(offset=offset)), distance <= 0)
    assert np.array_equal(seen_by(T, S, overt.window(1, 2, offset)), (distance >= -1) & (distance <= 2))
    prefixed = (distance <= 0) | (np.arange(S) < 1)
    assert np.array_equal(seen_by(T, S, overt.prefix(1, offset)), prefixed)
    np.testing.assert_allclose(bias_of(T, S, overt.alibi(np.array([2.0]), offset))[0], -2.0 * np.abs(distance))


def test_causal_to_the_top_left() -> None:
    assert np.array_equal(seen_by(3, 5, overt.causal(offset=0)), np.tri(3, 5, dtype=bool))
    assert np.array_equal(seen_by(3, 5, overt.causal()), np.tri(3, 5, 2, dtype=bool))
    # Equal when square.
    assert np.array_equal(seen_by(4, 4, overt.causal(offset=0)), seen_by(4, 4, overt.causal()))


@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_an_offset_may_differ_per_batch_row(batch: tuple[int, ...]) -> None:
    offset = np.arange(np.prod(batch)).reshape(batch)
    distance = np.arange(5) - (np.arange(4)[:, None] + offset[..., None, None])
    assert np.array_equal(seen_by(4, 5, overt.causal(offset), batch), distance <= 0)
    assert np.array_equal(seen_by(4, 5, overt.window(0, 1, offset), batch), (distance >= 0) & (distance <= 1))
    q, k, v = (np.zeros((*batch, 1, n, 2)) for n in (4, 5, 5))
    biased = overt.trace(q, k, v, bias=overt.alibi(np.ones(1), offset))["biased"]
    np.testing.assert_allclose(biased[..., 0, :, :], -np.abs(distance))
    weights = overt.attend(q, k, v, bias=overt.alibi(np.ones(1), offset)).weights[...]
    np.testing.assert_allclose(weights[..., 0, :, :], softmax(-np.abs(distance).astype(float)))


# Rows that see nothing.


NOTHING = {
    "causal": overt.causal(),
    "padding": overt.padding(0),
    "keep": np.zeros((1, 7), bool),
    "where": overt.where(lambda b, h, t, s: (s < 0) | (t > 2)),
    "both": overt.window(0, 0, offset=0) & overt.window(0, 0, offset=1),
    "neither": ~(overt.causal(offset=100) | overt.padding(3)),
    "-inf": None,
}


@pytest.mark.parametrize("score", [overt.scaled_dot(), overt.cosine(), overt.additive(*normal(3, 6, 4)[:2], normal(6))])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("mask", NOTHING)
def test_a_row_that_sees_nothing(mask: str, dtype: np.dtype, score: Any) -> None:
    q, k, v = qkv(T=9, dtype=dtype)
    # −∞ in a bias hides as a mask does.
    options = {"bias": np.full((1, 7), -np.inf, np.float32)} if mask == "-inf" else {"mask": NOTHING[mask]}
    options["score"] = score
    seen = overt.attend(q, k, v, **options)
    # Rows 0 and 1 see nothing under any of these.
    rows = np.s_[:, :2]
    assert np.array_equal(seen.output[rows], np.zeros((2, 2, 3)))
    assert np.array_equal(overt.attention(q, k, v, **options)[rows], np.zeros((2, 2, 3)))
    assert np.array_equal(seen.lse[rows], np.full((2, 2), -np.inf))
    assert np.array_equal(seen.weights[rows], np.zeros((2, 2, 7)))
    assert np.array_equal(seen.weights[0, [0, 1], [3, 4]], [0, 0])
    assert np.array_equal(seen.entropy()[rows], np.zeros((2, 2)))
    assert np.array_equal(seen.top(3)[1][rows], np.zeros((2, 2, 3)))
    steps = overt.trace(q, k, v, **options)
    for name, expected in (("output", 0), ("weights", 0), ("lse", -np.inf)):
        assert np.all(steps[name][rows] == expected)
    dy = np.zeros(seen.output.shape, dtype)
    dy[rows] = 1
    for gradient in seen.gradient(dy)[:3]:
        assert np.array_equal(gradient, np.zeros(gradient.shape))
    assert not np.isnan(seen.received().astype(float)).any()


def test_sinks_keep_a_row_that_sees_nothing_at_zero() -> None:
    seen = overt.attend(*qkv(), mask=overt.padding(0), sinks=np.array([1.5, -2.0]))
    assert np.array_equal(seen.output, np.zeros((2, 5, 3)))
    assert np.array_equal(seen.weights[...], np.zeros((2, 5, 7)))
    np.testing.assert_allclose(seen.lse, np.repeat([[1.5], [-2.0]], 5, axis=1))


# Defaults of the scores.


def test_default_scales() -> None:
    q, k, v = qkv(D=16)
    units = q / np.linalg.norm(q, axis=-1, keepdims=True), k / np.linalg.norm(k, axis=-1, keepdims=True)
    W, Wq, Wk, a, b = normal(16, 16), normal(6, 16), normal(6, 16, seed=1), normal(6), normal(6, seed=1)
    hidden = np.tanh((q @ Wq.T)[:, :, None] + (k @ Wk.T)[:, None] + b)
    expected = {
        overt.scaled_dot(): q @ k.mT / 4,
        overt.dot(): q @ k.mT,
        overt.scaled_dot(0.3): 0.3 * (q @ k.mT),
        overt.cosine(): units[0] @ units[1].mT,
        overt.cosine(5): 5 * (units[0] @ units[1].mT),
        overt.bilinear(W): q @ W @ k.mT,
        overt.additive(Wq, Wk, a, b): hidden @ a,
    }
    for score, scores in expected.items():
        seen = overt.attend(q, k, v, score=score)
        np.testing.assert_allclose(seen.weights[...], softmax(scores), rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(seen.output, softmax(scores) @ v, rtol=1e-9, atol=1e-12)
    assert np.array_equal(overt.attention(q, k, v), overt.attention(q, k, v, score=overt.scaled_dot()))


def test_the_default_scale_follows_the_width() -> None:
    for D in (1, 2, 9, 64):
        q, k, v = qkv(D=D)
        expected = softmax(q @ k.mT / np.sqrt(D)) @ v
        np.testing.assert_allclose(overt.attention(q, k, v), expected, rtol=1e-9, atol=1e-12)


# Heads.


@pytest.mark.parametrize(("H", "G"), [(6, 2), (6, 3), (4, 1), (3, 3)])
def test_query_head_h_reads_key_head_h_over_group(H: int, G: int) -> None:
    q, k, v = qkv(H=H, G=G)
    seen = overt.attend(q, k, v)
    for h in range(H):
        alone = overt.attend(q[h], k[h // (H // G)], v[h // (H // G)])
        np.testing.assert_allclose(seen.output[h], alone.output, rtol=1e-12)
        np.testing.assert_allclose(seen.weights[h], alone.weights[...], rtol=1e-12)
    if 1 < G < H:
        tiled = overt.attention(q, np.tile(k, (H // G, 1, 1)), np.tile(v, (H // G, 1, 1)))
        assert not np.allclose(seen.output, tiled)


# Windows count neither end twice nor themselves.


@pytest.mark.parametrize(("left", "right"), [(0, 0), (2, 0), (0, 3), (2, 1), (99, 99)])
def test_a_window_does_not_count_the_query_itself(left: int, right: int) -> None:
    keys = np.flatnonzero(seen_by(10, 10, overt.window(left, right))[5])
    assert keys.tolist() == list(range(max(0, 5 - left), min(10, 5 + right + 1)))


def test_rope_wants_a_layout() -> None:
    x = normal(5, 4)
    with pytest.raises(TypeError, match="layout"):
        overt.positions.rope(x)  # type: ignore[call-arg]
    for layout in (None, "", "Half", 1):
        with pytest.raises(ArgumentError, match=r"half.*interleaved"):
            overt.positions.rope(x, layout=layout)
    half, interleaved = (overt.positions.rope(x, layout=layout) for layout in ("half", "interleaved"))
    assert not np.allclose(half, interleaved)


# Softcap, sinks, dropout, lse.


@pytest.mark.parametrize("cap", [0.5, 30.0, 1e9, np.float32(2), 3])
def test_softcap(cap: float) -> None:
    q, k, v = qkv()
    scores = float(cap) * np.tanh(q @ k.mT * 3 / float(cap))
    seen = overt.attend(q, k, v, softcap=cap, score=overt.scaled_dot(3))
    np.testing.assert_allclose(seen.weights[...], softmax(scores), rtol=1e-9)
    np.testing.assert_allclose(seen.output, softmax(scores) @ v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("cap", [1e-300, 1e-30, 1e30, 1e300])
def test_softcaps_beyond_all_scores(cap: float, dtype: Any) -> None:
    # So small a cap makes all keys alike, and so large a one changes nothing.
    q, k, v = qkv(dtype=dtype)
    expected = overt.attend(0 * q if cap < 1 else q, k, v)
    np.testing.assert_allclose(overt.attention(q, k, v, softcap=cap), expected.output, rtol=1e-5)
    np.testing.assert_allclose(overt.trace(q, k, v, softcap=cap)["weights"], expected.weights[...], rtol=1e-5)


@pytest.mark.parametrize("kind", [int, float, np.float16, np.float32, np.float64, np.int8, np.int64])
def test_numbers_of_any_kind(kind: Any) -> None:
    q, k, v = qkv(dtype=np.float32)
    for score in (overt.scaled_dot, overt.cosine):
        expected = overt.attention(q, k, v, score=score(2.0), softcap=3.0)
        np.testing.assert_array_equal(overt.attention(q, k, v, score=score(kind(2)), softcap=kind(3)), expected)
    # A number's own dtype does not widen what is computed.
    steps = overt.trace(q, k, v, score=overt.scaled_dot(kind(2)), softcap=kind(3))
    assert {step.array.dtype for step in steps} == {np.dtype(np.float32)}


def test_softcap_comes_before_bias_and_mask() -> None:
    q, k, v = qkv()
    bias = 100 * normal(5, 7, seed=9)
    keep = np.tri(5, 7, 1, dtype=bool)
    scores = np.where(keep, 2 * np.tanh(q @ k.mT / 2 / 2) + bias, -np.inf)
    seen = overt.attend(q, k, v, softcap=2.0, bias=bias, mask=keep)
    np.testing.assert_allclose(seen.weights[...], softmax(scores), rtol=1e-9, atol=1e-300)


def test_sinks_join_the_denominator_and_take_no_value() -> None:
    q, k, v = qkv()
    sinks = np.array([0.7, -1.2])
    keep = np.tri(5, 7, 2, dtype=bool)
    scores = np.where(keep, q @ k.mT / 2, -np.inf)
    wide = softmax(np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (2, 5, 1))], axis=-1))
    seen = overt.attend(q, k, v, sinks=sinks, mask=keep)
    np.testing.assert_allclose(seen.weights[...], wide[..., :-1], rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(seen.weights[...].sum(axis=-1), 1 - wide[..., -1], rtol=1e-9)
    assert (seen.weights[...].sum(axis=-1) < 1).all()
    np.testing.assert_allclose(seen.output, wide[..., :-1] @ v, rtol=1e-9, atol=1e-12)
    expected = np.log(np.exp(scores).sum(axis=-1) + np.exp(sinks)[:, None])
    np.testing.assert_allclose(seen.lse, expected, rtol=1e-9)


def test_a_sink_of_minus_infinity_is_none() -> None:
    q, k, v = qkv()
    expected, seen = overt.attend(q, k, v), overt.attend(q, k, v, sinks=np.full(2, -np.inf))
    np.testing.assert_array_equal(seen.output, expected.output)
    np.testing.assert_array_equal(seen.lse, expected.lse)


def test_dropout_comes_after_the_softmax() -> None:
    q, k, _ = qkv(T=40, S=50)
    v = np.broadcast_to(np.eye(50), (2, 50, 50))
    whole = overt.attend(q, k, v)
    seen = overt.attend(q, k, v, dropout=overt.dropout(0.25, 3))
    # What remains is scaled, and not normalised again.
    ratio = seen.output / whole.output
    assert np.all(np.isclose(ratio, 0) | np.isclose(ratio, 1 / 0.75))
    assert abs((ratio == 0).mean() - 0.25) < 0.03
    np.testing.assert_allclose(seen.lse, whole.lse)
    np.testing.assert_allclose(seen.weights[...], whole.weights[...])
    np.testing.assert_allclose(seen.received(), whole.received())
    np.testing.assert_allclose(seen.entropy(), whole.entropy())
    steps = overt.trace(q, k, v, dropout=overt.dropout(0.25, 3))
    np.testing.assert_allclose(steps["dropped"], seen.output)
    np.testing.assert_allclose(steps["weights"], whole.weights[...])


def test_dropout_is_reproducible_and_differs_by_seed_head_and_row() -> None:
    q, k, v = (np.zeros((2, 3, n, 1)) for n in (16, 20, 20))
    v = np.broadcast_to(np.eye(20), (2, 3, 20, 20))

    def kept(seed: int) -> np.ndarray:
        return overt.attention(q, k, v, dropout=overt.dropout(0.5, seed)) > 0

    assert np.array_equal(kept(7), kept(7))
    for seed in (0, 8, 7 + 2**32, 2**64 - 1):
        assert abs((kept(7) == kept(seed)).mean() - 0.5) < 0.1
    lines = kept(7).reshape(-1, 20)
    assert len(np.unique(lines, axis=0)) == len(lines)
    columns = kept(7).reshape(-1, 20).T
    assert len(np.unique(columns, axis=0)) == len(columns)


def test_dropout_preserves_the_mean() -> None:
    q, k, v = qkv(T=3, S=30)
    expected = overt.attention(q, k, v)
    mean = np.mean([overt.attention(q, k, v, dropout=overt.dropout(0.3, seed)) for seed in range(600)], axis=0)
    np.testing.assert_allclose(mean, expected, atol=0.08)


def test_dropout_of_nothing_changes_nothing() -> None:
    q, k, v = qkv()
    y = overt.attention(q, k, v, dropout=overt.dropout(0, 1))
    np.testing.assert_allclose(y, overt.attention(q, k, v), rtol=1e-12)


def test_lse_is_natural_and_after_mask_and_bias() -> None:
    q, k, v = qkv()
    bias = normal(5, 7, seed=9)
    keep = np.tri(5, 7, 2, dtype=bool)
    expected = np.log(np.exp(np.where(keep, q @ k.mT / 2 + bias, -np.inf)).sum(axis=-1))
    np.testing.assert_allclose(overt.attend(q, k, v, mask=keep, bias=bias).lse, expected, rtol=1e-9)
    np.testing.assert_allclose(overt.trace(q, k, v, mask=keep, bias=bias)["lse"], expected, rtol=1e-9)


# Dtypes.


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("score", [overt.scaled_dot(), overt.additive(*normal(2, 6, 4), normal(6))])
def test_the_dtype_of_the_input_comes_back(dtype: np.dtype, score: Any) -> None:
    q, k, v = qkv(T=30, S=40, dtype=dtype)
    seen = overt.attend(q, k, v, mask=overt.causal(), score=score)
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    assert seen.output.dtype == overt.attention(q, k, v, score=score).dtype == dtype
    assert seen.lse.dtype == seen.weights.dtype == seen.weights[0, 0].dtype == seen.weights[0, [0]].dtype == wide
    assert seen.received().dtype == seen.entropy().dtype == seen.top(2)[1].dtype == seen.map(3, 3).dtype == wide
    assert seen.top(2)[0].dtype == np.int64
    gradient = seen.gradient(seen.output)
    assert {x.dtype for x in gradient[:3]} == {dtype}
    assert gradient.bias is None
    # Computed in float32 at least: the result is as good as its own dtype allows.
    exact = overt.attend(*(x.astype(np.float64) for x in (q, k, v)), mask=overt.causal(), score=score)
    rounding = ROUNDING[dtype.name]
    np.testing.assert_allclose(seen.output.astype(float), exact.output, rtol=rounding, atol=rounding)
    fine = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(seen.lse, exact.lse, rtol=fine, atol=fine)
    np.testing.assert_allclose(seen.weights[...], exact.weights[...], rtol=fine * 10, atol=fine)


def test_half_types_do_not_lose_long_sums() -> None:
    # Ten thousand equal weights: neither they nor their sum would survive in half precision.
    for dtype in HALVES:
        q, k, v = np.zeros((1, 1, 8), dtype), np.zeros((1, 10_000, 8), dtype), np.ones((1, 10_000, 2), dtype)
        seen = overt.attend(q, k, v)
        assert np.array_equal(seen.output.astype(float), np.ones((1, 1, 2)))
        np.testing.assert_allclose(seen.lse, np.log(10_000), rtol=1e-6)
        np.testing.assert_allclose(seen.weights[0, 0, :5], 1e-4, rtol=1e-5)


@pytest.mark.parametrize("odd", range(3))
@pytest.mark.parametrize(("one", "other"), [(a, b) for a in DTYPES for b in DTYPES if a != b], ids=str)
def test_mixed_dtypes_raise(one: np.dtype, other: np.dtype, odd: int) -> None:
    arrays = [x.astype(other if i == odd else one) for i, x in enumerate(qkv())]
    with pytest.raises(DtypeError, match=rf"(?=.*\b{one.name}\b)(?=.*\b{other.name}\b).*convert"):
        overt.attention(*arrays)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, np.uint64, np.complex64, np.longdouble, object, "U3"])
def test_other_dtypes_raise(dtype: Any) -> None:
    q, k, v = (x.astype(dtype) for x in qkv())
    for arrays in ((q, k, v), (q, *qkv()[1:]), (*qkv()[:2], v)):
        with pytest.raises(DtypeError, match=r"dtype .*convert"):
            overt.attention(*arrays)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("beside", ["float32", "same"])
def test_float32_bias_and_sinks_beside_half_inputs(dtype: np.dtype, beside: str) -> None:
    q, k, v = qkv(dtype=dtype)
    other = np.dtype(np.float32) if beside == "float32" else dtype
    bias, sinks = normal(2, 5, 7, dtype=other), normal(2, dtype=other)
    slopes, table = normal(2, dtype=other), normal(8, 2, dtype=other)
    for each in (bias, overt.alibi(slopes), overt.relative(table)):
        y = overt.attention(q, k, v, bias=each, sinks=sinks)
        assert y.dtype == dtype
        wide = each.astype(np.float64) if isinstance(each, np.ndarray) else each
        exact = overt.attention(*(x.astype(np.float64) for x in (q, k, v)), bias=wide, sinks=sinks.astype(np.float64))
        np.testing.assert_allclose(y.astype(float), exact, rtol=ROUNDING[dtype.name], atol=ROUNDING[dtype.name])


def test_wider_bias_and_sinks_raise() -> None:
    for dtype, wide in ((np.float32, np.float64), (np.float16, np.float64), (np.float16, ml_dtypes.bfloat16)):
        arrays = qkv(dtype=dtype)
        with pytest.raises(DtypeError, match=r"bias is .* beside .* convert"):
            overt.attention(*arrays, bias=np.zeros((5, 7), wide))
        with pytest.raises(DtypeError, match=r"sinks is|are .* beside .* convert"):
            overt.attention(*arrays, sinks=np.zeros(2, wide))


# Masked keys and values may hold anything.


SCORES = {
    "scaled_dot": overt.scaled_dot(),
    "cosine": overt.cosine(),
    "bilinear": overt.bilinear(normal(4, 4)),
    "additive": overt.additive(*normal(2, 6, 4), normal(6)),
}


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"sinks": np.array([1, 2], np.float32)}, {"bias": True}])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("score", SCORES)
def test_masked_keys_and_values_never_show(score: str, dtype: np.dtype, options: dict, poison: float) -> None:
    q, k, v = qkv(dtype=dtype)
    mask = overt.keep(np.array([True, True, False, True, True, False, True])) & overt.causal()
    options = {**options, "score": SCORES[score], "mask": mask}
    if "bias" in options:
        options["bias"] = normal(5, 7, dtype=np.float32)
    clean = overt.attend(q, k, v, **options)
    k, v = k.copy(), v.copy()
    k[:, [2, 5]] = v[:, [2, 5]] = poison
    k[:, 5, 0] = 1
    if "bias" in options:
        options["bias"][:, 2] = poison
    seen = overt.attend(q, k, v, **options)

    def same(one: Any, other: Any) -> None:
        assert np.isfinite(np.asarray(other, float)).all()
        np.testing.assert_allclose(
            np.asarray(one, float), np.asarray(other, float), rtol=ROUNDING[dtype.name], atol=1e-6
        )

    same(seen.output, clean.output)
    same(overt.attention(q, k, v, **options), clean.output)
    same(overt.attention(q, k, v, dropout=overt.dropout(0.0, 1), **options), clean.output)
    for name in ("received", "entropy"):
        same(getattr(seen, name)(), getattr(clean, name)())
    same(seen.lse, clean.lse)
    same(seen.weights, clean.weights)
    same(seen.weights[[0, 1], [4, 4]], clean.weights[[0, 1], [4, 4]])
    same(seen.top(3)[1], clean.top(3)[1])
    same(seen.map(3, 3), clean.map(3, 3))
    dy = normal(2, 5, 3, seed=8, dtype=dtype)
    for got, expected in zip(seen.gradient(dy), clean.gradient(dy), strict=True):
        if expected is not None:
            same(got, expected)
    assert np.array_equal(seen.gradient(dy).k[:, [2, 5]].astype(float), np.zeros((2, 2, 4)))
    same(overt.trace(q, k, v, **options)["output"].astype(dtype), clean.output)


def test_queries_that_see_nothing_may_hold_anything() -> None:
    q, k, v = qkv(T=9, S=7)
    clean = overt.attend(q, k, v, mask=overt.causal())
    q = q.copy()
    q[:, :2] = np.nan
    seen = overt.attend(q, k, v, mask=overt.causal())
    np.testing.assert_array_equal(seen.output, clean.output)
    np.testing.assert_array_equal(seen.received(), clean.received())
    for got, expected in zip(seen.gradient(seen.output)[:3], clean.gradient(seen.output)[:3], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def test_what_is_seen_does_show() -> None:
    # The other side of the promise: NaN that a query sees is not swept under the carpet.
    q, k, v = qkv()
    mask = overt.causal(offset=0)
    for poison, check in ((np.nan, np.isnan), (np.inf, np.isposinf), (-np.inf, np.isneginf)):
        bad = v.copy()
        bad[:, 3, 1] = poison
        for options in ({}, {"dropout": overt.dropout(0.0, 0)}):
            y = overt.attention(q, k, bad, mask=mask, **options)
            assert check(y[:, 3:, 1]).all()
            assert np.isfinite(y[:, :3]).all()
            assert np.isfinite(y[..., [0, 2]]).all()
    bad = k.copy()
    bad[:, 3] = np.nan
    y = overt.attention(q, bad, v, mask=mask)
    assert np.isnan(y[:, 3:]).all()
    assert np.isfinite(y[:, :3]).all()


# Inputs may lie in memory in any way, and are never changed.


def layouts(x: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers, lying differently."""
    found = {"fortran": np.asfortranarray(x), "reversed": np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]}
    found["strided"] = np.repeat(np.repeat(x, 3, axis=-1), 2, axis=-2)[..., ::2, ::3]
    found["transposed"] = np.ascontiguousarray(np.moveaxis(x, -2, 0))
    found["transposed"] = np.moveaxis(found["transposed"], 0, -2)
    found["read-only"] = x.copy()
    found["read-only"].flags.writeable = False
    raw = np.empty(x.nbytes + 1, np.uint8)
    found["unaligned"] = raw[1:].view(x.dtype).reshape(x.shape)
    found["unaligned"][...] = x
    # A field of packed records: strides that are no multiple of the item size.
    records = np.empty(x.shape, [("flag", np.int8), ("x", x.dtype)])
    found["record"] = records["x"]
    found["record"][...] = x
    if x.dtype.name != "bfloat16":
        found["byte order"] = x.astype(x.dtype.newbyteorder("S"))
    found["memmap"] = x.copy().view(np.memmap)
    for name, array in found.items():
        assert np.array_equal(array.astype(float), x.astype(float)), name
    return found


LAYOUTS = list(layouts(np.zeros((1, 2, 2), np.float32)))


@pytest.mark.parametrize("which", ["q", "k", "v", "all"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout(layout: str, dtype: np.dtype, which: str) -> None:
    arrays = dict(zip("qkv", qkv(T=6, S=37, D=20, E=9, dtype=dtype), strict=True))
    expected = overt.attend(**arrays, mask=overt.causal())
    for name in "qkv" if which == "all" else which:
        different = layouts(arrays[name])
        # ml_dtypes knows one byte order.
        arrays[name] = different.get(layout, arrays[name])
    before = {name: x.tobytes() for name, x in arrays.items()}
    seen = overt.attend(**arrays, mask=overt.causal())
    tolerance = {"rtol": ROUNDING[dtype.name], "atol": 1e-6}
    for got, other in (
        (seen.output, expected.output),
        (overt.attention(**arrays, mask=overt.causal()), expected.output),
        (seen.weights[...], expected.weights[...]),
        (seen.received(), expected.received()),
        (seen.top(2)[1], expected.top(2)[1]),
        (seen.gradient(expected.output).k, expected.gradient(expected.output).k),
    ):
        assert got.dtype.name == other.dtype.name
        np.testing.assert_allclose(got.astype(float), other.astype(float), **tolerance)
    assert seen.output.dtype.name == dtype.name
    assert {name: x.tobytes() for name, x in arrays.items()} == before


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_of_what_stands_beside(layout: str) -> None:
    q, k, v = qkv(T=6, S=37, dtype=np.float32)
    beside = {
        "mask": np.random.default_rng(0).random((2, 6, 37)) < 0.5,
        "bias": normal(2, 6, 37, dtype=np.float32),
        "sinks": normal(2, dtype=np.float32),
    }
    expected = overt.attend(q, k, v, **beside)
    other = {name: layouts(x if x.ndim > 1 else x[:, None])[layout].reshape(x.shape) for name, x in beside.items()}
    if layout == "unaligned":
        assert not other["bias"].flags.aligned
    before = {name: x.tobytes() for name, x in other.items()}
    seen = overt.attend(q, k, v, **other)
    np.testing.assert_allclose(seen.output, expected.output, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen.weights[...], expected.weights[...], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(seen.received(), expected.received(), rtol=1e-5, atol=1e-6)
    got, wanted = (each.gradient(expected.output).bias for each in (seen, expected))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    lengths = np.array([37, 5, 9]).astype(">i4")[::-1]
    batch = [np.stack([x] * 3) for x in (q, k, v)]
    padded = overt.attention(*batch, mask=overt.padding(lengths))
    for b, n in enumerate(lengths):
        np.testing.assert_allclose(padded[b], overt.attention(q, k[:, :n], v[:, :n]), rtol=1e-5, atol=1e-6)
    assert {name: x.tobytes() for name, x in other.items()} == before


@pytest.mark.parametrize("turn", [lambda x: x.astype(">f8"), lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("score", [overt.scaled_dot(), overt.additive(np.eye(4), np.eye(4), np.ones(4))])
def test_what_stands_beside_keeps_its_precision(turn: Any, score: Any) -> None:
    q, k, v = qkv(T=6, S=9)
    beside = {"bias": normal(2, 6, 9), "sinks": normal(2)}
    turned = {name: turn(x) for name, x in beside.items()}
    expected = overt.trace(q, k, v, score=score, **beside)["output"]
    for got in (
        overt.attention(q, k, v, score=score, **turned),
        overt.trace(q, k, v, score=score, **turned)["output"],
        overt.attention(*map(torch.from_numpy, (q, k, v)), score=score, **turned).numpy(),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("score", SCORES)
def test_nothing_that_is_given_is_changed(score: str) -> None:
    q, k, v = qkv()
    keep, bias, sinks = np.ones((5, 7), bool), normal(5, 7), normal(2)
    given = [q, k, v, keep, bias, sinks]
    dy = normal(2, 5, 3)
    given.append(dy)
    before = [x.copy() for x in given]
    options = {"score": SCORES[score], "mask": keep, "bias": bias, "sinks": sinks, "softcap": 3.0}

    def ask(seen: overt.Attended) -> list[np.ndarray]:
        found = seen.gradient(dy)
        return [seen.weights[...], *seen.top(2), seen.map(2, 2), *found, found.sinks, *found.score.values()]

    seen = overt.attend(q, k, v, **options)
    expected = [x.copy() for x in ask(seen)]
    # What later answers come from cannot be written to; all else is the caller's, who may.
    for kept in (seen.output, seen.lse, seen.received(), seen.entropy()):
        with pytest.raises(ValueError, match="read-only"):
            kept[...] = 0
    for got in (overt.attention(q, k, v, **options), *ask(seen)):
        assert not any(np.shares_memory(got, x) for x in given)
        got[...] = 0
    assert all(np.array_equal(x, y) for x, y in zip(given, before, strict=True))
    for got, first in zip(ask(seen), expected, strict=True):
        np.testing.assert_array_equal(got, first)
    # Nothing is written to what is given, not even for a while.
    for x in given:
        x.flags.writeable = False
    for got, first in zip(ask(overt.attend(q, k, v, **options)), expected, strict=True):
        np.testing.assert_array_equal(got, first)


# Axes of no length.


BESIDE = {
    "nothing": lambda H, T, S: {},
    "causal": lambda H, T, S: {"mask": overt.causal()},
    "keep": lambda H, T, S: {"mask": np.ones((T, S), bool)},
    "bias": lambda H, T, S: {"bias": np.zeros((H, T, S))},
    "alibi": lambda H, T, S: {"bias": overt.alibi(np.zeros(H))},
    "sinks": lambda H, T, S: {"sinks": np.zeros(H)},
}


@pytest.mark.parametrize("score", ["scaled_dot", "cosine", "additive"])
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("empty", ["B", "B of two", "H", "H and G", "T", "S", "T and S", "D", "E", "A"])
def test_axes_of_no_length(empty: str, beside: str, score: str) -> None:
    sizes = zip("BHGTSDEA", (2, 4, 2, 3, 5, 4, 2, 6), strict=True)
    B, H, G, T, S, D, E, A = (0 if name in empty.split() else n for name, n in sizes)
    batch = (3, 0) if empty == "B of two" else (B,)
    q, k, v = normal(*batch, H, T, D), normal(*batch, G, S, D), normal(*batch, G, S, E)
    options = BESIDE[beside](H, T, S)
    options["score"] = {**SCORES, "additive": overt.additive(normal(A, D), normal(A, D), normal(A))}[score]
    seen = overt.attend(q, k, v, **options)
    assert seen.output.shape == overt.attention(q, k, v, **options).shape == (*batch, H, T, E)
    assert seen.lse.shape == seen.entropy().shape == (*batch, H, T)
    assert seen.weights.shape == seen.weights[...].shape == np.asarray(seen.weights).shape == (*batch, H, T, S)
    assert seen.received().shape == (*batch, H, S)
    assert seen.weights[..., ::-1, 0:0].shape == (*batch, H, T, 0)
    assert seen.weights[..., np.zeros(0, int)].shape == (*batch, H, T, 0)
    if S:
        assert seen.top(2)[0].shape == seen.top(2)[1].shape == (*batch, H, T, 2)
    if S and T:
        assert seen.map(2, 3).shape == (*batch, H, 2, 3)
    gradient = seen.gradient(np.ones(seen.output.shape))
    assert [x.shape for x in gradient[:3]] == [q.shape, k.shape, v.shape]
    assert all(np.isfinite(x).all() for x in gradient[:3])
    if beside in ("bias", "alibi"):
        assert gradient.bias.shape == ((H, T, S) if beside == "bias" else (H,))
    assert overt.trace(q, k, v, **options)["output"].shape == seen.output.shape
    if not S:
        assert np.array_equal(seen.output, np.zeros(seen.output.shape))
        assert np.all(seen.lse == (0 if beside == "sinks" else -np.inf))


@pytest.mark.parametrize(
    "score", [overt.scaled_dot(), overt.cosine(), overt.additive(normal(6, 0), normal(6, 0), normal(6))]
)
def test_queries_and_keys_of_no_width_are_all_alike(score: Any) -> None:
    q, k, v = qkv(D=0)
    seen = overt.attend(q, k, v, score=score)
    np.testing.assert_allclose(seen.weights[...], np.full((2, 5, 7), 1 / 7))
    np.testing.assert_allclose(seen.output, np.broadcast_to(v.mean(axis=1, keepdims=True), (2, 5, 3)))
