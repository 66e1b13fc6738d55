"""overt.record in training: the weights before dropout, with every other change of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

import overt
from overt.errors import RecordingError
from test_record_own import CAUSAL, H, T, X, build, scores

pytestmark = pytest.mark.filterwarnings("ignore")
GATE = torch.linspace(0.2, 1, H)[:, None, None]


def drop(w: Tensor, rate: float = 0.5) -> Tensor:
    return functional.dropout(w, rate, training=True)


def at_once(change: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """A change in place."""

    def run(w: Tensor) -> Tensor:
        change(w)
        return w

    return run


def renormalised(w: Tensor) -> Tensor:
    return w / w.sum(-1, keepdim=True).clamp(min=1e-9)


def slowly(w: Tensor) -> Tensor:
    total = w.sum(-1, keepdim=True)
    total = total + 1e-9
    return w * CAUSAL / total


# What somebody does with weights after dropout; the same without dropout is what is meant.
CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "masked": lambda w: w.masked_fill(~CAUSAL, 0),
    "masked in place": lambda w: w.masked_fill_(~CAUSAL, 0),
    "multiplied": lambda w: w * CAUSAL,
    "multiplied in place": at_once(lambda w: w.mul_(GATE)),
    "by an operator in place": at_once(lambda w: w.__imul__(CAUSAL)),
    "gated and turned": lambda w: (w * GATE).transpose(2, 3).contiguous().transpose(2, 3),
    "chosen": lambda w: torch.where(CAUSAL, w, torch.zeros_like(w)),
    "a triangle": lambda w: w.tril(),
    "renormalised": renormalised,
    "renormalised over masked ones": lambda w: renormalised(w.masked_fill(~CAUSAL, 0)),
    "renormalised step by step": slowly,
    "dropped once more": lambda w: drop(w * GATE),
    "cast, then masked": lambda w: w.double().masked_fill(~CAUSAL, 0).float(),
    "cells that are set": at_once(lambda w: w.__setitem__((slice(None), slice(None), 2, slice(0, 3)), 0.0)),
    "columns that are filled": at_once(lambda w: w.index_fill_(3, torch.tensor([1]), 0)),
    "clamped": lambda w: w.clamp(max=0.3),
    "cells of a view": at_once(lambda w: w[:, :, 1].zero_()),
    "by the largest": lambda w: w / w.max(-1, keepdim=True).values.clamp(min=1e-9) / T,
    "copied and turned": lambda w: torch.empty_like(w).copy_(w).mT.mul(GATE).mT,
}


@pytest.mark.parametrize("keep", ["qk", "statistics"])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
@pytest.mark.parametrize("name", CHANGES)
def test_weights_are_those_before_dropout_with_what_came_after_it(name: str, mode: Any, keep: str) -> None:
    change = CHANGES[name]
    # In place nothing may be changed that a softmax needs for its gradient.
    model = build(lambda q, k, v: change(drop(scores(q, k).softmax(-1))) @ v)
    with mode():
        torch.manual_seed(3)
        y = model(X)
        torch.manual_seed(3)
        with overt.record(model, keep=keep) as rec:
            assert torch.equal(model(X), y)
    with torch.no_grad():
        q, k, _ = model.layers[0].split(X)
        # Dropout of rate 0 is none.
        own = scores(q, k).softmax(-1)
        expected = _without(change, own)
    np.testing.assert_allclose(rec["layers.0"].received(), expected.sum(-2), atol=1e-5)
    if keep == "qk":
        np.testing.assert_allclose(rec["layers.0"].weights, expected, atol=1e-6)


def _without(change: Callable[[Tensor], Tensor], w: Tensor) -> Tensor:
    """What a change makes of weights where nothing is dropped."""
    found, functional.dropout = functional.dropout, lambda x, *_, **__: x
    try:
        return change(w.clone())
    finally:
        functional.dropout = found


@torch.library.custom_op("test_record_dropout::summed", mutates_args=())
def summed(w: Tensor) -> Tensor:
    return w.sum(-1, keepdim=True) + 1


REFUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "sorted": lambda w: w.sort(-1).values,
    "added up": lambda w: w.cumsum(-1) / T,
    "dropped in place": lambda w: functional.dropout(w, 0.5, True, True),
    "dropped in place after that": lambda w: w * functional.dropout(w.sum(-1, keepdim=True), 0.5, True, True),
    "divided by what an operator of somebody's own made": lambda w: w / summed(w),
    "with noise": lambda w: w * torch.bernoulli(w),
    "mixed with those of others": lambda w: (w + w.flip(1)) / 2,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_followed_after_dropout_is_refused(name: str) -> None:
    model = build(lambda q, k, v: REFUSED[name](drop(scores(q, k).softmax(-1))) @ v)
    with (
        torch.no_grad(),
        pytest.raises(RecordingError, match=r"layers\.0: after its softmax, "),
        overt.record(model),
    ):
        model(X)


def test_dropout_that_drops_nothing_is_compared_as_ever() -> None:
    for change in (lambda w: functional.dropout(w, 0.5, training=False), lambda w: drop(w, 0.0)):
        model = build(lambda q, k, v, change=change: (change(scores(q, k).softmax(-1)) * GATE) @ v)
        with torch.no_grad(), overt.record(model) as rec:
            model(X)
        assert rec["layers.0"].deviation is not None
