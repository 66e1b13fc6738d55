"""Recorded steps of recurrent decoders: additive scores, Luong's, and weights that are returned alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from overt.check.process.arrays import leaves
from overt.check.steps.judging import Judged, judge
from overt.recorder import record_operations

B, S, W = 2, 5, 6


def judged(function: Callable[..., Any], *args: Any, **intended: bool) -> Judged:
    with torch.no_grad():
        result, operations = record_operations(function, *args)
    outputs = [np.asarray(x.detach() if hasattr(x, "detach") else x) for _, x in leaves(result)]
    names = (
        {f"parameter {name}": x.shape for name, x in function.named_parameters()}
        if isinstance(function, nn.Module)
        else {}
    )
    return judge(operations, outputs, given=names, intended=intended)


def drawn(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape))


class Step(nn.Module):
    """An additive score of a state and states; what is done to the sum, and how the query meets the keys, is told."""

    def __init__(self, bend: Callable[[torch.Tensor], torch.Tensor], axis: int = 1, *, joined: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.three = nn.Linear(W, 4), nn.Linear(W, 4), nn.Linear(4, 1)
        self.both = nn.Linear(2 * W, 4)
        self.bend, self.axis, self.joined = bend, axis, joined
        self.double()

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if self.joined:
            made = self.both(torch.cat([a[:, None].expand_as(b), b], -1))
        else:
            made = self.one(a)[:, None] + self.two(b)
        return (functional.softmax(self.three(self.bend(made)), self.axis) * b).sum(1)


def straight(x: torch.Tensor) -> torch.Tensor:
    return x


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize(
    ("bend", "axis", "expected"),
    [
        (torch.tanh, 1, set()),
        (torch.relu, 1, set()),
        (straight, 1, {"additive_no_tanh"}),
        (torch.tanh, 0, {"softmax_axis_head_or_batch"}),
        (straight, 0, {"additive_no_tanh", "softmax_axis_head_or_batch"}),
    ],
)
def test_each_step_of_an_additive_score_is_judged(
    bend: Callable[[torch.Tensor], torch.Tensor], axis: int, expected: set[str], joined: bool
) -> None:
    result = judged(Step(bend, axis, joined=joined), drawn(B, W), drawn(B, S, W))
    assert {fault.mistake for fault in result.faults} == expected


def test_queries_meet_keys_in_pairs() -> None:
    torch.manual_seed(0)
    one, two, three = nn.Linear(W, 4).double(), nn.Linear(W, 4).double(), nn.Linear(4, 1).double()

    def paired(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return three(torch.tanh(one(a) + two(b))).transpose(1, 2).softmax(-1) @ b

    q, k = drawn(B, S, W), drawn(B, S, W) + 1
    # Of one query it is right; for many, only where many are meant.
    assert not judged(paired, q[:, :1], k).faults
    assert not judged(paired, q, k).faults
    assert [fault.mistake for fault in judged(paired, q, k, pairs=True).faults] == ["additive_no_pairwise"]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_scores_that_ignore_the_keys_are_found() -> None:
    a, b, w, v = (np.random.default_rng(n).normal(size=shape) for n, shape in enumerate([(B, W), (B, S, W), (W, 4), 4]))

    def repeated(a: np.ndarray, b: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        e = np.repeat((np.tanh(a @ w) @ v)[:, None], b.shape[1], 1)
        return np.asarray((softmax(e)[..., None] * b).sum(1))

    def placed(a: np.ndarray, b: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.asarray((softmax((a @ w)[:, : b.shape[1]])[..., None] * b).sum(1))

    def pooled(b: np.ndarray, w: np.ndarray, v: np.ndarray) -> np.ndarray:
        # The keys are all that is looked at.
        return np.asarray((softmax(np.tanh(b @ w) @ v)[..., None] * b).sum(1))

    def begun(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # The state begins as the last of what is attended to.
        return placed(np.tanh(a + b[:, -1]), b, many)

    def gate(b: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.asarray((softmax(b.mean(1) @ w)[:, None] * b).sum(2))

    many = np.random.default_rng(9).normal(size=(W, 9))
    assert {fault.mistake for fault in judged(begun, a, b).faults} == {"additive_ignores_keys"}
    assert not judged(gate, b, many[:, :W]).faults
    assert {fault.mistake for fault in judged(repeated, a, b, w, v).faults} == {"additive_ignores_keys"}
    assert {fault.mistake for fault in judged(placed, a, b, many).faults} == {"additive_ignores_keys"}
    result = judged(pooled, b, w, v)
    assert result.cores
    assert not result.faults


@pytest.mark.parametrize("queries", [(B, W), (B, 3, W)])
@pytest.mark.parametrize("bent", [True, False])
def test_the_vector_of_luong_is_bent_and_his_dot_score_has_no_scale(queries: tuple[int, ...], bent: bool) -> None:
    torch.manual_seed(0)
    mixing = nn.Linear(2 * W, W).double()

    def step(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a = a if a.ndim > 2 else a[:, None]
        made = mixing(torch.cat([(a @ b.mT).softmax(-1) @ b, a], -1))
        return torch.tanh(made) if bent else made

    result = judged(step, drawn(*queries), drawn(B, S, W), luong=True)
    assert {fault.mistake for fault in result.faults} == (set() if bent else {"luong_no_tanh_out"})
    # Who does not say that he is Luong may mix them as he likes.
    assert not judged(step, drawn(*queries), drawn(B, S, W)).faults


class Bags(nn.Module):
    """A state that asks sums of embeddings, hop after hop; or embeddings that a matrix maps."""

    def __init__(self, mapped: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tables = nn.ModuleList(nn.Embedding(9, W) for _ in range(3))
        self.mapping = nn.Linear(W, W, bias=False) if mapped else nn.Identity()
        self.next = nn.Linear(W, W)
        self.double()

    def forward(self, story: torch.Tensor, question: torch.Tensor) -> torch.Tensor:
        u = self.tables[0](question).sum(1)
        for one, two in pairwise(self.tables):
            p = torch.einsum("bsd,bd->bs", self.mapping(one(story).sum(2)), u).softmax(-1)
            u = self.next(u) + torch.einsum("bs,bsd->bd", p, two(story).sum(2))
        return u


@pytest.mark.parametrize("mapped", [False, True])
def test_what_asks_embeddings_of_words_needs_no_scale(mapped: bool) -> None:
    draw = np.random.default_rng(0)
    result = judged(Bags(mapped), *(torch.from_numpy(draw.integers(9, size=n)) for n in [(B, S, 4), (B, 4)]))
    assert result.cores == 2
    assert {fault.mistake for fault in result.faults} == ({"scale_missing"} if mapped else set())


def test_weights_that_are_returned_alone_are_judged() -> None:
    torch.manual_seed(0)
    one, two, three = nn.Linear(W, 4).double(), nn.Linear(W, 4).double(), nn.Linear(4, 1).double()

    def points(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return three(torch.tanh(one(a)[:, None] + two(b)))[..., 0].softmax(-1)

    def straight_points(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return three(one(a)[:, None] + two(b))[..., 0].softmax(-1)

    good, bad = judged(points, drawn(B, W), drawn(B, S, W)), judged(straight_points, drawn(B, W), drawn(B, S, W))
    assert good.cores
    assert not good.faults
    assert [fault.mistake for fault in bad.faults] == ["additive_no_tanh"]


class Pointer(nn.Module):
    """A tour of places: at each step the logarithms of the weights of those that are left."""

    def __init__(self, bend: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two, self.three = nn.Linear(W, 4), nn.Linear(W, 4), nn.Linear(4, 1)
        self.cell, self.bend = nn.GRUCell(W, W), bend
        self.double()

    def forward(self, state: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        gone, found, last = torch.zeros(B, S, dtype=torch.bool), [], state
        for _ in range(S):
            state = self.cell(last, state)
            u = self.three(self.bend(self.one(state)[:, None] + self.two(places))).squeeze(-1)
            found.append(u.masked_fill(gone, -1e9).log_softmax(-1))
            chosen = found[-1].argmax(-1)
            gone, last = gone.scatter(1, chosen[:, None], True), places[torch.arange(B), chosen]
        return torch.stack(found, 1)


@pytest.mark.parametrize("bend", [straight, torch.tanh])
def test_logarithms_of_weights_at_each_step_are_judged(bend: Callable[[torch.Tensor], torch.Tensor]) -> None:
    result = judged(Pointer(bend), drawn(B, W), drawn(B, S, W))
    assert result.cores
    assert {fault.mistake for fault in result.faults} == ({"additive_no_tanh"} if bend is straight else set())


def test_a_choice_by_its_logarithms_needs_no_scale() -> None:
    assert not judged(lambda a, b: (a @ b.mT).log_softmax(-1), drawn(B, 3, W), drawn(B, S, W)).faults


def test_logarithms_of_classes_are_no_attention() -> None:
    torch.manual_seed(0)
    cell, last = nn.GRU(W, W, batch_first=True).double(), nn.Linear(W, 9).double()
    assert not judged(lambda x: last(cell(x)[0]).log_softmax(-1), drawn(B, S, W)).cores


@pytest.mark.parametrize(("hidden", "wrong"), [(True, {"mask_inverted"}), (False, set())])
def test_lengths_are_read_where_features_are_positive_and_one_key_is_left(hidden: bool, wrong: set[str]) -> None:
    def listen(a: np.ndarray, b: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        s = np.einsum("bd,bsd->bs", np.maximum(a, 0.0), np.maximum(b, 0.0))
        s = np.where((np.arange(S) < lengths[:, None]) == hidden, -1e9, s)
        return np.asarray((softmax(s)[..., None] * b).sum(1))

    a, b = (np.random.default_rng(n).normal(size=shape) for n, shape in enumerate([(B, W), (B, S, W)]))
    told = judged(listen, a, b, np.array([S - 1, S]))
    assert {fault.mistake for fault in told.faults} == wrong
    assert any((entry.step, entry.outcome) == ("softmax", "held") for entry in told.ledger)
