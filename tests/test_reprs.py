"""Whatever a user may see in a session is one short line, and no dump of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import overt
from overt import models

LONG = np.linspace(0, 1, 3000)
ROWS = np.arange(3000).reshape(3, 1000)
Q = np.random.default_rng(0).normal(size=(2, 4, 30, 8))
SQUARE = np.ones((64, 64))


def unscaled(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Attention that forgot its scale."""
    scores = q @ np.swapaxes(k, -1, -2)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def seen(**options: Any) -> overt.Attended:
    return overt.attend(Q, Q, Q, **options)


def cache() -> overt.Cache:
    held = overt.Cache(bias=overt.alibi(np.ones(4)))
    held.append(Q, Q)
    held.keep([1, 2])
    return held


# What can be typed in again is what was typed in.
EVALUATED = [
    "causal()",
    "causal(offset=2)",
    "causal(offset=[0, 1])",
    "window(3, 0)",
    "window(None, 2)",
    "window(1, None, offset=1)",
    "padding([4, 3])",
    "prefix([4, 3])",
    "prefix([4, 3], offset=1)",
    "documents([0, 0, 1])",
    "documents([0, 1], [0, 0, 1])",
    "packed([0, 2, 5])",
    "packed([0, 2, 5], [0, 1, 4])",
    "(causal() & ~padding(3))",
    "(window(1, 1) | causal())",
    "dot()",
    "scaled_dot()",
    "scaled_dot(0.25)",
    "cosine(2.0)",
    "dropout(0.1, 7)",
    "alibi([0.5, 2. ])",
    "alibi([0.5, 2. ], offset=3)",
    "Cache()",
]
# Everything else is at least short.
SHORT: dict[str, Any] = {
    "padding": lambda: overt.padding(ROWS[:, 0]),
    "offsets": lambda: overt.causal(ROWS),
    "documents": lambda: overt.documents(ROWS),
    "packed": lambda: overt.packed(np.arange(3000)),
    "keep": lambda: overt.keep(np.ones((30, 30), bool)),
    "where": lambda: overt.where(lambda b, h, t, s: s <= t),
    "array": lambda: overt.alibi(LONG) + SQUARE,
    "relative": lambda: overt.relative(SQUARE),
    "bilinear": lambda: overt.bilinear(SQUARE),
    "additive": lambda: overt.additive(SQUARE, SQUARE, np.ones(64), np.ones(64)),
    "attended": seen,
    "problem": lambda: (
        seen(
            mask=overt.causal() & overt.where(lambda b, h, t, s: s != t),
            bias=overt.alibi(np.ones(4)) + np.ones((30, 30)),
            sinks=np.ones(4),
            softcap=3.0,
            dropout=overt.dropout(0.1, 3),
        ).problem
    ),
    "gradient": lambda: seen(bias=np.ones((30, 30))).gradient(Q),
    "weights": lambda: seen().weights,
    "trace": lambda: overt.trace(Q, Q, Q),
    "step": lambda: overt.trace(Q, Q, Q).step("weights"),
    "view": lambda: overt.show(seen()),
    "cache": cache,
    "cache's mask": lambda: cache().attend(Q).problem,
    "tensors": lambda: overt.attend(*(torch.from_numpy(Q) for _ in range(3))),
    "report": lambda: overt.check(unscaled, isolate=False),
    "finding": lambda: overt.check(unscaled, isolate=False).findings[0],
    "translator": lambda: models.load(next(iter(models.bundled()))),
    "vocabulary": lambda: models.load(next(iter(models.bundled()))).checkpoint.source,
}


@pytest.mark.parametrize("text", EVALUATED)
def test_reprs_that_can_be_typed_in(text: str) -> None:
    names = {name: getattr(overt, name) for name in overt.__all__}
    assert repr(eval(text, names)) == text


@pytest.mark.parametrize("name", SHORT)
def test_reprs_are_one_short_line(name: str) -> None:
    text = repr(SHORT[name]())
    assert "\n" not in text
    assert len(text) <= 250, text
    assert "0x" not in text
    assert "array([" not in text
