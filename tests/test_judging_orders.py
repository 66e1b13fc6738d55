"""Attention whose products stand in another order, whose weights go along edges, or whose tokens come one at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.steps.judging import Judged, judge
from overt.recorder import record_operations


def judged(code: Callable[..., Any], *args: Any) -> Judged:
    result, operations = record_operations(code, *args)
    return judge(operations, [result.numpy() if isinstance(result, torch.Tensor) else result])


def drawn(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    random = np.random.default_rng(3)
    return [torch.from_numpy(random.normal(size=shape)) for shape in shapes]


def keys_and_values_first(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])


def sums_up_to_a_position(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    pairs = torch.einsum("hsd,hsm->hsdm", k, v).cumsum(1)
    return torch.einsum("htd,htdm,ht->htm", q, pairs, 1 / (q * k.cumsum(1)).sum(-1))


def without_a_map(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return q @ (functional.layer_norm(k, k.shape[-1:]).mT @ v) / k.shape[-2]


def mean_of_weights(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).mean(0) @ v[0]


@pytest.mark.parametrize("code", [keys_and_values_first, sums_up_to_a_position, without_a_map, mean_of_weights])
def test_another_order_of_the_products_is_attention(code: Callable[..., Any]) -> None:
    told = judged(code, *drawn((3, 5, 4), (3, 5, 4), (3, 5, 6)))
    assert told.cores == 1
    assert told.faults == []
    assert any(entry.outcome == "held" for entry in told.ledger)


def grown(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kept: float, forgets: bool) -> torch.Tensor:
    """A state to which one key after the other is added; whether what divides forgets as the state does."""
    q, k = functional.elu(q) + 1, functional.elu(k) + 1
    state, total, out = 0, torch.zeros_like(q[:, 0]), []
    for t in range(q.shape[1]):
        state = kept * state + k[:, t, :, None] * v[:, t, None]
        total = (kept if forgets else 1) * total + k[:, t]
        out.append(torch.einsum("hd,hdm->hm", q[:, t], state) / (q[:, t] * total).sum(-1, keepdim=True))
    return torch.stack(out, 1)


def filled(q: np.ndarray, k: np.ndarray, v: np.ndarray, kept: np.ndarray, forgets: bool) -> np.ndarray:
    """The same, in place; each number of a key is forgotten at its own pace."""
    q, k = np.abs(q), np.abs(k)
    state, total, out = np.zeros((q.shape[-1], v.shape[-1])), np.zeros(q.shape[-1]), []
    for a, b, c in zip(q, k, v, strict=True):
        state *= kept[:, None]
        state += np.outer(b, c)
        total = (kept if forgets else 1) * total + b
        out.append(a @ state / (a @ total))
    return np.stack(out)


@pytest.mark.parametrize("kept", [1.0, 0.8])
@pytest.mark.parametrize("forgets", [True, False])
def test_a_state_that_grows_is_attention_to_all_that_was_added(kept: float, forgets: bool) -> None:
    x = drawn((3, 5, 4), (3, 5, 4), (3, 5, 6))
    alone = [y[0].numpy() for y in x]
    for told in (judged(grown, *x, kept, forgets), judged(filled, *alone, np.linspace(kept, 1, 4), forgets)):
        assert told.cores >= 4
        wrong = kept < 1 and not forgets
        assert {fault.mistake for fault in told.faults} == ({"unknown"} if wrong else set())


def test_an_update_by_what_the_state_says_is_attention_to_what_was_added() -> None:
    def delta(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        k = functional.normalize(k, dim=-1)
        state, out = q.new_zeros(3, 4, 6), []
        for t in range(q.shape[1]):
            said = (k[:, t, None] @ state)[:, 0]
            state = state + k[:, t, :, None] @ (v[:, t] - said)[:, None]
            out.append((q[:, t, None] @ state)[:, 0])
        return torch.stack(out, 1)

    assert judged(delta, *drawn((3, 5, 4), (3, 5, 4), (3, 5, 6))).cores


class Pools(nn.Module):
    """Words and then sentences, pooled by the same lines; the weights of the seen ones sum to 1, or not."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.again = again
        self.words, self.sentences = nn.Linear(5, 1).double(), nn.Linear(5, 1).double()

    def pool(self, h: torch.Tensor, score: nn.Linear, seen: torch.Tensor) -> torch.Tensor:
        a = functional.softmax(score(torch.tanh(h)).squeeze(-1), -1) * seen
        a = a / a.sum(-1, keepdim=True) if self.again else a
        return (a[..., None] * h).sum(-2)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        # No sentence is hidden, so its weights sum to 1.
        seen = torch.arange(4) < torch.tensor([[2, 3, 4], [1, 4, 2]])[..., None]
        return self.pool(self.pool(words, self.words, seen), self.sentences, seen.any(-1))


@pytest.mark.parametrize("again", [True, False])
def test_the_same_lines_with_other_weights_are_attention_too(again: bool) -> None:
    with torch.no_grad():
        told = judged(Pools(again), *drawn((2, 3, 4, 5)))
    assert {fault.mistake for fault in told.faults} == (set() if again else {"mask_after_softmax"})


