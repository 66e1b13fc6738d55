"""The gradient's kernel against the definition in float64, against torch, and against itself."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overt
from overt import kernels, reference
from overt.problem import Problem
from overt.scores import Additive
from strategies import DTYPES, Case, cases
from test_kernels import COARSE, LEVELS, TOLERANCE, poisoned, slack

__all__ = ["poisoned"]


def bounds(problem: Problem, dy: np.ndarray, dlse: np.ndarray | None = None) -> dict[str, float]:
    """Largest sum of magnitudes behind a number of each gradient: the scale on which rounding acts."""
    named = {step.name: step.array for step in reference.steps(problem)}
    w, q, k, v, dy = named["weights"], *(np.abs(named[x]) for x in ("query", "key", "value")), np.abs(dy)
    mixed = named.get("dropped", w)
    dw = dy @ v.swapaxes(-1, -2) * (1 if problem.dropout is None else 1 / (1 - problem.dropout.rate))
    delta = (w * dw).sum(axis=-1, keepdims=True) + (0 if dlse is None else np.abs(dlse)[..., None])
    dscores = w * (dw + delta)
    if isinstance(problem.score, Additive):
        return additive_bounds(problem, problem.score, dscores, q, k) | others(problem, dscores, delta, mixed, dy)
    left, right, scale = problem.score.factors(np, q, k)
    shrink = [np.ones(1), np.ones(1)]
    if isinstance(problem.score, type(overt.cosine())):
        shrink = [np.where(n > 0, n, 1.0) for n in (np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))]
    widen = 1.0
    if isinstance(problem.score, type(overt.bilinear(np.ones((1, 1))))):
        left = q @ np.abs(problem.score.weight)
        widen = np.abs(problem.score.weight).sum(axis=1).max(initial=1.0)
    found = {
        "q": widen * scale * (dscores @ np.abs(right)) / shrink[0],
        "k": problem.ungroup(scale * (dscores.swapaxes(-1, -2) @ np.abs(left)) / shrink[1]),
        "score.weight": (q.swapaxes(-1, -2) @ (dscores @ k)).sum(axis=(0, 1)),
    }
    return most(found) | others(problem, dscores, delta, mixed, dy)


def others(problem: Problem, dscores: np.ndarray, delta: np.ndarray, w: np.ndarray, dy: np.ndarray) -> dict[str, float]:
    """Bounds of what does not depend on the score."""
    found = {"v": problem.ungroup(w.swapaxes(-1, -2) @ dy), "sinks": delta.sum(axis=(0, 2, 3))}
    if problem.bias is not None:
        for i, term in enumerate(problem.bias.terms):
            found[f"bias {i}"] = term.zeros()
            term.pull(dscores, problem.cells, found[f"bias {i}"])
    return most(found)


def additive_bounds(
    problem: Problem, score: Additive, dscores: np.ndarray, q: np.ndarray, k: np.ndarray
) -> dict[str, float]:
    dquery, dkey = (dscores.sum(axis=axis)[..., None] * np.abs(score.v) for axis in (-1, -2))
    found = {
        "q": dquery @ np.abs(score.query_weight),
        "k": problem.ungroup(dkey @ np.abs(score.key_weight)),
        "score.query_weight": (dquery.swapaxes(-1, -2) @ q).sum(axis=(0, 1)),
        "score.key_weight": (dkey.swapaxes(-1, -2) @ k).sum(axis=(0, 1)),
        "score.bias": dquery.sum(axis=(0, 1, 2)),
        "score.v": dscores.sum(),
    }
    return most(found)


def most(found: dict[str, np.ndarray]) -> dict[str, float]:
    return {name: float(np.abs(x).max(initial=0)) for name, x in found.items()}


def check_gradient(case: Case, level: str, seed: int) -> None:
    problem, wide = case.problem(), case.wide().problem()
    rng = np.random.default_rng(seed)
    dy = rng.normal(size=(*problem.q.shape[:3], problem.v.shape[-1])).astype(case.q.dtype)
    dlse = None if seed % 2 else rng.normal(size=dy.shape[:3]).astype(problem.accumulate)
    output, lse = kernels.forward(problem, level=level)
    found = kernels.gradient(problem, output, lse, dy, dlse, level=level)
    expected = reference.gradient(wide, dy.astype(np.float64), dlse)
    scale, tolerance = bounds(wide, dy.astype(np.float64), dlse), 2 * TOLERANCE[case.q.dtype.name] * slack(case)
    assert (found.bias is None) == (problem.bias is None)
    assert (found.sinks is None) == (problem.sinks is None)
    gradients = [
        {name: getattr(each, name) for name in ("q", "k", "v", "sinks")}
        | {f"bias {i}": x for i, x in enumerate(each.bias if isinstance(each.bias, tuple) else [each.bias])}
        | {f"score.{name}": x for name, x in each.score.items()}
        for each in (found, expected)
    ]
    assert gradients[0].keys() == gradients[1].keys()
    for name, got in gradients[0].items():
        exact = gradients[1][name]
        if got is None:
            continue
        assert got.shape == exact.shape
        if name in "qkv":
            assert got.dtype == problem.accumulate
        error = np.abs(got - exact).max(initial=0)
        # Only v's gradient is without what the output lost by being rounded to a half type.
        allowed = 4e-6 * slack(case) + COARSE.get((level, case.q.dtype.name), 0.0) if name == "v" else tolerance
        assert error <= allowed * scale[name] + 1e-30, name


@pytest.mark.parametrize("level", LEVELS)
@given(case=cases(("float32", "float64")), seed=st.integers(0, 99), cells=st.sampled_from([1, 2**21]))
def test_gradient(level: str, case: Case, seed: int, cells: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # Slices of as few rows as there may be, or as many.
        patch.setattr("overt.kernels.calls._CELLS", cells)
        check_gradient(case, level, seed)


@pytest.mark.parametrize("level", LEVELS)
@given(case=cases(("float16", "bfloat16")), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_gradient_of_half_types(level: str, case: Case, seed: int) -> None:
    check_gradient(case, level, seed)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("B", "H", "G", "T", "S"), [(1, 8, 2, 70, 500), (2, 2, 2, 401, 3), (1, 1, 1, 500, 700)])
def test_many_blocks(level: str, dtype: str, B: int, H: int, G: int, T: int, S: int) -> None:
    rng = np.random.default_rng(T)
    q, k, v = (rng.normal(size=(B, h, n, 20)).astype(DTYPES[dtype]) for h, n in ((H, T), (G, S), (G, S)))
    for mask in (None, overt.causal(), overt.window(30, 2), overt.keep(rng.random((B, 1, T, S)) < 0.3)):
        check_gradient(Case(q, k, v, {"mask": mask, "sinks": rng.normal(size=H).astype(dtype)}), level, 0)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("B", "H", "G"), [(2, 4, 2), (1, 2, 1)])
def test_the_number_of_threads_changes_no_bit(level: str, dtype: str, B: int, H: int, G: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(B, h, n, 40)).astype(DTYPES[dtype]) for h, n in ((H, 301), (G, 700), (G, 700)))
    options = {"mask": overt.causal(), "bias": rng.normal(size=(H, 1, 700)).astype(q.dtype), "sinks": q[0, :, 0, 0]}
    case, dy, results = Case(q, k, v, options), rng.normal(size=q.shape).astype(q.dtype), []
    output, lse = kernels.forward(case.problem(), level=level)
    for threads in (1, 2, 5):
        case.options["num_threads"] = threads
        found = kernels.gradient(case.problem(), output, lse, dy, level=level)
        results.append([x.tobytes() for x in (*found, found.sinks)])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("level", LEVELS)
def test_the_number_of_threads_changes_no_bit_of_the_additive_score_and_dropout(level: str) -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(2, h, n, 20)).astype(np.float32) for h, n in ((4, 301), (2, 400), (2, 400)))
    score = overt.additive(rng.normal(size=(7, 20)), rng.normal(size=(7, 20)), rng.normal(size=7))
    case, results = Case(q, k, v, {"score": score, "dropout": overt.dropout(0.2, 3)}), []
    for threads in (1, 2, 5):
        case.options["num_threads"] = threads
        output, lse = kernels.forward(case.problem(), level=level)
        found = kernels.gradient(case.problem(), output, lse, q, level=level)
        results.append([x.tobytes() for x in (output, lse, *found[:3], *found.score.values())])
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize("size", [1, 30, 1e4])
def test_additive_terms_that_cancel(size: float) -> None:
    # tanh(q + k) of a large q and a k that nearly undoes it, near and beyond what float32 can raise e to.
    rng = np.random.default_rng(2)
    large = (size * rng.normal(size=(1, 1, 8))).astype(np.float32)
    q, k, v = large + rng.normal(size=(1, 40, 8)), rng.normal(size=(1, 50, 8)) - large, rng.normal(size=(1, 50, 3))
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    score = overt.additive(np.eye(8), np.eye(8), rng.normal(size=8))
    seen = overt.attend(q, k, v, score=score)
    wide = Case(q, k, v, {"score": score}).wide().problem()
    np.testing.assert_allclose(seen.output, reference.forward(wide)[0][0], rtol=2e-6, atol=2e-6)
    expected = reference.gradient(wide, seen.output[None].astype(np.float64))
    for got, exact in zip(seen.gradient(seen.output)[:3], expected[:3], strict=True):
        np.testing.assert_allclose(got, exact[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("score", [overt.scaled_dot(), overt.additive(np.eye(33), np.eye(33), np.ones(33))])
def test_what_stands_behind_a_mask_never_shows(level: str, score: Any) -> None:
    rng = np.random.default_rng(2)
    T, S = 230, 250
    q, k, v = (rng.normal(size=(2, n, 33)).astype(np.float32) for n in (T, S, S))
    dy = rng.normal(size=(2, T, 33)).astype(np.float32)
    # Every seventh key is hidden from all, every fifth query sees nothing.
    seen = np.tri(T, S, S - T, dtype=bool) & (np.arange(S) % 7 != 3) & (np.arange(T) % 5 != 2)[:, None]
    for mask in (overt.keep(seen), overt.where(lambda b, h, t, s: seen[t, s])):
        clean = overt.attend(q, k, v, mask=mask, score=score).gradient(dy)
        assert not clean.q[:, 2::5].any()
        assert not clean.k[:, 3::7].any()
        assert not clean.v[:, 3::7].any()
        for poison in (np.nan, np.inf, -np.inf):
            bad_q, bad_k, bad_v, bad_dy = q.copy(), k.copy(), v.copy(), dy.copy()
            bad_q[:, 2::5] = bad_k[:, 3::7] = bad_v[:, 3::7] = bad_dy[:, 2::5] = poison
            found = overt.attend(bad_q, bad_k, bad_v, mask=mask, score=score).gradient(bad_dy)
            for got, expected in zip(found[:3], clean[:3], strict=True):
                # Infinities make the additive score sum before it raises, which rounds differently.
                small = 4e-6 if isinstance(score, Additive) else 1e-7
                np.testing.assert_allclose(got, expected, rtol=1e-6, atol=small)


@pytest.mark.parametrize("which", ["q", "k", "v", "dy"])
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_what_can_be_seen_shows_where_it_is_seen_and_nowhere_else(which: str, poison: float) -> None:
    rng = np.random.default_rng(3)
    arrays = {name: rng.normal(size=(1, 300, 16)).astype(np.float32) for name in ("q", "k", "v", "dy")}
    # Two documents: what is wrong in one is no matter to the other.
    mask = overt.documents(np.repeat([0, 1], [143, 157]))

    def gradient() -> Any:
        return overt.attend(arrays["q"], arrays["k"], arrays["v"], mask=mask).gradient(arrays["dy"])

    clean = gradient()
    arrays[which][:, 200, 3] = poison
    found = gradient()
    for got, expected in zip(found[:3], clean[:3], strict=True):
        np.testing.assert_allclose(got[:, :143], expected[:, :143], rtol=1e-6, atol=1e-7)
    assert not np.isfinite(np.concatenate([x[:, 143:] for x in found[:3]])).all()


@pytest.mark.parametrize("level", LEVELS)
def test_rows_that_see_nothing_pull_nothing(level: str) -> None:
    rng = np.random.default_rng(4)
    q, k, v = (rng.normal(size=(2, 9, 8)).astype(np.float32) for _ in range(3))
    for options in ({}, {"sinks": np.array([0.0, -np.inf], np.float32)}):
        problem = Case(q, k, v, {"mask": overt.padding(np.array(0)), **options}).problem()
        output, lse = kernels.forward(problem, level=level)
        found = kernels.gradient(problem, output, lse, q[None], level=level)
        assert not any(x.any() for x in found[:3])
        assert found.sinks is None or not found.sinks.any()


@pytest.mark.parametrize("dropout", [None, overt.dropout(0.3, 1)])
def test_sinks_by_differences(dropout: Any) -> None:
    rng = np.random.default_rng(5)
    q, k, v, dy = (rng.normal(size=(2, 4, 6, 8)) for _ in range(4))
    sinks = rng.normal(size=4)

    def loss(sinks: np.ndarray) -> float:
        return float((overt.attend(q, k, v, sinks=sinks, mask=overt.causal(), **options).output * dy).sum())

    options = {} if dropout is None else {"dropout": dropout}
    found = overt.attend(q, k, v, sinks=sinks, mask=overt.causal(), **options).gradient(dy)
    steps = 1e-5 * np.eye(4)
    expected = [(loss(sinks + step) - loss(sinks - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(found.sinks, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(4, 300), (4, 1), (1, 300), (300,), ()])
def test_torch_agrees(causal: bool, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    q, k, v, dy = (rng.normal(size=(2, h, n, 24)) for h, n in ((4, 260), (2, 300), (2, 300), (4, 260)))
    bias = rng.normal(size=(*shape[:1], 1, *shape[1:]) if len(shape) == 2 else shape)
    leaves = [torch.from_numpy(x).requires_grad_() for x in (q, k, v, bias)]
    mask = torch.ones(260, 300, dtype=torch.bool).tril(40) if causal else torch.ones(260, 300, dtype=torch.bool)
    full = leaves[3].expand(2, 4, 260, 300).masked_fill(~mask, -torch.inf)
    y = torch.nn.functional.scaled_dot_product_attention(*leaves[:3], attn_mask=full, enable_gqa=True)
    expected = torch.autograd.grad(y, leaves, torch.from_numpy(dy))
    found = overt.attend(q, k, v, bias=bias, mask=overt.causal() if causal else None).gradient(dy)
    for got, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, exact.numpy(), rtol=1e-9, atol=1e-10)


def test_a_finer_dy_stays_fine() -> None:
    rng = np.random.default_rng(7)
    q, k, v, dy = (rng.normal(size=(1, 40, 16)).astype(np.float16) for _ in range(4))
    seen = overt.attend(q, k, v)
    # Below the smallest float16.
    tiny = 1e-9 * dy.astype(np.float32)
    for got, expected in zip(
        kernels.gradient(seen._problem, seen._output, seen._lse, tiny[None])[:3],
        kernels.gradient(seen._problem, seen._output, seen._lse, dy[None])[:3],
        strict=True,
    ):
        np.testing.assert_allclose(got, 1e-9 * expected, rtol=1e-4, atol=1e-13)


def test_a_gradient_is_four_arrays_and_the_sinks_beside_them() -> None:
    rng = np.random.default_rng(8)
    q = rng.normal(size=(2, 5, 4)).astype(np.float32)
    found = overt.attend(q, q, q, sinks=np.zeros(2, np.float32), bias=np.zeros((5, 5), np.float32)).gradient(q)
    dq, dk, dv, dbias = found
    assert dq.shape == dk.shape == dv.shape == q.shape
    assert dbias.shape == (5, 5)
    assert found.sinks.shape == (2,)
    assert found._fields == ("q", "k", "v", "bias")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).sinks, found.sinks)
    assert overt.attend(q, q, q).gradient(q).sinks is None


def test_strided_and_read_only_dy() -> None:
    rng = np.random.default_rng(9)
    q, k, v = (rng.normal(size=(2, 70, 8)).astype(np.float32) for _ in range(3))
    dy = rng.normal(size=(2, 70, 16)).astype(np.float32)
    seen = overt.attend(q, k, v)
    for strided in (
        dy[..., ::2],
        dy[:, ::-1, :8],
        np.broadcast_to(dy[:1, :1, :8], (2, 70, 8)),
        dy[:, :, :8].swapaxes(0, 0),
    ):
        plain = strided.copy()
        strided.flags.writeable = False
        for got, expected in zip(seen.gradient(strided)[:3], seen.gradient(plain)[:3], strict=True):
            np.testing.assert_array_equal(got, expected)


def test_nothing_to_sum_gives_zeros() -> None:
    q = np.zeros((0, 2, 5, 4), np.float32)
    score = overt.additive(np.eye(4), np.eye(4), np.ones(4))
    found = overt.attend(q, q, q, score=score, sinks=np.zeros(2, np.float32)).gradient(q)
    assert not found.sinks.any()
    assert not any(x.any() for x in found.score.values())


def test_infinities_that_nobody_sees_pull_nothing_from_the_additive_score() -> None:
    rng = np.random.default_rng(10)
    q, k, v = (rng.normal(size=(1, 4, 1)) for _ in range(3))
    q[0, 1], k[0, 2] = np.inf, -np.inf
    keep = np.ones((4, 4), bool)
    keep[1], keep[:, 2] = False, False
    found = overt.attend(
        q, k, v, mask=keep, score=overt.additive(np.ones((1, 1)), np.ones((1, 1)), np.ones(1))
    ).gradient(v)
    assert all(np.isfinite(x).all() for x in (*found[:3], *found.score.values()))


def test_a_visible_nan_shows_in_the_gradient_of_a_capped_score() -> None:
    rng = np.random.default_rng(11)
    q, k, v = (rng.normal(size=(1, 3, 4)) for _ in range(3))
    q[0, 1] = np.nan
    problem = Case(q, k, v, {"softcap": 5.0}).problem()
    for found in (reference.gradient(problem, v[None]), overt.attend(q, k, v, softcap=5.0).gradient(v)):
        assert np.isnan(np.asarray(found.q).reshape(3, 4)).any(axis=-1).tolist() == [False, True, False]
