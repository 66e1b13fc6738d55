"""What a module says of its arguments, lists of several, levels of a pyramid, and attention without a softmax."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.report import Report

pytest.importorskip("torch")

# What the module says of several names together, and neighbours that turn as one.
PACKED = '''"""Documents in one row.

    q, k, v : (L, H, d)   one after another
    doc     : (L,) int    number of the document

Scores / sqrt(d); each sees its own document.  Returns (L, H, d).
"""
import numpy as np


def packed(q, k, v, doc):
    s = np.einsum("ihd,jhd->hij", q, k) / q.shape[-1] ** 0.5
    s = np.where(doc[:, None] == doc[None, :], s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v)
'''
# Keys of a map beside one token, the sides of the map in a pair.
# The candidate, its source, what is right, what is wrong in its place, and what is then told.
BOTH = [
    ("packed", PACKED, "p.sum(-1, keepdims=True)", "p.sum((0, 2), keepdims=True)", "softmax_heads_and_keys"),
]


@pytest.mark.parametrize(("name", "source"), [(name, source) for name, source, *_ in BOTH])
def test_right(check: Callable[[str, str], Report], name: str, source: str) -> None:
    report = check(name, source)
    assert report.ok, report


@pytest.mark.parametrize(("name", "source", "right", "wrong", "expected"), BOTH)
def test_wrong(
    check: Callable[[str, str], Report], name: str, source: str, right: str, wrong: str, expected: str
) -> None:
    assert source.count(right) == 1
    report = check(name, source.replace(right, wrong))
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == [expected], report