def test_what_is_wrong_with_each_of_several_weights_is_seen_behind_their_mean() -> None:
    def wrong(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT / q.shape[-1]).softmax(-1).mean(0) @ v[0]

    told = judged(wrong, *drawn((3, 5, 4), (3, 5, 4), (3, 5, 6)))
    assert [fault.mistake for fault in told.faults] == ["scale_d"]


def along_edges(x: np.ndarray, sources: np.ndarray, targets: np.ndarray, by: str, top: str) -> np.ndarray:
    ends = {"targets": targets, "sources": sources}[by]
    s = np.einsum("ed,ed->e", x[targets], x[sources] + 1) / np.sqrt(x.shape[1])
    largest = np.full(len(x), -np.inf)
    np.maximum.at(largest, ends, s)
    e = np.exp(s - (s.max() if top == "all" else largest[ends]))
    total, out = np.zeros(len(x)), np.zeros_like(x)
    np.add.at(total, ends, e)
    np.add.at(out, targets, (e / total[ends])[:, None] * np.sin(x)[sources])
    return out


@pytest.mark.parametrize(
    ("by", "top", "found"),
    [
        ("targets", "each", []),
        # Rare, and the cheap way for a graph.
        ("targets", "all", [("global_max", "risk")]),
        ("sources", "each", [("softmax_axis_q", None)]),
    ],
)
def test_softmax_along_edges(by: str, top: str, found: list[tuple[str, str | None]]) -> None:
    targets = np.repeat(np.arange(5), 3)
    sources = np.concatenate([np.roll(np.arange(5), step) for step in range(3)]).reshape(3, 5).T.ravel()
    mixed = np.random.default_rng(2).permutation(15)
    told = judged(along_edges, drawn((5, 4))[0].numpy(), sources[mixed], targets[mixed], by, top)
    assert [(fault.mistake, fault.kind) for fault in told.faults] == found


def test_a_row_that_is_projected_is_no_bias() -> None:
    x, *w = (one.numpy() for one in drawn((4,), (4, 4), (4, 4), (4, 4)))

    class Stream:
        def __init__(self) -> None:
            self.one, self.two, self.three = w
            self.keys, self.values = [np.ones(4)], [np.arange(4.0)]

        def __call__(self, token: np.ndarray) -> np.ndarray:
            keys, values = [*self.keys, token @ self.two], [*self.values, token @ self.three]
            s = np.stack(keys) @ (token @ self.one) / 2
            e = np.exp(s - s.max())
            return e / e.sum() @ np.stack(values)

    result, operations = record_operations(Stream(), x)
    assert judge(operations, [result], given={"parameter keys.0": (4,)}).faults == []


def test_different_matrices_before_one_input_are_no_shared_projection() -> None:
    class Columns:
        def __init__(self) -> None:
            self.one, self.two, self.three = (one.numpy() for one in drawn((4, 4), (4, 4), (4, 4)))

        def __call__(self, x: np.ndarray) -> np.ndarray:
            s = (self.two @ x).T @ (self.one @ x) / 2
            e = np.exp(s - s.max(0))
            return self.three @ x @ (e / e.sum(0))

    assert judged(Columns(), drawn((4, 6))[0].numpy()).faults == []


