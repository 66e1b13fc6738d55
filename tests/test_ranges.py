"""Scores of any finite size: every pass agrees with every other, and with the definition as far as rounding lets it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings

import overt
from overt import kernels, reference
from strategies import DTYPES, Case, large_cases
from test_kernels import LEVELS, poisoned

__all__ = ["poisoned"]

EPS = {name: float(np.finfo(np.float64 if name == "float64" else np.float32).eps) for name in DTYPES}
# What passes of one level may differ by; tiles raise weights of half types from products that are rounded once less.
AGREE = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-5, "bfloat16": 1e-5}
COARSE = {("amx", "bfloat16"): 2e-4, ("amx", "float16"): 5e-5}


def rounding(case: Case) -> np.ndarray:
    """How far the scores of each row (B, H, T, 1) may be off, for all the roundings on the way to them."""
    wide, unit = case.wide().problem(), 4 * EPS[case.q.dtype.name]
    q, k, scale = wide.score.factors(np, wide.q, wide.heads(wide.k))
    error = unit * np.abs(scale) * (np.abs(q) @ np.abs(k).swapaxes(-1, -2))
    if (cap := wide.softcap) is not None:
        # Terms may cancel before the cap, which hides no more of their error than what lies beyond it.
        product = scale * (q @ k.swapaxes(-1, -2))
        low, middle, high = (cap * np.tanh((product + side * error) / cap) for side in (-1, 0, 1))
        error = np.maximum(high - middle, middle - low) + unit * np.minimum(np.abs(product) + error, cap)
    if wide.bias is not None:
        error = error + unit * np.abs(wide.bias.at(wide.cells))
    scores = reference._scoring(wide)[-1].array
    visible = np.where(scores > -np.inf, np.broadcast_to(error, scores.shape), 0)
    return unit + visible.max(axis=-1, keepdims=True, initial=0)


def check(case: Case, level: str) -> None:
    problem, wide, name = case.problem(), case.wide().problem(), case.q.dtype.name
    off, agree = rounding(case), AGREE[name] + COARSE.get((level, name), 0)
    exact_lse = reference.forward(wide)[1]
    w64 = reference.weights(wide, exact_lse)
    # Beyond ½ a score may be any of its neighbours, and a weight anything from 0 to 1.
    bound = np.where(off > 0.5, 1 + agree, w64 * np.expm1(np.minimum(2 * off, 1)) + 2 * agree)

    output, lse, along = kernels.attend(problem, level=level)
    w = kernels.weights(problem, lse, level=level)
    assert np.all(np.abs(w - w64) <= bound)
    seen = lse > -np.inf
    assert np.array_equal(seen, exact_lse > -np.inf)
    assert np.isfinite(lse[seen]).all()
    if problem.sinks is None and w.shape[-1]:
        np.testing.assert_allclose(w.sum(axis=-1)[seen], 1, atol=4 * agree)

    total = w.astype(np.float64)
    rows = w.shape[-2]
    tolerance = {"rtol": agree, "atol": agree * rows}
    received, entropy = kernels.statistics(problem, lse, level=level)
    for found in (received, *([along[0]] if along else [])):
        np.testing.assert_allclose(found, total.sum(axis=-2), **tolerance)
    spread = -np.sum(total * np.log(np.where(total > 0, total, 1)), axis=-1)
    for found in (entropy, *([along[1]] if along else [])):
        np.testing.assert_allclose(found, spread, rtol=4 * agree, atol=20 * agree)
        assert np.all(found >= 0)
        assert not np.signbit(found).any()
    if 0 in w.shape:
        return
    every = [np.arange(n)[:, None] + [0, 1] for n in w.shape[-2:]]
    np.testing.assert_allclose(kernels.pooled(problem, lse, *every, "max", level=level), w, rtol=agree, atol=agree)
    heaviest = kernels.top(problem, lse, 1, level=level)[1][..., 0]
    np.testing.assert_allclose(heaviest, w.max(axis=-1), rtol=agree, atol=agree)
    mixed = total if problem.dropout is None else total * problem.dropout.factor(problem.cells)
    v = wide.heads(wide.v)
    half = {"float16": 2.0**-11, "bfloat16": 2.0**-7}.get(name, 0.0)
    # What is mixed are the forward's weights, and these may be others where scores are that large.
    bound = (agree + half) * (mixed @ np.abs(v)) + agree * np.abs(v).sum(axis=-2, keepdims=True)
    assert np.all(np.abs(output.astype(np.float64) - mixed @ v) <= bound + 1e-7)

    rng = np.random.default_rng(0)
    dy, dlse = rng.normal(size=output.shape), rng.normal(size=lse.shape)
    pulled = kernels.gradient(
        problem, output, lse, dy.astype(case.q.dtype), dlse.astype(problem.accumulate), level=level
    )
    expected = reference.gradient(wide, dy.astype(case.q.dtype).astype(np.float64), dlse)
    # A gradient may itself be beyond the range, and that of weights other than the definition's may be where its is
    # not.
    largest = max(np.abs(x.astype(float)).max(initial=0) for x in (case.q, case.k, np.ones(1)))
    steep = np.abs(wide.score.factors(np, wide.q, wide.heads(wide.k))[2]) * largest > 1e30
    for got, exact in zip((*pulled[:3], pulled.sinks), (*expected[:3], expected.sinks), strict=True):
        assert got is None or (steep and np.any(off > 0.5)) or np.isfinite(got[np.abs(exact) < 1e30]).all()
    # The gradient may come from another level, whose scores are rounded differently.
    dy = dy.astype(case.q.dtype).astype(np.float64)
    shift = np.where(off > 0.5, 1, np.expm1(np.minimum(4 * off, 1)) * w64 + 2 * agree)
    factor = 1 if problem.dropout is None else problem.dropout.factor(problem.cells)
    expected = wide.ungroup((w64 * factor).swapaxes(-1, -2) @ dy)
    allowed = wide.ungroup((shift * factor).swapaxes(-1, -2) @ np.abs(dy))
    assert np.all(np.abs(pulled.v - expected) <= allowed + 1e-6)


@pytest.mark.parametrize("level", LEVELS)
@given(case=large_cases(("float32", "float64")))
@settings(max_examples=60)
def test_every_pass_agrees(level: str, case: Case) -> None:
    check(case, level)


@pytest.mark.parametrize("level", LEVELS)
@given(case=large_cases(("float16", "bfloat16")))
@settings(max_examples=30)
def test_every_pass_agrees_on_half_types(level: str, case: Case) -> None:
    check(case, level)


@pytest.mark.parametrize("level", LEVELS)
def test_terms_may_cancel_before_a_softcap(level: str) -> None:
    """The sign of what is left is rounding's, and the cap makes it all of the score; the bound has to know that."""
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(1, 3, 64)), rng.normal(size=(1, 600, 64)), rng.normal(size=(1, 600, 8))
    k -= (k @ q[0, 0])[..., None] * q[0, 0] / (q[0, 0] @ q[0, 0])
    case = Case(*(x.astype(np.float32) for x in (q, k * 1e-17, v)))
    case.options = {"score": overt.scaled_dot(1e38), "softcap": 50.0}
    # The other two rows have nothing that cancels so far, and are held to 1e-3.
    assert (np.array([[1], [0], [0]]) == (rounding(case)[0, 0] > 1e-3)).all()
    check(case, level)


