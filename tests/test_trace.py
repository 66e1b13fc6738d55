"""Every step of the definition, in order, against plain NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import overt
from overt.errors import ArgumentError, DtypeError


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


H, G, T, S, D, E = 4, 2, 3, 5, 6, 2
Q, K, V = normal(H, T, D), normal(G, S, D, seed=1), normal(G, S, E, seed=2)
KS, VS = np.repeat(K, H // G, axis=0), np.repeat(V, H // G, axis=0)
W = normal(D, D, seed=3)
WQ, WK, A, AB = normal(7, D, seed=4), normal(7, D, seed=5), normal(7, seed=6), normal(7, seed=7)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


HIDDEN = np.tanh((Q @ WQ.T + AB)[:, :, None] + (KS @ WK.T)[:, None])
SCORES: dict[str, tuple[Any, dict[str, np.ndarray]]] = {
    "scaled_dot": (overt.scaled_dot(), {"scores": Q @ KS.mT, "scaled": Q @ KS.mT / np.sqrt(D)}),
    "scaled_dot of 2": (overt.scaled_dot(2), {"scores": Q @ KS.mT, "scaled": 2 * (Q @ KS.mT)}),
    "dot": (overt.dot(), {"scores": Q @ KS.mT}),
    "cosine": (
        overt.cosine(),
        {"unit query": unit(Q), "unit key": unit(KS), "scores": unit(Q) @ unit(KS).mT},
    ),
    "cosine of 3": (
        overt.cosine(3.0),
        {
            "unit query": unit(Q),
            "unit key": unit(KS),
            "scores": unit(Q) @ unit(KS).mT,
            "scaled": 3 * (unit(Q) @ unit(KS).mT),
        },
    ),
    "bilinear": (overt.bilinear(W), {"projected query": Q @ W, "scores": Q @ W @ KS.mT}),
    "additive": (
        overt.additive(WQ, WK, A, AB),
        {
            "projected query": Q @ WQ.T + AB,
            "projected key": KS @ WK.T,
            "hidden": HIDDEN,
            "scores": HIDDEN @ A,
        },
    ),
}


@pytest.mark.parametrize("asked", ["", "softcap bias", "mask", "sinks", "dropout", "softcap bias mask sinks dropout"])
@pytest.mark.parametrize("name", SCORES)
def test_every_step(name: str, asked: str) -> None:
    score, steps = SCORES[name]
    options: dict[str, Any] = {"score": score}
    expected = {"query": Q, "key": KS, **steps}
    x = list(steps.values())[-1]
    if "softcap" in asked:
        options["softcap"] = 1.5
        x = expected["capped"] = 1.5 * np.tanh(x / 1.5)
    if "bias" in asked:
        options["bias"] = normal(T, S)
        x = expected["biased"] = x + normal(T, S)
    if "mask" in asked:
        options["mask"] = overt.causal(offset=0)
        x = expected["masked"] = np.where(np.tri(T, S, dtype=bool), x, -np.inf)
    powers, total = np.exp(x), np.exp(x).sum(axis=-1)
    if "sinks" in asked:
        options["sinks"] = normal(H)
        total = total + np.exp(normal(H))[:, None]
    expected["lse"] = np.log(total)
    w = expected["weights"] = powers / total[..., None]
    if "dropout" in asked:
        options["dropout"] = overt.dropout(0.5, 3)
        shares = overt.trace(Q, K, V, **options)["dropped"] / np.where(w > 0, w, 1)
        assert np.all(np.isclose(shares, 0) | np.isclose(shares, 2))
        w = expected["dropped"] = w * np.round(shares)
    expected["value"] = VS
    expected["output"] = w @ VS

    got = overt.trace(Q, K, V, **options)
    assert got.names == tuple(expected)
    for step, (key, array) in zip(got, expected.items(), strict=True):
        assert step.name == key
        assert step.array.shape == array.shape
        assert len(step.axes.split()) + 1 == array.ndim
        np.testing.assert_allclose(step.array, array, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(got[key], step.array)
        assert got.step(key) is step
        finite = array[np.isfinite(array)]
        np.testing.assert_allclose(step.mean, finite.mean(), atol=1e-12)
        np.testing.assert_allclose(step.variance, finite.var(), atol=1e-12)
    seen = overt.attend(Q, K, V, **options)
    np.testing.assert_allclose(got["output"], seen.output, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got["weights"], seen.weights[...], rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    ("lead", "shape"), [((), (T, S)), ((H,), (H, T, S)), ((2, H), (2, H, T, S)), ((2, 1, H), None)]
)
def test_steps_have_the_axes_of_the_arrays(lead: tuple[int, ...], shape: Any) -> None:
    q, k, v = normal(*lead, T, D), normal(*lead, S, D), normal(*lead, S, E)
    steps = overt.trace(q, k, v, mask=overt.causal())
    sizes = {"T": T, "S": S, "D": D, "E": E}
    for step in steps:
        assert step.array.shape == (*lead, *(sizes[axis] for axis in step.axes.split()))
    assert shape is None or steps["weights"].shape == shape


def test_a_trace_is_a_sequence_and_a_mapping() -> None:
    steps = overt.trace(Q, K, V)
    assert len(steps) == len(steps.names) == 8
    assert [step.name for step in steps] == list(steps.names)
    assert steps[0].name == "query"
    assert steps[-1].name == "output"
    assert [step.name for step in steps[1:3]] == ["key", "scores"]
    assert "weights" in steps
    assert "nothing" not in steps
    assert steps[0] in steps
    assert next(reversed(steps)) is steps[-1]
    with pytest.raises(IndexError):
        steps[8]


def test_an_unknown_step_names_those_that_there_are() -> None:
    steps = overt.trace(Q, K, V)
    for ask in (lambda: steps["masked"], lambda: steps.step("masked")):
        with pytest.raises(
            KeyError, match=r"no step 'masked'.*query, key, scores, scaled, lse, weights, value, output"
        ):
            ask()


def test_lse_of_nothing_has_no_mean_but_raises_nothing() -> None:
    steps = overt.trace(Q, K, V, mask=overt.padding(0))
    assert np.isnan(steps.step("lse").mean)
    assert np.isnan(steps.step("masked").variance)
    assert steps.step("output").variance == 0
    assert str(steps)
    assert steps._repr_html_()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_steps_are_at_least_float32(dtype: Any) -> None:
    steps = overt.trace(*(x.astype(dtype) for x in (Q, K, V)), mask=overt.causal())
    wide = np.float64 if dtype == np.float64 else np.float32
    assert {step.array.dtype for step in steps} == {np.dtype(wide)}
    assert str(steps)


def test_str_shows_each_step_in_a_line_and_small_arrays_whole() -> None:
    q, k, v = np.array([[1.0, 0]]), np.array([[1.0, 0], [0, 1]]), np.array([[0.25], [8.5]])
    text = str(overt.trace(q, k, v, score=overt.dot()))
    lines = text.splitlines()
    assert lines[0].split() == ["step", "formula", "axes", "shape", "mean", "variance"]
    assert [line.split()[0] for line in lines if not line.startswith(" ")][1:] == [
        "query", "key", "scores", "lse", "weights", "value", "output",
    ]  # fmt: skip
    # e / (e + 1), and its share of the values.
    assert "0.7311" in text
    assert "8.5" in text
    assert "2.4688" in text
    assert all(line == line.rstrip() for line in lines)
    large = overt.trace(*(normal(1, 50, 4) for _ in range(3)))
    # Of the arrays only lse is small: 50 numbers.
    assert sum(not line.startswith(" ") for line in str(large).splitlines()) == 1 + len(large)
    assert len(str(large)) < 2000
    assert repr(large) == "Trace(query, key, scores, scaled, lse, weights, value, output): print it to read the steps"
    assert "1 × 50 × 50" in str(large)


def test_html_is_a_table_in_which_everything_is_escaped() -> None:
    class Odd(overt.scores.Product):
        def steps(self, xp: Any, q: Any, k: Any) -> Any:
            yield "<scores>", "a < b & c", "T S", xp.matmul(q, k.mT)

    html = overt.trace(Q, K, V, score=Odd(1.0))._repr_html_()
    assert "&lt;scores&gt;" in html
    assert "a &lt; b &amp; c" in html
    assert "<scores>" not in html
    assert html.startswith("<table>")
    assert html.endswith("</table>")
    assert html.count("<tr>") == html.count("</tr>") == 1 + 7
    # Nothing from the network, nothing that runs.
    assert "http" not in html
    assert "<script" not in html
    large = overt.trace(*(normal(1, 50, 4) for _ in range(3)))._repr_html_()
    assert len(large) < 5000


def test_a_trace_of_tensors() -> None:
    tensors = [torch.from_numpy(x).requires_grad_() for x in (Q, K, V)]
    steps, expected = overt.trace(*tensors, mask=overt.causal()), overt.trace(Q, K, V, mask=overt.causal())
    assert steps.names == expected.names
    for step, other in zip(steps, expected, strict=True):
        assert isinstance(step.array, torch.Tensor)
        np.testing.assert_allclose(step.array.detach(), other.array)
        np.testing.assert_allclose(step.variance, other.variance)
    assert str(steps)
    assert steps._repr_html_()


def test_a_trace_checks_as_attention_does() -> None:
    with pytest.raises(DtypeError, match="bias="):
        overt.trace(Q, K, V, mask=np.zeros((T, S)))


@pytest.mark.parametrize("given", [(), ("q",), (Q, K)])
def test_what_is_no_attention_and_cannot_be_called_is_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match="takes q, k and v, or what can be called"):
        overt.trace(*given)


def product(left: str, right: str, at: dict[str, np.ndarray]) -> np.ndarray:
    return at[left.strip("()")] @ np.swapaxes(at[right.strip("()")], -1, -2)


LITERALLY: list[tuple[str, Callable[..., np.ndarray]]] = [
    (r"(q|k|v)", lambda at, x: at[x]),
    (r"(q|k) / ‖\1‖", lambda at, x: at[x] / np.sqrt((at[x] ** 2).sum(-1, keepdims=True))),
    (r"q W", lambda at: at["q"] @ at["W"]),
    (r"(q|k) (W_.)ᵀ", lambda at, x, w: at[x] @ at[w].T),
    (r"q W_qᵀ \+ b", lambda at: at["q"] @ at["W_q"].T + at["b"]),
    (r"tanh\((.+) \+ (.+)\)", lambda at, x, y: np.tanh(at[x][..., :, None, :] + at[y][..., None, :, :])),
    (r"hidden · v_a", lambda at: at["hidden"] @ at["v_a"]),
    (r"(q|\(.+\)) (k|\(.+\))ᵀ", lambda at, x, y: product(x, y, at)),
    (r"(\w+) / √(\d+)", lambda at, x, n: at[x] / np.sqrt(int(n))),
    (r"(\w+) · ([\d.]+)", lambda at, x, n: at[x] * float(n)),
    (r"([\d.]+) tanh\((\w+) / \1\)", lambda at, n, x: float(n) * np.tanh(at[x] / float(n))),
    (r"(\w+) \+ bias", lambda at, x: at[x] + at["bias"]),
    (r"(\w+), −∞ where the mask is False", lambda at, x: np.where(at["mask"], at[x], -np.inf)),
    (r"log Σ exp\((\w+)\)", lambda at, x: np.log(np.exp(at[x]).sum(-1))),
    (
        r"log\(exp\(sink\) \+ Σ exp\((\w+)\)\)",
        lambda at, x: np.log(np.exp(at["sink"])[:, None] + np.exp(at[x]).sum(-1)),
    ),
    (r"softmax\((\w+)(, sink)?\) = exp\(\1 − lse\)", lambda at, x, _: np.exp(at[x] - at["lse"][..., None])),
    (r"(\w+) v", lambda at, x: at[x] @ at["v"]),
]


@pytest.mark.parametrize("asked", ["", "softcap bias", "mask", "sinks", "softcap bias mask sinks"])
@pytest.mark.parametrize("name", SCORES)
def test_formulas_read_literally_give_their_numbers(name: str, asked: str) -> None:
    given = {"q": Q, "k": KS, "v": VS, "W": W, "W_q": WQ, "W_k": WK, "b": AB, "v_a": A}
    given |= {"bias": normal(T, S), "mask": np.tri(T, S, dtype=bool), "sink": normal(H)}
    options = {"softcap": 1.5, "bias": given["bias"], "mask": overt.causal(offset=0), "sinks": given["sink"]}
    steps = overt.trace(Q, K, V, score=SCORES[name][0], **{key: options[key] for key in asked.split()})
    # A step knows what was given, and the steps above it.
    at = dict(given)
    for step in steps:
        (found,) = [(made, match) for form, made in LITERALLY if (match := re.fullmatch(form, step.formula))]
        made, match = found
        np.testing.assert_allclose(made(at, *match.groups()), step.array, rtol=1e-9, atol=1e-12)
        at[step.name] = step.array


def test_an_additive_score_without_a_bias_names_none() -> None:
    steps = overt.trace(Q, K, V, score=overt.additive(WQ, WK, A))
    assert steps.step("projected query").formula == "q W_qᵀ"
    np.testing.assert_allclose(steps["projected query"], Q @ WQ.T)


@pytest.mark.parametrize(
    ("function", "gave"),
    [
        (lambda q, k: None, "None"),
        (lambda q, k: 5, "an object of type int"),
        (lambda q, k: q, "an object of type"),
        (lambda q, k: (q, k), "an object of type tuple"),
        (lambda q, k: len(q), "an object of type int"),
    ],
)
@pytest.mark.parametrize("lists", [False, True])
def test_a_function_that_computes_nothing_is_told_so(function: Any, gave: str, lists: bool) -> None:
    q = np.ones((2, 4, 3))
    given = [q.tolist()] * 2 if lists else [q] * 2
    message = f"returned {gave}.* and did nothing with arrays that could be seen: let it compute something"
    with pytest.raises(ArgumentError, match=message):
        overt.trace(function, *given)


def test_a_function_that_lists_do_not_know_is_told_of_arrays() -> None:
    with pytest.raises(ArgumentError, match="returned an object of type int and did nothing"):
        overt.trace(lambda q, k: q.shape[0], np.ones((2, 3)), np.ones((2, 3)))