def test_heads_of_one_sample_side_by_side_are_not_exchanged() -> None:
    def code(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.einsum("hts,hsd->thd", (q @ k.mT / 2).softmax(-1), v).reshape(q.shape[1], -1)

    assert judged(code, *drawn((3, 5, 4), (3, 7, 4), (3, 7, 4))).faults == []


def test_norms_over_positions_are_found_where_they_are_taken() -> None:
    def code(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = functional.normalize(q, dim=1), functional.normalize(k, dim=2)
        return (8 * q @ k.mT).softmax(-1) @ v

    told = judged(code, *drawn((3, 5, 4), (3, 5, 4), (3, 5, 4)))
    assert [(fault.step, fault.mistake) for fault in told.faults] == [("norm", "unknown")]


def test_a_learned_factor_of_the_queries_is_a_scale() -> None:
    class Cosines(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return (self.factor * q @ k.mT).softmax(-1) @ v

    with torch.no_grad():
        assert judged(Cosines(), *drawn((3, 5, 4), (3, 5, 4), (3, 5, 4))).faults == []


def test_the_line_of_a_mistake_is_where_its_numbers_are_made() -> None:
    def code(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        s = q @ k.swapaxes(1, 2) / 2
        shifted = s - s.max()
        e = np.exp(shifted)
        return np.asarray(e / e.sum(-1, keepdims=True) @ v)

    told = judged(code, *(one.numpy() for one in drawn((3, 5, 4), (3, 5, 4), (3, 5, 4))))
    first = code.__code__.co_firstlineno
    assert [(fault.mistake, (fault.line or 0) - first) for fault in told.faults] == [("global_max", 2)]


def names(told: Judged) -> list[str]:
    return [fault.mistake for fault in told.faults]


def test_random_features_of_queries_and_keys_are_no_softmax_of_their_own() -> None:
    (w,) = drawn((6, 4))

    def code(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = (torch.exp(x @ w.T - (x**2).sum(-1, keepdim=True) / 2) for x in (q, k))
        return q @ (k.mT @ v) / (q @ k.sum(-2)[..., None])

    told = judged(code, *drawn((3, 5, 4), (3, 5, 4), (3, 5, 4)))
    assert (told.cores, told.faults) == (1, [])


def test_convolutions_of_single_positions_are_scores() -> None:
    class Pool(torch.nn.Module):
        def __init__(self, axis: int) -> None:
            super().__init__()
            self.one, self.two, self.axis = torch.nn.Conv1d(4, 6, 1), torch.nn.Conv1d(6, 4, 1), axis

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.two(torch.tanh(self.one(x))).softmax(self.axis) * x).sum(2)

    with torch.no_grad():
        x = drawn((3, 4, 5))
        assert names(judged(Pool(2).double(), *x)) == []
        assert names(judged(Pool(0).double(), *x)) == ["softmax_axis_head_or_batch"]


@pytest.mark.parametrize("right", [True, False])
def test_blocks_of_keys_are_joined_whatever_the_order_of_their_axes(right: bool) -> None:
    def code(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        made = []
        for a, b in zip(k.split(3), v.split(3), strict=True):
            s = torch.einsum("qhd,khd->qhk", q, a) / 2
            top = s.amax(-1, keepdim=True)
            e = torch.exp(s - top)
            made.append((torch.einsum("khe,qhk->qhe", b, e), e.sum(-1, keepdim=True), top))
        top = torch.stack([one[2] for one in made]).amax(0)
        scaled = [torch.exp(one[2] - top) if right else 1.0 for one in made]
        both = zip(made, scaled, strict=True)
        total = sum(one[1] * factor for one, factor in zip(made, scaled, strict=True))
        return sum(one[0] * factor for one, factor in both) / total

    assert names(judged(code, *drawn((4, 2, 4), (6, 2, 4), (6, 2, 5)))) == ([] if right else ["unknown"])


def test_packed_heads_that_a_reshape_splits_off_are_found_behind_their_pieces() -> None:
    def code(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        q, k, v = (one.reshape(2, 3, 5, 4) for one in (x @ w).chunk(3, -1))
        return ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).reshape(2, 5, 12)

    assert "split_view" in names(judged(code, *drawn((2, 5, 12), (12, 36))))


def test_keys_that_are_mixed_in_the_place_of_values() -> None:
    def code(x: torch.Tensor, w: torch.Tensor, packed: torch.Tensor) -> torch.Tensor:
        q, (k, _) = x @ w, (x @ packed).unflatten(-1, (2, 4)).unbind(2)
        return (q @ k.mT / 2).softmax(-1) @ k

    told = judged(code, *drawn((2, 5, 12), (12, 4), (12, 8)))
    assert [(fault.step, fault.mistake) for fault in told.faults] == [("values", "unknown")]


def test_heads_that_are_unfolded_in_another_order_behind_matrices_that_were_given() -> None:
    def code(x: torch.Tensor, *w: torch.Tensor) -> torch.Tensor:
        q, k, v = (torch.cat((x @ one).chunk(2, 2)) for one in w)
        return ((q @ k.mT / 2).softmax(-1) @ v).view(3, 2, 5, 4).transpose(1, 2).reshape(3, 5, 8)

    assert names(judged(code, *drawn((3, 5, 8), (8, 8), (8, 8), (8, 8)))) == ["fold_batch_head_swap"]


def test_weights_that_are_returned_of_heads_and_keys_together() -> None:
    def code(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        s = torch.einsum("bqnc,bknc->bqnk", q / 2, k)
        return s.flatten(2).softmax(-1).view(s.shape)

    assert names(judged(code, *drawn((2, 5, 3, 4), (2, 7, 3, 4)))) == ["softmax_heads_and_keys"]


LEAK = """
import torch

class Block(torch.nn.Module):
    \"\"\"Causal self-attention of x (B, T, dim).\"\"\"

    def __init__(self, dim=8):
        super().__init__()
        self.qkv = torch.nn.Linear(dim, 3 * dim)

    def forward(self, x):
        q, k, v = self.qkv(x - x.mean({axis}, keepdim=True)).chunk(3, -1)
        s = q @ k.mT / q.shape[-1] ** 0.5
        hidden = torch.ones(s.shape[-2:], dtype=torch.bool).triu(1)
        return s.masked_fill(hidden, float("-inf")).softmax(-1) @ v
"""


@pytest.mark.parametrize(("axis", "found"), [(-1, []), (1, ["unknown"])])
def test_what_is_taken_over_all_positions_is_not_causal(
    session: Session, axis: int, found: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "leak.py"
    file.write_text(LEAK.format(axis=axis))
    report = examine(session, f"{file}:Block")
    assert [one.id for one in report.findings if one.kind in ("mistake", "unknown")] == found