LARGEST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", [-LARGEST, LARGEST, -1e9, 1e30])
def test_a_row_of_one_large_number_is_even(level: str, number: float) -> None:
    """What libraries add to rows that see nothing: beside it single precision has no room for the scores."""
    q, k, v = (np.random.default_rng(0).normal(size=(1, 2, n, 16)).astype(np.float32) for n in (30, 50, 50))
    bias = np.zeros((30, 50), np.float32)
    bias[7] = number
    problem = Case(q, k, v, {"bias": bias}).problem()
    output, lse = kernels.forward(problem, level=level)
    w, received = kernels.weights(problem, lse, level=level), kernels.statistics(problem, lse, level=level)[0]
    expected = overt.attend(*(x.astype(np.float64) for x in (q, k, v)))
    even = np.arange(30) == 7
    np.testing.assert_allclose(w, np.where(even[:, None], 1 / 50, expected.weights), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        output, np.where(even[:, None], v.mean(axis=2, keepdims=True), expected.output), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(received, w.sum(axis=2), rtol=1e-5)
    assert np.isfinite(lse).all()
    pulled = kernels.gradient(problem, output, lse, np.ones_like(output), level=level)
    np.testing.assert_allclose(pulled.v, np.repeat(received[..., None], 16, axis=-1), rtol=1e-4)
    assert all(np.isfinite(x).all() for x in pulled[:2])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("scale", "of_q", "of_k"),
    [(1e34, 1.0, 1e-33), (1e38, 1e-18, 1e-19), (1e34, 1e-33, 1.0), (1e-35, 1e18, 1e18), (1e-35, 1e36, 1.0)],
)
def test_a_scale_far_from_1(level: str, scale: float, of_q: float, of_k: float) -> None:
    q, k, v = (np.random.default_rng(0).normal(size=(1, 2, n, 16)).astype(np.float32) for n in (30, 50, 50))
    near = np.float32(of_q) * q, np.float32(of_k) * k, v
    expected = overt.attend(*(x.astype(np.float64) for x in near), score=overt.scaled_dot(scale))
    for problem in (
        Case(*near, {"score": overt.scaled_dot(scale)}).problem(),
        Case(*near, {"score": overt.scaled_dot(scale), "mask": overt.keep(np.ones((30, 50), bool))}).problem(),
    ):
        output, lse = kernels.forward(problem, level=level)
        np.testing.assert_allclose(output, expected.output, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(lse, expected.lse, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(kernels.weights(problem, lse, level=level), expected.weights, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("T", [1, 3, 40])
def test_means_of_numbers_as_large_as_there_are(level: str, name: str, T: int) -> None:
    """Where a sum of values is beyond the range the mean is not, and small numbers beside it lose nothing."""
    rng = np.random.default_rng(0)
    dtype = DTYPES[name]
    most = float(ml_dtypes.finfo(dtype).max)
    for S in (1, 2, 700, 5000):
        q, k, v = (rng.normal(size=(2, n, 8)) for n in (T, S, S))
        # All of one sign, then of both, ordinary ones and small ones.
        v = np.clip(np.abs(v), 0.01, 1) / 1.0
        v[..., :2] = 1
        v[..., 4:6] *= np.sign(rng.normal(size=(2, S, 2)))
        v *= np.array([most, -most, most, most / 4, most, most, 1, 1e-20 if name != "float16" else 1])
        case = Case(*(x.astype(dtype) for x in (q, k, v)), {"sinks": np.array([-np.inf, 0], dtype)})
        hidden = {"mask": overt.keep(np.arange(S) < max(S - 3, 1))}
        garbled = case.v.copy()
        garbled[:, max(S - 3, 1) :] = np.nan
        for asked in (
            case,
            Case(case.q, case.k, case.v, {**case.options, **hidden}),
            Case(case.q, case.k, garbled, {**case.options, **hidden}),
        ):
            wide = Case(case.q, case.k, case.v, asked.options).wide().problem()
            exact_lse = reference.forward(wide)[1]
            # A sum of the largest numbers has room in no type but this one's.
            weights = reference.weights(wide, exact_lse).astype(np.longdouble)
            expected = weights @ wide.heads(wide.v).astype(np.longdouble)
            size = weights @ np.abs(wide.heads(wide.v)).astype(np.longdouble)
            for found in kernels.forward(asked.problem(), level=level), kernels.attend(asked.problem(), level=level):
                output = found[0].astype(np.longdouble)
                unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8 + 2.0**-8 * (level == "amx")}.get(name, 0)
                assert np.all(np.abs(output - expected) <= (unit + (1e-12 if name == "float64" else 4e-6)) * size), S


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_beyond_the_range_is_infinite(level: str) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(1, 2, n, 16)).astype(np.float32) for n in (30, 50, 50))
    v[..., 0], v[..., 1, 20, 1], v[..., 1, 20, 2] = LARGEST, np.inf, np.nan
    # What is kept weighs 50 times as much.
    found = kernels.forward(Case(q, k, v, {"dropout": overt.dropout(0.98, 1)}).problem(), level=level)[0]
    assert np.isinf(found[..., 0]).any()
    seen = kernels.forward(Case(q, k, v).problem(), level=level)[0]
    assert np.isnan(seen[:, 1, :, 2]).all()
    assert (seen[:, 1, :, 1] == np.inf).all()
    assert np.isfinite(np.delete(seen, [1, 2], axis=-1)).all()
    assert (seen[..., 0] >= np.float32(LARGEST * (1 - 1e-6))).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("cap", [None, 1e-30, 50.0, 1e30])
