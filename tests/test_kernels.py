"""Every kernel, level and dtype against the definition in float64."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overt
from overt import _native, kernels, reference
from overt.scores import Additive
from strategies import DTYPES, Case, cases

LEVELS = kernels.levels()
# Errors relative to Σ w|v|, the scale on which rounding acts; half types round the result once more.
TINY = {name: 1e3 * float(np.finfo(np.float64 if name == "float64" else np.float32).tiny) for name in DTYPES}
TINY["float16"] = 2.0**-24
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-6 + 2**-11, "bfloat16": 2e-6 + 2**-8}
# Tiles take weights of half types as one or two numbers of 8 bits, each off by half of its last one at most.
ROUNDED_WEIGHTS = {"amx": {"bfloat16": 2.0**-8, "float16": 2.0**-17}}
# Weights that will be rounded to 8 bits are raised with some eighteen right, and so is their sum.
COARSE = {("amx", "bfloat16"): 3e-6}


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> object:
    """Fill scratch and outputs with NaN before they are written, so that nothing unwritten can be read."""
    empty = np.empty

    def poison(shape: object, dtype: object = float, **options: object) -> np.ndarray:
        array = empty(shape, dtype, **options)
        if array.dtype.name in DTYPES:
            array.fill(np.nan)
        return array

    monkeypatch.setattr(np, "empty", poison)
    _native.poison(True)
    yield
    _native.poison(False)


def slack(case: Case) -> float:
    """Rounding of a score grows with what it was made of, and moves the weights as much."""
    problem = case.wide().problem()
    steps = [step.array for step in reference._scoring(problem) if step.axes == "T S"]
    # A score that the softcap made small has been large, and so have terms that cancel in it.
    summed = [np.abs(scores[np.isfinite(scores)]).max(initial=0.0) for scores in steps]
    left, right, scale = problem.score.factors(np, problem.q, problem.heads(problem.k))
    if isinstance(problem.score, Additive):
        summed.append(np.abs(problem.score.v).sum() * sum(np.abs(x).max(initial=1.0) for x in (left, right)))
    else:
        summed.append(abs(scale) * (np.abs(left) @ np.abs(right).swapaxes(-1, -2)).max(initial=0.0))
    return max(1.0, float(max(summed)) / 6)


def check_forward(case: Case, level: str) -> None:
    problem = case.problem()
    assert kernels.can(problem)
    wide = case.wide().problem()
    named = {step.name: step.array for step in reference.steps(wide)}
    output, lse = kernels.forward(problem, level=level)
    assert output.dtype == case.q.dtype
    rounded = ROUNDED_WEIGHTS.get(level, {}).get(case.q.dtype.name, 0.0)
    tolerance = TOLERANCE[case.q.dtype.name] * slack(case) + rounded
    scale = named.get("dropped", named["weights"]) @ np.abs(named["value"])
    error = np.abs(output.astype(np.float64) - named["output"])
    # Weights below the smallest normal number become 0, and float16 cannot resolve what lies below its own.
    floor = TINY[case.q.dtype.name]
    assert np.all(error <= tolerance * scale + floor)
    exact = (1e-12 if case.q.dtype == np.float64 else 2e-6 * slack(case)) + COARSE.get((level, case.q.dtype.name), 0.0)
    np.testing.assert_allclose(lse, named["lse"], rtol=exact, atol=exact)


def check_statistics(case: Case, level: str, k: int, rows: int, columns: int) -> None:
    problem, wide = case.problem(), case.wide().problem()
    exact_lse = reference.forward(wide)[1]
    lse = exact_lse.astype(problem.accumulate, order="C")
    tolerance = (1e-12 if case.q.dtype == np.float64 else 2e-6) * slack(case)
    w = reference.weights(wide, exact_lse)

    tile = kernels.weights(problem, lse, level=level)
    np.testing.assert_allclose(tile, w, rtol=2 * tolerance, atol=tolerance)
    assert np.all(tile[w == 0] == 0)

    received, entropy = kernels.statistics(problem, lse, level=level)
    np.testing.assert_allclose(received, w.sum(axis=-2), rtol=2 * tolerance, atol=tolerance)
    expected = -np.sum(w * np.log(np.where(w == 0, 1, w)), axis=-1)
    np.testing.assert_allclose(entropy, expected, rtol=4 * tolerance, atol=4 * tolerance)

    B, H, T, S = w.shape
    keys = np.random.default_rng(k).integers(-1, S, (2, B, T), np.int32)
    some = range(0, T, max(T // 2, 1))
    # Any output will do.
    output = np.random.default_rng(k).standard_normal((B, H, T, wide.v.shape[-1])).astype(case.q.dtype)
    *same, found, off = kernels.picked(problem, lse, keys, some, output, level=level)
    assert [x.tobytes() for x in same] == [received.tobytes(), entropy.tobytes()]
    values = np.repeat(wide.v, H // wide.v.shape[1], axis=1)
    mixed, blind = (w @ values)[:, :, some], np.isneginf(lse)[:, :, some]
    expected_off = [np.abs(mixed - output[:, :, some].astype(np.float64)), np.abs(mixed)]
    rounding = 4 * tolerance * (w @ np.abs(values)).max(initial=1)
    for i, x in enumerate(expected_off):
        np.testing.assert_allclose(off[..., i], np.where(blind, 0, x.max(-1, initial=0)), rtol=tolerance, atol=rounding)
    none = (keys < 0)[:, :, None] | (lse == -np.inf)
    if S:
        b, h, t = np.ogrid[:B, :H, :T]
        picks = np.where(none, np.nan, w[b, h, t, np.maximum(keys, 0)[:, :, None]])
        np.testing.assert_allclose(found, picks, rtol=2 * tolerance, atol=tolerance)
    else:
        assert np.isnan(found).all()

    output, lse_too, along = kernels.attend(problem, level=level)
    assert [x.tobytes() for x in (output, lse_too)] == [x.tobytes() for x in kernels.forward(problem, level=level)]
    if along:
        looser = tolerance + COARSE.get((level, case.q.dtype.name), 0.0)
        np.testing.assert_allclose(along[0], w.sum(axis=-2), rtol=2 * looser, atol=looser)
        np.testing.assert_allclose(along[1], expected, rtol=4 * looser, atol=4 * looser)

    if w.shape[-1]:
        k = min(k, w.shape[-1])
        indices, heaviest = kernels.top(problem, lse, k, level=level)
        np.testing.assert_allclose(heaviest, -np.sort(-w, axis=-1)[..., :k], rtol=2 * tolerance, atol=tolerance)
        np.testing.assert_allclose(
            np.take_along_axis(w, indices, axis=-1), heaviest, rtol=2 * tolerance, atol=tolerance
        )
        assert np.all(np.diff(np.sort(indices, axis=-1), axis=-1) > 0), "an index twice"
    if w.shape[-1] and w.shape[-2]:
        for pool in ("max", "mean"):
            bins = [
                np.stack([np.arange(n) * length // n, -(-(np.arange(n) + 1) * length // n)], axis=-1)
                for n, length in ((rows, w.shape[-2]), (columns, w.shape[-1]))
            ]
            picture = kernels.pooled(problem, lse, *bins, pool, level=level)
            expected = reference.pool_axis(np, reference.pool_axis(np, w, bins[1], pool, -1), bins[0], pool, -2)
            np.testing.assert_allclose(picture, expected, rtol=2 * tolerance, atol=tolerance)


@pytest.mark.parametrize("level", LEVELS)
@given(case=cases(("float32", "float64")))
def test_forward(level: str, case: Case) -> None:
    check_forward(case, level)


@pytest.mark.parametrize("level", LEVELS)
@given(case=cases(("float16", "bfloat16")))
@settings(max_examples=50)
def test_forward_of_half_types(level: str, case: Case) -> None:
    check_forward(case, level)


@pytest.mark.parametrize("level", LEVELS)
@given(
    case=cases(tuple(DTYPES)),
    k=st.integers(1, 12),
    rows=st.integers(1, 9),
    columns=st.integers(1, 9),
)
@settings(max_examples=60)
def test_statistics(level: str, case: Case, k: int, rows: int, columns: int) -> None:
    check_statistics(case, level, k, rows, columns)


@st.composite
def intervals(draw: st.DrawFn, length: int) -> np.ndarray:
    """Bins that overlap, repeat and come in any order."""
    edges = st.tuples(st.integers(0, length - 1), st.integers(1, length))
    drawn = draw(st.lists(edges, min_size=1, max_size=40))
    return np.array([[start, min(start + size, length)] for start, size in drawn])


@pytest.mark.parametrize("level", LEVELS)
@given(data=st.data(), dtype=st.sampled_from(list(DTYPES)), spoilt=st.booleans())
@settings(max_examples=40)
def test_pooled_over_any_bins(level: str, data: st.DataObject, dtype: str, spoilt: bool) -> None:
    T, S = data.draw(st.sampled_from([1, 2, 7, 33, 150, 320])), data.draw(st.sampled_from([1, 17, 300, 512, 1050]))
    rng = np.random.default_rng(T * S)
    q, k, v = (rng.normal(size=(1, 2, n, 8)).astype(DTYPES[dtype]) for n in (T, S, S))
    if spoilt:
        # Seen by the later rows only, where there is a mask.
        k[:, :, S // 2] = np.nan
    mask = data.draw(st.sampled_from([None, overt.causal(0), overt.keep(rng.random((T, S)) < 0.1)]))
    case = Case(q, k, v, {} if mask is None else {"mask": mask})
    lse = kernels.forward(case.problem(), level=level)[1]
    w = kernels.weights(case.problem(), lse, level=level)
    rows, columns = data.draw(intervals(T)), data.draw(intervals(S))
    for pool in ("max", "mean"):
        pictures = []
        for threads in (1, 2, 3):
            case.options["num_threads"] = threads
            pictures.append(kernels.pooled(case.problem(), lse, rows, columns, pool, level=level))
        assert pictures[0].tobytes() == pictures[1].tobytes() == pictures[2].tobytes()
        wide = w.astype(np.float64)
        expected = reference.pool_axis(np, reference.pool_axis(np, wide, columns, pool, -1), rows, pool, -2)
        rounding = 0 if pool == "max" else max(1e-13, 8 * np.finfo(w.dtype).eps)
        np.testing.assert_allclose(pictures[0], expected, rtol=rounding, atol=0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_number_of_threads_changes_no_bit(level: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, h, n, 40)).astype(DTYPES[dtype]) for h, n in ((4, 301), (2, 700), (2, 700)))
    case = Case(q, k, v, {"mask": overt.causal() & overt.padding(np.array([700, 450]))})
    results = []
    for threads in (1, 2, 3):
        case.options["num_threads"] = threads
        output, lse, along = kernels.attend(case.problem(), level=level)
        assert along
        apart = kernels.statistics(case.problem(), lse, level=level)
        results.append([x.tobytes() for x in (output, lse, *along, *apart)])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_huge_logits(level: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, n, 16)).astype(DTYPES[dtype]) for n in (20, 40, 40))
    case = Case(q * 1000, k * 1000, v)
    output, lse = kernels.forward(case.problem(), level=level)
    expected, expected_lse = reference.forward(case.wide().problem())
    # Scores of 10⁶ in float32 are known to about ±0.1; the winner is far ahead all the same.
    assert np.isfinite(output).all()
    np.testing.assert_allclose(lse, expected_lse, rtol=1e-6 if dtype == "float32" else 1e-14)
    far = np.sort(reference.weights(case.wide().problem(), expected_lse), axis=-1)[0, ..., -1] > 0.999999
    assert far.sum() >= 16
    np.testing.assert_allclose(
        output[0, :, far[0]] if far.ndim == 3 else output[0, 0][far[0]], expected[0, 0][far[0]], rtol=1e-5
    )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    "options", [{}, {"mask": overt.causal()}, {"softcap": 20.0}, {"score": overt.scaled_dot(-0.1)}]
)
def test_numbers_at_the_ends_of_the_range(level: str, dtype: str, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(7)
    q, k, v = (rng.normal(size=(1, 2, n, 24)) for n in (300, 300, 300))
    k[:, 0, 280] *= 1e25
    q[:, 1, 20] *= 1e22
    q[:, 1, 21] = np.nan
    k[:, 1, 270, 0] = np.inf
    v[:, 0, 3:9] *= 1e-39
    v[:, 0, 290, ::2] *= 1e30
    v[:, 1, 290, 5] = -np.inf
    with np.errstate(over="ignore"):
        case = Case(*(x.astype(DTYPES[dtype]) for x in (q, k, v)), options)
    output = kernels.forward(case.problem(), level=level)[0].astype(np.float64)
    wide = case.wide()
    with np.errstate(invalid="ignore"):
        expected = reference.forward(wide.problem())[0]
        scale = reference.forward(Case(wide.q, wide.k, np.abs(wide.v), options).problem())[0]
    for kind in (np.isnan, np.isinf, np.isfinite):
        assert kind(expected).any()
    np.testing.assert_array_equal(np.isnan(output), np.isnan(expected))
    np.testing.assert_array_equal(output[np.isinf(expected)], expected[np.isinf(expected)])
    finite = np.isfinite(expected)
    error = np.abs(output[finite] - expected[finite])
    assert np.all(error <= 2 * TOLERANCE[dtype] * scale[finite] + TINY[dtype])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("score", [overt.scaled_dot(), overt.additive(np.eye(33), np.eye(33), np.ones(33))])
def test_what_stands_behind_a_mask_never_shows(level: str, score: Any) -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(2, n, 33)).astype(np.float32) for n in (40, 90, 90))
    mask = overt.causal() & overt.where(lambda b, h, t, s: s % 7 != 3)
    clean, clean_lse = kernels.forward(Case(q, k, v, {"mask": mask, "score": score}).problem(), level=level)
    for poison in (np.nan, np.inf, -np.inf):
        bad_k, bad_v = k.copy(), v.copy()
        bad_k[:, 3::7] = poison
        bad_v[:, 3::7] = poison
        # Keys after the query: visible to later rows, hidden from this one.
        bad_v[:, -1] = poison
        output, lse = kernels.forward(Case(q, bad_k, bad_v, {"mask": mask, "score": score}).problem(), level=level)
        assert lse.tobytes() == clean_lse.tobytes()
        np.testing.assert_array_equal(output[:, :, :-1], clean[:, :, :-1])
        assert not np.isfinite(output[:, :, -1]).any()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("T", [50, 301])
@pytest.mark.parametrize("E", [8, 20, 33, 40])
def test_values_that_many_queries_read(level: str, dtype: str, T: int, E: int) -> None:
    rng = np.random.default_rng(E)
    q, k, v = (rng.normal(size=(2, n, d)).astype(DTYPES[dtype]) for n, d in ((T, 9), (1100, 9), (1100, E)))
    hidden = np.arange(1100) % 5 == 2
    case = Case(q, k, v, {"mask": ~hidden & (np.arange(1100) < 900)})
    check_forward(case, level)
    clean = [x.tobytes() for x in kernels.forward(case.problem(), level=level)]
    v[:, hidden] = np.nan
    assert [x.tobytes() for x in kernels.forward(case.problem(), level=level)] == clean


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("H", "G", "T", "S", "D"), [(2, 2, 1, 5000, 24), (4, 1, 3, 4100, 16), (1, 1, 2, 3000, 70), (2, 1, 9, 3000, 24)]
)
def test_few_queries_and_many_keys(level: str, dtype: str, H: int, G: int, T: int, S: int, D: int) -> None:
    rng = np.random.default_rng(S)
    q, k, v = (rng.normal(size=(1, h, n, D)).astype(DTYPES[dtype]) for h, n in ((H, T), (G, S), (G, S)))
    far = overt.window(200, 0)
    for options in (
        {},
        {"sinks": rng.normal(size=H).astype(q.dtype)},
        {"mask": far | overt.prefix(1)},
        {"mask": overt.padding(np.array([0]))},
        {"mask": overt.causal(), "bias": rng.normal(size=S).astype(np.float32), "softcap": 5.0},
        {"dropout": overt.dropout(0.5, 0), "score": overt.cosine(4.0)},
    ):
        case, results = Case(q, k, v, options), []
        check_forward(case, level)
        for threads in (1, 3):
            case.options["num_threads"] = threads
            results.append([x.tobytes() for x in kernels.forward(case.problem(), level=level)])
        assert results[0] == results[1]
    # What only one of the parts holds, and nobody may see.
    hidden = np.arange(S) % 1500 < 100
    outputs = []
    for poison in (0, np.nan):
        bad_k, bad_v = (np.where(hidden[:, None], np.array(poison, x.dtype), x) for x in (k, v))
        outputs.append(kernels.forward(Case(q, bad_k, bad_v, {"mask": ~hidden}).problem(), level=level)[0].tobytes())
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("S", [600, 2047, 4096])
@pytest.mark.parametrize("T", [1, 2, 30])
def test_nan_that_is_seen_shows_and_nan_without_weight_does_not(level: str, S: int, T: int) -> None:
    rng = np.random.default_rng(S)
    q, k, v = (rng.normal(size=(1, 2, n, 8)).astype(np.float32) for n in (T, S, S))
    late = np.arange(S) >= S - 100
    bad = k.copy()
    bad[:, :, S - 50] = np.nan
    for case in (Case(q * np.float32(np.nan), k, v, {"mask": late}), Case(q, bad, v, {"mask": late})):
        output, lse = kernels.forward(case.problem(), level=level)
        assert np.isnan(output).all()
        assert np.isnan(lse).all()
    # Hidden by a bias, by booleans, by a weight that underflows: in the first part, in the last, in the middle.
    for hole in (slice(0, S // 2), slice(S // 2, S), slice(S // 4, S // 2)):
        bad = v.copy()
        bad[:, :, hole] = np.nan
        hidden, clean = np.zeros(S, np.float32), np.where(np.isnan(bad), 0, v)
        for away in (-np.inf, -1e30):
            hidden[hole] = away
            outputs = [kernels.forward(Case(q, k, x, {"bias": hidden}).problem(), level=level)[0] for x in (clean, bad)]
            np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("S", [1, 2, 40, 3000])
def test_keys_that_are_read_where_they_lie(level: str, S: int) -> None:
    rng = np.random.default_rng(S)
    q, k, v = (rng.normal(size=(2, 3, n, 36)).astype(np.float32) for n in (1, S, S))
    for keys in (k, k[:, :, ::-1], np.broadcast_to(k[:, :, :1], k.shape), np.repeat(k, 2, axis=2)[:, :, ::2]):
        case = Case(q, keys, v)
        check_forward(case, level)
        check_statistics(case, level, 3, 1, 4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_statistics_come_along(level: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, h, n, 40)).astype(DTYPES[dtype]) for h, n in ((4, 101), (2, 1100), (2, 1100)))
    sinks = rng.normal(size=4).astype(DTYPES[dtype])
    hidden = k.copy()
    hidden[:, :, 1000:] = np.nan
    for options in (
        {},
        {"mask": overt.causal(), "sinks": sinks},
        {"mask": overt.window(40, 7), "softcap": 3.0},
        # Row by row, the maximum rises from block to block.
        {"bias": np.linspace(0, 300, 1100, dtype=np.float64 if dtype == "float64" else np.float32)},
    ):
        case = Case(q, k, v, options)
        assert kernels.attend(case.problem(), level=level)[2]
        check_statistics(case, level, 3, 1, 4)
    masked = {"mask": overt.padding(np.array([1000, 900]))}
    clean, dirty = (kernels.attend(Case(q, x, v, masked).problem(), level=level) for x in (k, hidden))
    assert clean[2]
    assert dirty[2]
    assert [x.tobytes() for x in clean[2]] == [x.tobytes() for x in dirty[2]]


@pytest.mark.parametrize("level", LEVELS)
def test_statistics_that_do_not_come_along(level: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 2, n, 16)).astype(np.float32) for n in (50, 70, 70))
    assert kernels.attend(Case(q[:, :, :3], k, v).problem(), level=level)[2] is None
    assert kernels.attend(Case(q, k, v, {"dropout": overt.dropout(0.1, 0)}).problem(), level=level)[2] is None
    # NaN belongs to the keys that a row sees, and a sum divided by NaN would spread it over all.
    q[0, 0, 7] = np.nan
    seen = overt.attend(q, k, v, mask=overt.causal())
    received, entropy = reference.statistics(seen.problem, seen.lse)
    np.testing.assert_array_equal(np.isnan(seen.received()), np.isnan(received))
    np.testing.assert_array_equal(np.isnan(seen.entropy()), np.isnan(entropy))
    assert np.isnan(seen.received()).any()
    assert not np.isnan(seen.received()).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("T", [1, 8, 24])
def test_weights_are_those_of_the_lse_that_forward_gave(level: str, T: int) -> None:
    rng = np.random.default_rng(T)
    q, k, v = (rng.normal(size=(1, h, n, 64)).astype(np.float32) for h, n in ((8, T), (2, 600), (2, 600)))
    case = Case(10 * q, k, v)
    lse = kernels.forward(case.problem(), level=level)[1]
    total = kernels.weights(case.problem(), lse, level=level).astype(np.float64).sum(axis=-1)
    np.testing.assert_allclose(total, 1, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_subnormal_numbers_are_flushed_inside_a_call_only(level: str) -> None:
    rng = np.random.default_rng(0)
    # Weights fall off over three hundred powers of two.
    q, k, v = (rng.normal(size=(1, 1, 70, 16)).astype(np.float32) * scale for scale in (100, 1, 1))
    check_forward(Case(q, k, v), level)
    assert np.all(np.full(64, 1e-39, np.float32) * np.float32(0.5) > 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("threads", [1, 2])
def test_subnormal_numbers_count_as_0_inside_a_call(level: str, threads: int) -> None:
    # Results: the mean of these values is subnormal, and they and their sum are not.
    q, k, v = (np.zeros((1, 64, n, 16), np.float32) for n in (70, 64, 64))
    v[:, :, ::2] = 1.3e-38
    case = Case(q, k, v, {"num_threads": threads})
    assert not kernels.forward(case.problem(), level=level)[0].any()
    # Operands: seventy of these slopes make a number that is not.
    output, lse = np.zeros_like(q), np.zeros(q.shape[:3], np.float32)
    gradient = kernels.gradient(case.problem(), output, lse, np.full_like(q, 1e-39), level=level)
    assert not any(x.any() for x in gradient[:3])
    case = Case(np.full_like(q, 1e-39), np.full_like(k[:, :, :1], 1e38), v[:, :, :1], {"num_threads": threads})
    assert not kernels.forward(case.problem(), level=level)[1].any()
    # Cells that NumPy computes, one by one.
    keys = np.full((1, 2, 16), 1e-39, np.float32)
    keys[:, 1] = 1e-37
    seen = overt.attend(np.ones_like(keys), keys, keys, score=overt.scaled_dot(1e36))
    np.testing.assert_allclose(seen.weights[[0, 0], [1, 1], [0, 1]], seen.weights[0, 1], rtol=1e-5)
    np.testing.assert_allclose(seen.weights[0, 1, 0], 1 / (1 + np.exp(1.6)), rtol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_subnormal_numbers_of_half_precision_are_numbers(level: str) -> None:
    # They are normal ones of float32.
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(1, 2, n, 16)).astype(np.float16) for n in (70, 64))
    v = (rng.integers(-1023, 1024, size=(1, 2, 64, 16)) * 2.0**-24).astype(np.float16)
    case = Case(q, k, v)
    output = kernels.forward(case.problem(), level=level)[0]
    expected = reference.forward(case.wide().problem())[0]
    np.testing.assert_allclose(output.astype(np.float64), expected, rtol=1e-5, atol=2.0**-24)
    assert output.any()
    case = Case(v[:, :, :1], np.full((1, 2, 1, 16), 6e4, np.float16), k[:, :, :1])
    lse = kernels.forward(case.problem(), level=level)[1]
    np.testing.assert_allclose(lse, reference.forward(case.wide().problem())[1], rtol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_keys_that_every_task_packs_for_itself(level: str, dtype: str) -> None:
    # Packed ahead of the tasks, all keys would take more than 16 MiB.
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(1, 1, n, 256)).astype(DTYPES[dtype]) for n in (100, 17_000))
    case, results = Case(q, k, rng.normal(size=(1, 1, 17_000, 9)).astype(DTYPES[dtype])), []
    for threads in (1, 2, 3):
        case.options["num_threads"] = threads
        output, lse = kernels.forward(case.problem(), level=level)
        results.append([output.tobytes(), lse.tobytes(), *(x.tobytes() for x in kernels.top(case.problem(), lse, 3))])
    assert results[0] == results[1] == results[2]
    check_forward(case, level)
    check_statistics(case, level, 3, 2, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_slice_of_the_weights_is_a_slice_of_all(dtype: str) -> None:
    # What chooses the level is the whole: lse is that of one, and the weights of another would not add up to 1.
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(h, n, 40)).astype(DTYPES[dtype]) for h, n in ((4, 100), (2, 600), (2, 600)))
    for options in ({}, {"mask": overt.where(lambda b, h, t, s: (s + t) % 7 > 0)}):
        seen = overt.attend(10 * q, k, v, **options)
        whole = np.asarray(seen.weights)
        for index in (
            np.s_[0, 3:6],
            np.s_[3, ::30, :31],
            np.s_[1:3, 50:54, 7:500:3],
            np.s_[2, -4:],
            np.s_[:, :, 599:],
        ):
            np.testing.assert_array_equal(seen.weights[index], whole[index])


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "base"])
def test_a_level_asks_for_everything_that_its_compiler_may_use(level: str) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ to ask")

    def macros(*flags: str) -> set[str]:
        command = [compiler, *flags, "-dM", "-E", "-x", "c++", os.devnull]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(re.findall(r"#define __((?!FP_FAST)\w+?)(?:__)? 1", done.stdout))

    flags = ["-march=x86-64-v4", "-mavx512bf16", "-mamx-tile", "-mamx-bf16"] if level == "amx" else []
    found = macros(*flags or [f"-march=x86-64-{level}"]) - macros("-march=x86-64")
    # What sse4.2 brings, what makes no instruction of its own, and what has another name.
    found -= {"CRC32", "EVEX512", "EVEX256", "GCC_HAVE_SYNC_COMPARE_AND_SWAP_16"}
    expected = {name.lower() for name in found} | {"cx16"}
    emulated = {"amx_bf16", "amx_tile"} - set(_native.features(level))
    assert set(_native.features(level)) == expected - emulated
