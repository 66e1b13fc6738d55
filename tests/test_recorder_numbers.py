"""Loops over numbers, as lists of lists, whose operations are lifted to operations on arrays."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest

import overt
from overt.check.steps.judged import Judged
from overt.check.steps.judging import judge
from overt.errors import ArgumentError
from overt.recorder import Operation, record_operations
from overt.recorder.lifting import lifted

Row = list[Any]
Rows = list[Row]


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    return [np.random.default_rng(n).normal(size=shape) for n, shape in enumerate(shapes)]


def lists(x: Any) -> Any:
    return x if x.ndim == 0 else [lists(y) for y in x]


def recorded(code: Callable[..., Any], *arrays: np.ndarray) -> tuple[np.ndarray, list[Operation]]:
    return record_operations(lambda *given: np.array(code(*[lists(x) for x in given])), *arrays)


def judged_of(code: Callable[..., Any], *arrays: np.ndarray) -> Judged:
    out, operations = recorded(code, *arrays)
    return judge(operations, [np.asarray(out)])


def dot(a: Row, b: Row) -> Any:
    return sum(x * y for x, y in zip(a, b, strict=False))


def softmax(row: Row) -> Row:
    top = max(row)
    powers = [math.exp(x - top) for x in row]
    total = sum(powers)
    return [x / total for x in powers]


def bare_softmax(row: Row) -> Row:
    powers = [exp(float(x)) for x in row]
    return [x / sum(powers) for x in powers]


def mixed(weights: Row, values: Rows) -> Row:
    return [sum(w * v[j] for w, v in zip(weights, values, strict=False)) for j in range(len(values[0]))]


def mapped(xs: Rows, matrix: Rows) -> Rows:
    return [[sum(x * w for x, w in zip(one, row, strict=True)) for row in matrix] for one in xs]


def single(query: Row, keys: Rows, values: Rows) -> Row:
    return mixed(softmax([dot(query, key) / sqrt(len(query)) for key in keys]), values)


def crossed(queries: Rows, keys: Rows, values: Rows) -> Rows:
    out = []
    for query in queries:
        scores = []
        for key in keys:
            total = 0.0
            for a, b in zip(query, key, strict=True):
                total += a * b
            scores.append(total / math.sqrt(len(query)))
        out.append(mixed(softmax(scores), values))
    return out


def without_max(queries: Rows, keys: Rows, values: Rows) -> Rows:
    return [mixed(bare_softmax([dot(q, k) / sqrt(len(q)) for k in keys]), values) for q in queries]


def self_attention(xs: Rows, wq: Rows, wk: Rows, wv: Rows) -> Rows:
    qs, ks, vs = mapped(xs, wq), mapped(xs, wk), mapped(xs, wv)
    return [mixed(softmax([dot(q, k) / math.sqrt(len(q)) for k in ks]), vs) for q in qs]


def causal(qs: Rows, ks: Rows, vs: Rows) -> Rows:
    return [mixed(softmax([dot(q, k) / math.sqrt(len(q)) for k in ks[: t + 1]]), vs[: t + 1]) for t, q in enumerate(qs)]


def ahead(qs: Rows, ks: Rows, vs: Rows) -> Rows:
    out = []
    for t, q in enumerate(qs):
        scores = [dot(q, k) / math.sqrt(len(q)) for k in ks[: t + 2]]
        out.append(mixed(softmax(scores), vs[: t + 2]))
    return out


def hidden(qs: Rows, ks: Rows, vs: Rows) -> Rows:
    out = []
    for t, q in enumerate(qs):
        scores = [dot(q, k) / math.sqrt(len(q)) if s <= t else float("-inf") for s, k in enumerate(ks)]
        out.append(mixed(softmax(scores), vs))
    return out


def heads(xs: Rows, wq: Rows, wk: Rows, wv: Rows, wo: Rows) -> Rows:
    qs, ks, vs = mapped(xs, wq), mapped(xs, wk), mapped(xs, wv)
    width, joined = len(wq) // 2, []
    for q in qs:
        row: Row = []
        for h in range(2):
            part = slice(h * width, (h + 1) * width)
            scores = [dot(q[part], k[part]) / math.sqrt(width) for k in ks]
            row += mixed(softmax(scores), [v[part] for v in vs])
        joined.append(row)
    return mapped(joined, wo)


def later(queries: Rows, keys: Rows, values: Rows) -> Rows:
    out = []
    for q in queries:
        scores = [dot(q, k) / math.sqrt(len(q)) for k in keys]
        top = max(scores)
        powers = [math.exp(s - top) for s in scores]
        total = math.fsum(powers)
        out.append([x / total for x in mixed(powers, values)])
    return out


def cached(xs: Rows, wq: Rows, wk: Rows, wv: Rows) -> Rows:
    keys: Rows = []
    values: Rows = []
    out = []
    for x in xs:
        (q,), (k,), (v,) = mapped([x], wq), mapped([x], wk), mapped([x], wv)
        keys.append(k)
        values.append(v)
        out.append(mixed(softmax([dot(q, key) / math.sqrt(len(q)) for key in keys]), values))
    return out


def additive(queries: Rows, keys: Rows, wq: Rows, wk: Rows, v: Row) -> Rows:
    asked, held = mapped(queries, wq), mapped(keys, wk)
    out = []
    for q in asked:
        scores = [sum(w * math.tanh(a + b) for w, a, b in zip(v, q, k, strict=True)) for k in held]
        out.append(mixed(softmax(scores), keys))
    return out


EDGES = [(s % 5, t) for t in range(5) for s in (t, t + 1, t + 3)]


def over_edges(xs: Rows, w: Rows, one: Row, two: Row) -> Rows:
    hs = mapped(xs, w)
    asks, asked = [dot(h, one) for h in hs], [dot(h, two) for h in hs]
    scores, top, total = [], dict[int, Any](), dict[int, Any]()
    for s, t in EDGES:
        score = asks[t] + asked[s]
        score = score if score > 0 else 0.2 * score
        scores.append(score)
        top[t] = max(top.get(t, -math.inf), score)
    powers = [math.exp(x - top[t]) for x, (_, t) in zip(scores, EDGES, strict=True)]
    for x, (_, t) in zip(powers, EDGES, strict=True):
        total[t] = total.get(t, 0.0) + x
    out = [[0.0] * len(hs[0]) for _ in hs]
    for x, (s, t) in zip(powers, EDGES, strict=True):
        for j in range(len(hs[0])):
            out[t][j] += x / total[t] * hs[s][j]
    return out


def unscaled(queries: Rows, keys: Rows, values: Rows) -> Rows:
    return [mixed(softmax([dot(q, k) for k in keys]), values) for q in queries]


def by_width(queries: Rows, keys: Rows, values: Rows) -> Rows:
    out = []
    for q in queries:
        scores = [dot(q, k) / len(q) for k in keys]
        out.append(mixed(softmax(scores), values))
    return out


def by_columns(queries: Rows, keys: Rows, values: Rows) -> Rows:
    scores = [[dot(q, k) / math.sqrt(len(q)) for k in keys] for q in queries]
    columns = [softmax([row[j] for row in scores]) for j in range(len(keys))]
    return [mixed([column[i] for column in columns], values) for i in range(len(queries))]


def by_first(queries: Rows, keys: Rows, values: Rows) -> Rows:
    scores = [[dot(q, k) / math.sqrt(len(q)) for k in keys] for q in queries]
    top = max(max(row) for row in scores)
    powers = [[math.exp(s - top) for s in row] for row in scores]
    return [mixed([x / sum(row) for x in row], values) for row in powers]


CROSSED = drawn((3, 4), (5, 4), (5, 6))
SELF = drawn((5, 4), (6, 4), (6, 4), (3, 4))
RIGHT: dict[Callable[..., Any], list[np.ndarray]] = {
    single: drawn((4,), (5, 4), (5, 6)),
    crossed: CROSSED,
    self_attention: SELF,
    causal: drawn((5, 4), (5, 4), (5, 6)),
    hidden: drawn((5, 4), (5, 4), (5, 6)),
    heads: drawn((5, 4), (6, 4), (6, 4), (6, 4), (4, 6)),
    later: CROSSED,
    cached: SELF,
    additive: drawn((3, 4), (5, 6), (7, 4), (7, 6), (7,)),
    over_edges: drawn((5, 4), (6, 4), (6,), (6,)),
}
WRONG: dict[Callable[..., Any], tuple[str, str]] = {
    unscaled: ("scale_missing", "x * y for x, y"),
    by_width: ("scale_d", "/ len(q)"),
    without_max: ("no_max", "[exp(float(x))"),
    by_columns: ("softmax_axis_q", "total = sum(powers)"),
    by_first: ("global_max", "s - top"),
}


@pytest.mark.parametrize("code", RIGHT, ids=lambda code: code.__name__)
def test_attention_of_lists_is_right(code: Callable[..., Any]) -> None:
    judged = judged_of(code, *RIGHT[code])
    assert judged.cores == 1
    assert not judged.faults
    assert {"softmax", "mixing"} <= {entry.step for entry in judged.ledger if entry.outcome == "held"}


@pytest.mark.parametrize("code", WRONG, ids=lambda code: code.__name__)
def test_mistakes_in_loops_are_found_at_their_lines(code: Callable[..., Any]) -> None:
    judged = judged_of(code, *CROSSED)
    assert judged.cores == 1
    assert [fault.mistake for fault in judged.faults] == [WRONG[code][0]]
    line = judged.faults[0].line
    assert line is not None
    assert WRONG[code][1] in inspect.getsource(inspect.getmodule(code) or code).splitlines()[line - 1]


def test_what_loops_hide_is_judged() -> None:
    arrays = drawn((5, 4), (5, 4), (5, 6))
    right = judged_of(causal, *arrays)
    assert right.facts["causal"] == 0
    (fault,) = judged_of(ahead, *arrays).faults
    assert fault.mistake == "causal_off_by_one"


@pytest.mark.parametrize("code", [*RIGHT, *WRONG], ids=lambda code: code.__name__)
def test_lifted_numbers_are_those_that_were_computed(code: Callable[..., Any]) -> None:
    out, operations = recorded(code, *RIGHT.get(code, CROSSED))
    made = lifted(operations)
    assert made is not None
    written, before = made
    assert len(written) == len(before) < min(60, len(operations))
    np.testing.assert_array_equal(written[-1].host, np.asarray(out))
    for number, (operation, old) in enumerate(zip(written, before, strict=True)):
        assert 0 <= old < len(operations)
        for x, source in zip(operation.operands, operation.sources, strict=True):
            if source is not None:
                assert source < number
                np.testing.assert_array_equal(x, written[source].host)
        again = _again(operation)
        if again is not None:
            np.testing.assert_allclose(operation.host, again.reshape(operation.host.shape), rtol=1e-12, atol=1e-15)


def _again(operation: Operation) -> np.ndarray | None:
    """An operation once more, of its operands."""
    one, *others = operation.operands
    if operation.name == "einsum":
        return np.asarray(np.einsum(operation.detail, one, *others))
    if operation.name in ("sum", "max"):
        shape = [1] * (one.ndim - operation.host.ndim) + [*operation.host.shape]
        axes = [tuple(a for a, n in enumerate(one.shape) if a == i) for i in range(one.ndim)]
        found = [getattr(one, operation.name)(a) for a in (*axes, None)]
        return next((x for x in found if x.size == operation.host.size and np.allclose(
            x.ravel(), operation.host.ravel(), rtol=1e-12)), one * np.nan if shape else None)  # fmt: skip
    if operation.name in ("exp", "tanh") or (others and operation.name in ("add", "subtract", "multiply", "divide")):
        return np.asarray(getattr(np, operation.name)(one, *others))
    return None


def test_arrays_are_left_as_they_are() -> None:
    q, k, v = CROSSED

    def code(q: Any, k: Any, v: Any) -> Any:
        scores = np.array([q[0] @ key for key in k])
        powers = np.exp(scores - scores.max())
        return powers / powers.sum() @ v

    assert lifted(record_operations(code, q, k, v)[1]) is None
    assert lifted([]) is None


def test_one_key_and_one_feature() -> None:
    for shapes in ([(3, 4), (1, 4), (1, 6)], [(3, 1), (5, 1), (5, 1)], [(1, 4), (5, 4), (5, 1)]):
        out, operations = recorded(crossed, *drawn(*shapes))
        made = lifted(operations)
        assert made is not None
        np.testing.assert_array_equal(made[0][-1].host, np.asarray(out))
        assert judge(operations, [np.asarray(out)]).cores <= 1


def recurrent(xs: Rows, w: Rows, u: Rows) -> Rows:
    state, out = [0.0] * len(w), []
    for x in mapped(xs, w):
        state = [
            math.tanh(a + sum(b * c for b, c in zip(state, row, strict=True))) for a, row in zip(x, u, strict=True)
        ]
        out.append(state)
    return out


def test_states_one_after_another_are_no_attention() -> None:
    assert judged_of(recurrent, *drawn((4, 4), (5, 4), (5, 5))).cores == 0


def clipped(xs: Rows, wq: Rows, wk: Rows, wv: Rows) -> Rows:
    return self_attention([[x if x > 0 else 0.0 for x in row] for row in xs], wq, wk, wv)


def weighed(queries: Rows, keys: Rows, values: Rows) -> Rows:
    out = []
    for q in queries:
        scores = [dot(q, k) / math.sqrt(len(q)) for k in keys]
        powers = [math.exp(s - max(scores)) for s in scores]
        total = sum(powers)
        out.append([sum(p * v[j] / total for p, v in zip(powers, values, strict=True)) for j in range(len(values[0]))])
    return out


@pytest.mark.parametrize("code", [clipped, weighed], ids=lambda code: code.__name__)
def test_zeros_and_divided_products_are_terms_of_sums(code: Callable[..., Any]) -> None:
    # No row is 0 as a whole.
    arrays = [np.abs(SELF[0]) - 0.3, *drawn((6, 4), (6, 4), (3, 4))] if code is clipped else CROSSED
    judged = judged_of(code, *arrays)
    assert (judged.cores, judged.faults) == (1, [])


def test_arrays_that_are_looped_over() -> None:
    def code(q: Any, k: Any, v: Any) -> Any:
        return np.array(crossed(q, k, v))

    out, operations = record_operations(code, *CROSSED)
    judged = judge(operations, [np.asarray(out)])
    assert (judged.cores, judged.faults) == (1, [])


def test_functions_of_math_keep_the_trail_and_raise_as_they_do() -> None:
    def code(x: Any) -> Any:
        for wrong, value in ((math.log, 0.0), (sqrt, -1.0)):
            with pytest.raises(ValueError, match=r"domain|positive|nonnegative"):
                wrong(x[0] * value)
        with pytest.raises(OverflowError):
            math.exp(x[0] * 0 + 1000)
        assert isinstance(float("1"), float)
        assert isinstance(1.0, float)
        assert not isinstance(1, float)
        assert float(3) == 3.0
        assert type(math.exp(1)) is type(math.pi)
        assert np.zeros(2, dtype=float).dtype == np.float64
        return np.array([math.pow(float(x[0]), 2), math.fsum([x[0], x[1], 1.0]), math.prod(iter([x[0], x[1]]))])

    out, operations = record_operations(code, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(out, [4, 6, 6])
    assert [op.name for op in operations[-5:]][-1] == "array"
    assert {"power", "add", "multiply"} <= {op.name for op in operations}
    assert "float" not in globals()
    assert globals()["math"] is math


def test_many_numbers_take_little_time() -> None:
    _, operations = recorded(self_attention, *drawn((16, 16), (16, 16), (16, 16), (16, 16)))
    start = time.process_time()
    assert lifted(operations) is not None
    assert len(operations) > 30_000
    assert time.process_time() - start < 4


def asks(q: list[float], keys: list[list[float]], values: list[list[float]]) -> list[float]:
    scores = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)) for k in keys]
    powers = [math.exp(s - max(scores)) for s in scores]
    weights = [p / sum(powers) for p in powers]
    return [sum(w * v[c] for w, v in zip(weights, values, strict=True)) for c in range(len(values[0]))]


def test_a_trace_of_lists_is_one_of_arrays() -> None:
    q, keys, values = [1.0, 0.0, 2.0], [[1.0, 2, 0], [0.0, 1, 1], [3, 0.0, 1]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    trace = overt.trace(asks, q, keys, values)
    assert trace.result == asks(q, keys, values)
    (found,) = trace.attentions
    x = np.array(keys) @ q / 3**0.5
    weights = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    for role, expected in (
        ("scores", np.array(keys) @ q),
        ("weights", weights),
        ("output", weights @ np.array(values)),
    ):
        name = found[role]
        assert name is not None
        assert np.allclose(trace[name], expected)
    assert "array" not in {step.operation for step in trace}


def test_a_trace_of_whole_numbers_shows_nothing() -> None:
    with pytest.raises(ArgumentError, match="did nothing with arrays that could be seen"):
        overt.trace(lambda edges: [a + b for a, b in edges], [[0, 1], [1, 2]])