def test_an_additive_score_of_any_size(level: str, name: str, cap: float | None) -> None:
    """Finite scores of numbers so large that their terms, multiplied by what they are divided by, are not."""
    rng = np.random.default_rng(0)
    dtype = DTYPES[name]
    room = 1e307 if name == "float64" else 1e38
    for size in (1.0, 1e17, 1e19, 1e25, room):
        for large, A in ((1, 1), (1, 9), (8, 2), (8, 33)):
            weights = [(large * rng.normal(size=(A, 16)) / 4).astype(dtype) for _ in range(2)]
            terms = rng.normal(size=A)
            terms = (size * terms / np.abs(terms).sum()).astype(dtype)
            q, k, v = (rng.normal(size=(1, 2, n, 16)).astype(dtype) for n in (30, 50, 50))
            case = Case(q, k, v, {"score": overt.additive(*weights, terms), "softcap": cap})
            problem, wide = case.problem(), case.wide().problem()
            output, lse = kernels.forward(problem, level=level)
            exact = reference.forward(wide)[1]
            unit = 1e-13 if name == "float64" else 1e-5
            np.testing.assert_allclose(lse, exact, rtol=unit, atol=unit * np.abs(exact).max())
            assert np.isfinite(output).all()
            w = kernels.weights(problem, lse, level=level)
            agree = AGREE[name] + 2.0**-8 * (name == "bfloat16")
            np.testing.assert_allclose(w.sum(axis=-1), 1, atol=AGREE[name])
            np.testing.assert_allclose(output.astype(float), w @ case.v.astype(float), rtol=agree, atol=10 * agree)
            pulled = kernels.gradient(problem, output, lse, np.ones_like(output), level=level)
            assert all(np.isfinite(x).all() for x in (*pulled[:3], *pulled.score.values()))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [1e2, 1e5, 1e20, 1e30])
