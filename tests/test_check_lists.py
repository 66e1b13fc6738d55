"""Attention without any library: lists of lists, the functions of math, caches that lists are."""

from __future__ import annotations

import numpy as np
import pytest

from overt.recorder.lists import on_lists, takes_lists
from swapped import right_and_wrong

SOURCE = '''
import math
import random
from math import exp, sqrt


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def times(matrix, x):
    return [dot(row, x) for row in matrix]


def shares(scores):
    top = max(scores)
    powers = [exp(s - top) for s in scores]
    total = sum(powers)
    return [p / total for p in powers]


def reads(words, Wq, Wk, Wv):
    """words: list of T vectors.  Each word looks at itself and at those before it.  Returns T vectors."""
    qs, ks, vs = ([times(W, w) for w in words] for W in (Wq, Wk, Wv))
    found = []
    for t, q in enumerate(qs):
        a = shares([dot(q, k) / sqrt(len(q)) for k in ks[: t + 1]])
        found.append([sum(w * v[c] for w, v in zip(a, vs)) for c in range(len(vs[0]))])
    return found


def note(x, weights, keys, values, n_head):
    """One step.  x: vector of the new note; keys, values: lists of those before, to which it is appended."""
    width = len(x) // n_head
    q = times(weights["wq"], x)
    keys.append(times(weights["wk"], x))
    values.append(times(weights["wv"], x))
    found = []
    for h in range(n_head):
        a, b = h * width, (h + 1) * width
        p = shares([dot(q[a:b], k[a:b]) / width ** 0.5 for k in keys])
        for j in range(a, b):
            found.append(sum(p[t] * values[t][j] for t in range(len(values))))
    return times(weights["wo"], found)


def heading(me, neighbours, headings, Wq, Wk):
    """me: feature list; neighbours: list of feature lists; headings: one list per neighbour."""
    if not neighbours:
        return []
    q, keys = times(Wq, me), [times(Wk, n) for n in neighbours]
    scores = [dot(q, k) / math.sqrt(len(q)) for k in keys]
    top = max(scores)
    parts = [math.exp(s - top) for s in scores]
    found = [0.0] * len(headings[0])
    for p, h in zip(parts, headings):
        for i, c in enumerate(h):
            found[i] += p / sum(parts) * c
    return found


def next_stop(state, places, visited, W_place, W_state, v):
    """Probability of each place.  state: list of floats; places: list of encoded places; visited: list of bools"""
    s, energy = times(W_state, state), []
    for p, done in zip(places, visited):
        energy.append(None if done else dot(v, [math.tanh(a + b) for a, b in zip(times(W_place, p), s)]))
    top = max(e for e in energy if e is not None)
    powers = [0.0 if e is None else math.exp(e - top) for e in energy]
    return [x / sum(powers) for x in powers]


def plan(queries, keys, values, cache):
    """The newest steps of a plan.  cache is {'k': [], 'v': []}; what is new is appended.

    Each new step sees all earlier ones and itself.  Returns one list per query.
    """
    cache["k"].extend(keys)
    cache["v"].extend(values)
    before, found = len(cache["k"]) - len(queries), []
    for i, q in enumerate(queries):
        seen = before + i + 1
        a = shares([dot(q, k) / sqrt(len(q)) for k in cache["k"][:seen]])
        found.append([sum(w * v[c] for w, v in zip(a, cache["v"])) for c in range(len(values[0]))])
    return found


class Head:
    """Attention of a list of vectors to itself, causal."""

    def __init__(self, dim):
        random.seed(0)
        self.dim = dim
        self.weights = [[[random.gauss(0, 1) for _ in range(dim)] for _ in range(dim)] for _ in range(3)]

    def forward(self, xs):
        q, k, v = ([times(w, x) for x in xs] for w in self.weights)
        found = []
        for i in range(len(xs)):
            p = shares([dot(q[i], k[j]) / math.sqrt(self.dim) for j in range(i + 1)])
            found.append([sum(p[j] * v[j][c] for j in range(i + 1)) for c in range(self.dim)])
        return found


def masked(q, k, v, mask):
    """mask: rows of 0 and 1, 1 = may attend"""
    found = []
    for i, row in enumerate(q):
        w = shares([dot(row, key) / math.sqrt(len(row)) if mask[i][j] else -1e9 for j, key in enumerate(k)])
        found.append([sum(w[j] * v[j][c] for j in range(len(k))) for c in range(len(v[0]))])
    return found


def product(a, b):
    return [[dot(row, col) for col in zip(*b)] for row in a]


def turned(matrix):
    return [list(row) for row in zip(*matrix)]


def attend(q, k, v):
    """softmax(q k^T / sqrt(d)) v, lists of rows"""
    scores = [[s / len(q[0]) ** 0.5 for s in row] for row in product(q, turned(k))]
    return product([shares(row) for row in scores], v)
'''
BOTH = [
    ("reads", "dot(q, k) / sqrt(len(q)) for k in ks[", "dot(q, k) for k in ks[", {"scale_missing": "ks[: t + 1]"}),
    ("reads", "ks[: t + 1]", "ks[: t + 2]", {"causal_off_by_one": "ks[: t + 2]"}),
    ("note", "/ width ** 0.5", "/ n_head ** 0.5", {"scale_num_heads": "n_head ** 0.5"}),
    ("heading", "math.exp(s - top)", "math.exp(s)", {"no_max": "math.exp(s)"}),
    ("next_stop", "math.exp(e - top)", "math.exp(e)", {"no_max": "math.exp(e)"}),
    ("Head", "k[j]) / math.sqrt(self.dim) for", "k[j]) for", {"scale_missing": "range(i + 1)]"}),
    ("masked", "if mask[i][j] else", "if not mask[i][j] else", {"mask_inverted": "if not mask"}),
    ("attend", "product([shares(row) for row in scores], v)", "product(turned([shares(x) for x in turned(scores)]), v)",
     {"softmax_axis_q": "total = sum"}),
    ("plan", "seen = before + i + 1", "seen = i + 1", {"unknown": "w * v[c]"}),
]  # fmt: skip


test_right, test_wrong = right_and_wrong(SOURCE, BOTH)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(x): return [a * 2 for a in x]", True),
        ("def f(x): x.append(1); return x[0]['a']", True),
        ("def f(q, k): return q @ k", False),
        ("def f(q): return q.T", False),
        ("def f(q): return q[:, 0]", False),
        ("def f(:", False),
        ("", False),
    ],
)
def test_what_only_arrays_can_is_given_arrays(source: str, expected: bool) -> None:
    assert takes_lists(source) == expected


def test_lists_come_back_as_arrays_as_far_as_they_are_even() -> None:
    def split(x: list[list[float]], many: dict[str, list[int]]) -> dict[str, object]:
        return {"whole": [row[:2] for row in x], "ragged": [row[: n + 1] for n, row in enumerate(x)], "n": many["n"][0]}

    x = np.arange(6.0).reshape(2, 3)
    given = on_lists(split)(x, {"n": np.array([4, 5])})
    assert np.array_equal(given["whole"], x[:, :2])
    assert [len(row) for row in given["ragged"]] == [1, 2]
    assert given["n"] == 4
