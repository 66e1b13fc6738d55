"""Calls of what is no plain array: edges with loops, ragged rows, lists of pairs, weights by letters, a module."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import Report

pytest.importorskip("torch")

LISTS = '''
import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def recall(cue, memory, rounds):
    """What is recalled after all rounds.

    cue    : list of D floats
    memory : list of entries (key, value), each a list of D floats, or None where nothing is left
    rounds : list of D x D matrices
    """
    left = [entry for entry in memory if entry is not None]
    for R in rounds:
        s = [dot(cue, k) / math.sqrt(len(cue)) for k, _ in left]
        e = [math.exp(x - max(s)) for x in s]
        p = [x / sum(e) for x in e]
        found = [sum(a * v[c] for a, (_, v) in zip(p, left)) for c in range(len(cue))]
        cue = [dot(row, [x + y for x, y in zip(cue, found)]) for row in R]
    return cue
'''
# The source, its candidate, what is right, what is wrong in its place, and what is then told.
BOTH = [(LISTS, "recall", "/ math.sqrt(len(cue))", "* math.sqrt(len(cue))", "scale_inverted")]


@pytest.mark.parametrize(("source", "name"), [both[:2] for both in BOTH])
def test_right(check: Callable[[str, str], Report], source: str, name: str) -> None:
    report = check(name, source)
    assert report.ok, report


@pytest.mark.parametrize(("source", "name", "right", "wrong", "expected"), BOTH)
def test_wrong(
    check: Callable[[str, str], Report], source: str, name: str, right: str, wrong: str, expected: str
) -> None:
    assert source.count(right) == 1
    report = check(name, source.replace(right, wrong))
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == [expected], report
