"""Positions inside a recording: what is added to the input and to the scores, and how queries and keys are turned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from overt.check.steps.judging import Judged, judge
from overt.recorder import record_operations

B, H, T, D = 2, 3, 6, 8
W = H * D


def judged(code: Any, *args: Any, **intended: Any) -> Judged:
    result, operations = record_operations(code, *args)
    names = {f"parameter {name}": x.shape for name, x in code.named_parameters()} if isinstance(code, nn.Module) else {}
    return judge(operations, [result.detach().numpy()], given=names, intended=intended)


def drawn(*shape: int) -> Tensor:
    return torch.tensor(np.random.default_rng(1).normal(size=shape))


def accused(code: Any, *args: Any, **intended: Any) -> list[str]:
    return [fault.mistake for fault in judged(code, *args, **intended).faults]


class Attention(nn.Module):
    """Multi-head attention, three of whose places take what a test puts there."""

    def __init__(
        self,
        turn: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]] | None = None,
        bias: Callable[[int, int], Tensor] | None = None,
        table: Tensor | None = None,
        *,
        heads: int = H,
        causal: bool = False,
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.turn, self.bias, self.heads, self.causal = turn, bias, heads, causal
        self.register_buffer("table", table)
        self.q, self.k, self.v = (nn.Linear(W, W).double() for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        if self.table is not None:
            x = x + self.table[: x.shape[1]]
        y = x if memory is None else torch.cat([memory, x], 1)
        q, k, v = (
            f(z).view(*z.shape[:2], self.heads, -1).transpose(1, 2) for f, z in ((self.q, x), (self.k, y), (self.v, y))
        )
        if self.turn is not None:
            q, k, v = self.turn(q, k, v)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if self.bias is not None:
            scores = scores + self.bias(x.shape[1], y.shape[1])
        if self.causal:
            hidden = torch.ones(x.shape[1], y.shape[1], dtype=torch.bool).triu(1 + y.shape[1] - x.shape[1])
            scores = scores.masked_fill(hidden, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def angles(first: int, length: int, width: int = D, base: float = 10_000.0) -> Tensor:
    points = torch.arange(first, first + length, dtype=torch.float64)
    return points[:, None] * base ** (-torch.arange(0, width, 2).double() / width)


def by_halves(x: Tensor, a: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    a = torch.cat([a, a], -1)
    return x * a.cos() + torch.cat([-two, one], -1) * a.sin()


def by_neighbours(x: Tensor, a: Tensor) -> Tensor:
    one, two = x[..., ::2], x[..., 1::2]
    return torch.stack([one * a.cos() - two * a.sin(), one * a.sin() + two * a.cos()], -1).flatten(-2)


def by_complex(x: Tensor, a: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(a), a)).flatten(-2)


def written_as_halves(x: Tensor, a: Tensor) -> Tensor:
    one, two = x[..., ::2], x[..., 1::2]
    return torch.cat([one * a.cos() - two * a.sin(), one * a.sin() + two * a.cos()], -1)


def of_the_first(x: Tensor, a: Tensor) -> Tensor:
    return torch.cat([by_halves(x[..., : D // 2], a[:, : D // 4]), x[..., D // 2 :]], -1)


def both(rotate: Callable[[Tensor, Tensor], Tensor], **options: Any) -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    def turn(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        S = k.shape[2]
        return (
            rotate(q, angles(S - q.shape[2], q.shape[2], **options)),
            rotate(k, angles(0, S, **options)),
            v,
        )

    return turn


RIGHT_TURNS: dict[str, Any] = {
    "halves": both(by_halves),
    "neighbours": both(by_neighbours),
    "complex": both(by_complex),
    "written as halves": both(written_as_halves),
    "of the first features": both(of_the_first),
    "another base": both(by_halves, base=500_000.0),
    # Chen et al. 2023 (arXiv:2306.15595): positions are divided.
    "interpolated": both(lambda x, a: by_halves(x, a / 4)),
    # YaRN, Peng et al. 2023 (arXiv:2309.00071), equation 14: queries and keys grow.
    "scaled": both(lambda x, a: 1.2 * by_halves(x, a)),
    # Sun et al. 2022 (arXiv:2212.10554): queries grow along the positions, and keys shrink.
    "xpos": lambda q, k, v: (
        by_halves(q, angles(0, T)) * (0.9 ** torch.arange(T).double())[:, None],
        by_halves(k, angles(0, T)) * (0.9 ** -torch.arange(T).double())[:, None],
        v,
    ),
    # Heo et al. 2024: features of an image are turned by rows, others by columns.
    "axial": lambda q, k, v: (
        *(
            by_neighbours(
                x, torch.cat([angles(0, 3, D // 2).repeat_interleave(2, 0), angles(0, 2, D // 2).repeat(3, 1)], 1)
            )
            for x in (q, k)
        ),
        v,
    ),
    "learned factors": lambda q, k, v: (q * drawn(D), k * drawn(D), v),
    "norms": lambda q, k, v: (q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True), v),
}


@pytest.mark.parametrize("name", RIGHT_TURNS)
def test_rotations_that_are_right_are_not_accused(name: str) -> None:
    found = judged(Attention(RIGHT_TURNS[name]), drawn(B, T, W))
    assert [f.mistake for f in found.faults] == []
    steady = ("halves", "neighbours", "complex", "written as halves", "of the first features", "another base", "scaled")
    if name in (*steady, "interpolated", "xpos"):
        assert [e.outcome for e in found.ledger if e.step == "rotation"] == ["held"]


def test_queries_after_a_memory_are_turned_at_their_positions() -> None:
    x, memory = drawn(B, T, W), drawn(B, 2, W)
    assert accused(Attention(both(by_halves), causal=True), x, memory) == []

    def late(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return by_halves(q, angles(0, q.shape[2])), by_halves(k, angles(0, k.shape[2])), v

    assert accused(Attention(late, causal=True), x, memory) == ["rope_offset"]
    # Of another sequence, each has positions of its own.
    assert accused(Attention(late), x, memory) == []


def mixed_halves(x: Tensor, a: Tensor) -> Tensor:
    one, two = x.chunk(2, -1)
    a = a.repeat_interleave(2, -1)
    return x * a.cos() + torch.cat([-two, one], -1) * a.sin()


def mixed_neighbours(x: Tensor, a: Tensor) -> Tensor:
    a = torch.cat([a, a], -1)
    return x * a.cos() + torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2) * a.sin()


WRONG_TURNS: dict[str, tuple[Any, str]] = {
    "halves with the angles of neighbours": (both(mixed_halves), "rope_layout"),
    "neighbours with the angles of halves": (both(mixed_neighbours), "rope_layout"),
    "keys backwards": (
        lambda q, k, v: (by_neighbours(q, angles(0, T)), by_neighbours(k, -angles(0, T)), v), "unknown",
    ),
    "queries alone": (lambda q, k, v: (by_halves(q, angles(0, T)), k, v), "unknown"),
    "by the number of the head": (
        lambda q, k, v: (*(by_halves(x.transpose(1, 2), angles(0, H)).transpose(1, 2) for x in (q, k)), v), "unknown",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_TURNS)
def test_rotations_that_are_wrong_are_told(name: str) -> None:
    turn, mistake = WRONG_TURNS[name]
    assert set(accused(Attention(turn), drawn(B, T, W))) == {mistake}


def test_values_are_turned_only_where_nobody_said_which() -> None:
    def all_three(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = (by_halves(x, angles(0, T)) for x in (q, k, v))
        return q, k, v

    assert accused(Attention(all_three), drawn(B, T, W)) == []
    assert accused(Attention(all_three), drawn(B, T, W), **{"rotates q and k": True}) == ["unknown"]


def sinusoid(sine: Callable[[int], float], cosine: Callable[[int], float], base: float = 10_000.0) -> Tensor:
    """Pairs of a sine and a cosine, whose exponents of the base are functions of the pair."""
    at = np.arange(10)[:, None]
    columns = [f(at * base ** (-e(i))) for i in range(W // 2) for f, e in ((np.sin, sine), (np.cos, cosine))]
    return torch.tensor(np.concatenate(columns, 1))


def usual(i: int) -> float:
    return 2 * i / W


TABLES: dict[str, tuple[Tensor, list[str]]] = {
    "usual": (sinusoid(usual, usual), []),
    "another base": (sinusoid(usual, usual, 1000.0), []),
    "sines first": (torch.cat([sinusoid(usual, usual)[:, ::2], sinusoid(usual, usual)[:, 1::2]], 1), []),
    # tensor2tensor: the last wavelength is that of the base.
    "last wavelength": (sinusoid(lambda i: i / (W // 2 - 1), lambda i: i / (W // 2 - 1)), []),
    "from position 1": (sinusoid(usual, usual)[1:], []),
    "learned": (drawn(10, W), []),
    # Tancik et al. 2020: random frequencies.
    "random frequencies": (
        torch.tensor(
            np.concatenate([f(np.arange(10)[:, None] * np.abs(drawn(W // 2).numpy())) for f in (np.sin, np.cos)], 1)
        ),
        [],
    ),
    "an index twice": (sinusoid(lambda i: 4 * i / W, lambda i: 4 * i / W), ["pe_exponent"]),
    "the cosine's own index": (sinusoid(usual, lambda i: (2 * i + 1) / W), ["pe_exponent"]),
    "both": (sinusoid(lambda i: 4 * i / W, lambda i: (4 * i + 4) / W), ["pe_exponent"]),
    "half an index": (sinusoid(lambda i: i / W, lambda i: i / W), ["pe_exponent"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_added_to_the_input(name: str) -> None:
    table, mistakes = TABLES[name]
    assert accused(Attention(table=table), drawn(B, T, W)) == mistakes


def paper(heads: int) -> list[float]:
    """Press et al. 2022: their code."""

    def power(n: int) -> list[float]:
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        return [start * start**i for i in range(n)]

    if math.log2(heads).is_integer():
        return power(heads)
    below = 2 ** math.floor(math.log2(heads))
    return power(below) + paper(2 * below)[::2][: heads - below]


def linear(slopes: list[float], form: str, sign: float = 1.0) -> Callable[[int, int], Tensor]:
    def bias(length: int, keys: int) -> Tensor:
        ahead = torch.arange(keys).double() - torch.arange(length).double()[:, None] - (keys - length)
        if form == "from the first":
            ahead = ahead + keys - length
        distance = (
            torch.arange(keys).double().expand(length, -1)
            if form == "keys"
            else ahead
            if form == "ahead"
            else -ahead.abs()
        )
        return sign * torch.tensor(slopes)[:, None, None] * distance

    return bias


PLAIN = [2 ** (-8 * i / 6) for i in range(1, 7)]
BIASES: dict[str, tuple[Any, bool, list[str]]] = {
    "paper, 6 heads": (linear(paper(6), "ahead"), True, []),
    "written by the key alone": (linear(paper(6), "keys"), True, []),
    "both ways": (linear(paper(6), "both ways"), False, []),
    # MPT: every second slope of 8 first.
    "mpt": (linear([paper(8)[i] for i in (1, 3, 5, 7, 0, 2)], "ahead"), True, []),
    "slopes of one's own": (linear([0.3, 0.1, 0.2, 0.05, 0.7, 0.6], "ahead", -1.0), True, []),
    "learned": (lambda length, keys: drawn(6, length, keys), True, []),
    "rewards distance": (linear(paper(6), "ahead", -1.0), True, ["alibi_sign"]),
    "rewards distance both ways": (linear(paper(6), "both ways", -1.0), False, ["alibi_sign"]),
    "formula": (linear(PLAIN, "ahead"), True, ["alibi_slopes"]),
    "from 1": (linear([2 ** (-8 * i / 6) for i in range(6)], "ahead"), True, ["alibi_slopes"]),
}


@pytest.mark.parametrize("name", BIASES)
def test_biases_added_to_scores(name: str) -> None:
    bias, causal, mistakes = BIASES[name]
    assert accused(Attention(bias=bias, heads=6, causal=causal), drawn(B, T, W), alibi=True) == mistakes
    if "slopes" not in "".join(mistakes) or name == "from 1":
        assert accused(Attention(bias=bias, heads=6, causal=causal), drawn(B, T, W)) == mistakes


def test_slopes_by_the_formula_are_wrong_only_where_those_of_the_paper_are_meant() -> None:
    assert accused(Attention(bias=linear(PLAIN, "ahead"), heads=6, causal=True), drawn(B, T, W)) == []


@pytest.mark.parametrize(("form", "mistakes"), [("both ways", []), ("from the first", ["alibi_offset"])])
def test_distances_where_there_are_more_keys(form: str, mistakes: list[str]) -> None:
    assert accused(Attention(bias=linear(paper(6), form), heads=6), drawn(B, T, W), drawn(B, 3, W)) == mistakes


class Embedded(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.table = nn.Embedding(20, W).double()
        self.attend = Attention(table=sinusoid(usual, usual))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.attend(self.table(tokens) * self.factor)


@pytest.mark.parametrize(
    ("factor", "promised", "mistakes"),
    [
        (W**0.5, True, []), (W**0.5, False, []), (1.0, False, []), (3.0, False, []), (1.0, True, ["embed_scale"]),
        (W**-0.5, False, ["embed_scale"]), (W**-0.5, True, ["embed_scale"]),
    ],
)  # fmt: skip
def test_the_scale_of_embeddings(factor: float, promised: bool, mistakes: list[str]) -> None:
    tokens = torch.arange(B * T).reshape(B, T)
    assert accused(Embedded(factor), tokens, **{"embeddings times √d": promised}) == mistakes


class OfTheKind(Attention):
    """The bias takes the type of the input, and none of its numbers."""

    def __init__(self) -> None:
        super().__init__(
            lambda q, k, v: (self._noted(q), k, v), lambda length, keys: self._like(length, keys), causal=True
        )

    def _noted(self, q: Tensor) -> Tensor:
        self.seen = q
        return q

    def _like(self, length: int, keys: int) -> Tensor:
        return linear([1.0, 2 ** (-8 / 3), 2 ** (-16 / 3)], "ahead")(length, keys).float().to(self.seen)


def test_what_takes_a_type_takes_no_numbers() -> None:
    assert accused(OfTheKind(), drawn(B, T, W)) == ["alibi_slopes"]