def test_large_terms_times_small_ones_are_ordinary_scores(level: str, size: float) -> None:
    """As right as the definition in single precision, which knows no 1 − 2r."""
    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=(6, 16)) / size).astype(np.float32) for _ in range(2)]
    terms = (size * rng.normal(size=6)).astype(np.float32)
    q, k, v = (rng.normal(size=(1, 2, n, 16)).astype(np.float32) for n in (30, 50, 50))
    case = Case(q, k, v, {"score": overt.additive(*weights, terms)})
    problem, wide = case.problem(), case.wide().problem()
    output, lse = kernels.forward(problem, level=level)
    exact_output, exact_lse = reference.forward(wide)
    off = 1e-4 if size < 1e3 else 5e-6
    np.testing.assert_allclose(lse, exact_lse, rtol=off, atol=off)
    np.testing.assert_allclose(output, exact_output, rtol=10 * off, atol=10 * off)
    dy = rng.normal(size=output.shape)
    found = kernels.gradient(problem, output, lse, dy.astype(np.float32), level=level)
    expected = reference.gradient(wide, dy)
    # Those of q and k all but cancel, for one slope is as good as another.
    pairs = (*found[:3], found.score["v"]), (*expected[:3], expected.score["v"])
    for got, exact, least in zip(*pairs, [1, 1, 0, 0], strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4 * max(np.abs(exact).max(), least))
