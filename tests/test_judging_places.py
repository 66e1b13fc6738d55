"""What belongs together is kept together: features, keys and values, queries and their outputs, samples and heads."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from overt.check.steps.judging import judge
from overt.check.steps.origins import places
from overt.recorder import record_operations


def drawn(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    rng = np.random.default_rng(3)
    return [torch.tensor(rng.normal(size=shape)) for shape in shapes]


def found(code: Any, *args: Any, **intended: Any) -> list[str]:
    """The mistakes, with the text of their lines."""
    with torch.no_grad():
        result, operations = record_operations(code, *args)
    results = result if isinstance(result, tuple) else (result,)
    return [
        f"{f.mistake} in {f.step}" for f in judge(operations, [x.numpy() for x in results], intended=intended).faults
    ]


def mixed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v


class Three(nn.Module):
    """Projections, and what a subclass does with them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(12, 12).double() for _ in range(4))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (3, 4)).transpose(1, 2)

    def attend(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        w = mixed(self.split(self.q(x)), self.split(self.k(y)), self.split(self.v(y)))
        return self.o(w.transpose(1, 2).flatten(2))


class Pixels(Three):
    """An image (B, C, H, W), of which every pixel is a token; or numbers that are as many."""

    def __init__(self, scrambled: bool = False) -> None:
        super().__init__()
        self.scrambled, self.norm = scrambled, nn.LayerNorm(12).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.reshape(2, 20, 12) if self.scrambled else x.flatten(2).transpose(1, 2)
        y = self.norm(tokens)
        return x + self.attend(y, y).transpose(1, 2).reshape(x.shape)


class Windows(Three):
    """Windows of 2 × 2 in an image (B, H, W, C), rolled if asked for; put back as they were taken, or not."""

    def __init__(self, back: tuple[int, ...], rolled: bool = False) -> None:
        super().__init__()
        self.back, self.by = back, rolled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, H, W, C = x.shape
        y = x.roll((-1, -1), (1, 2)) if self.by else x
        tokens = y.view(B, H // 2, 2, W // 2, 2, C).transpose(2, 3).reshape(-1, 4, C)
        y = self.attend(tokens, tokens).view(B, H // 2, W // 2, 2, 2, C).permute(self.back).reshape(x.shape)
        return y.roll((1, 1), (1, 2)) if self.by else y


class Shifted(Three):
    """Half of the features are those of the token before."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        y = torch.cat([x[..., :6], before[..., 6:]], -1)
        return x + self.attend(y, y)


class Patches(Three):
    """Patches of 3 tokens, and a residual."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(2, 5, 12)
        return self.attend(y, y).reshape(x.shape) + x


class Window(Three):
    """One token after the other, with the last three keys and values; or the first three values."""

    def __init__(self, first: bool = False) -> None:
        super().__init__()
        self.part = slice(0, 3) if first else slice(-3, None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys, values = x[:, :0], x[:, :0]
        out = []
        for t in range(x.shape[1]):
            token = x[:, t : t + 1]
            keys = torch.cat([keys, self.k(token)], 1)[:, -3:]
            values = torch.cat([values, self.v(token)], 1)[:, self.part]
            out.append(mixed(self.q(token), keys, values))
        return torch.cat(out, 1)


class Cross(Three):
    """Values of what the keys come from, with places added to the keys; or of what the queries come from."""

    def __init__(self, own: bool = False) -> None:
        super().__init__()
        self.own, self.at = own, nn.Parameter(torch.randn(5, 12).double())

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.o(mixed(self.q(x), self.k(y + self.at), self.v(x if self.own else y)))


class Folded(Three):
    """Time first, heads folded into the batch, and unfolded in either order."""

    def __init__(self, swapped: bool = False) -> None:
        super().__init__()
        self.swapped = swapped

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (f(x).view(5, 6, 4).transpose(0, 1) for f in (self.q, self.k, self.v))
        y = mixed(q, k, v)
        y = y.view(3, 2, 5, 4).permute(2, 1, 0, 3) if self.swapped else y.view(2, 3, 5, 4).permute(2, 0, 1, 3)
        return self.o(y.reshape(5, 2, 12))


class Lengths(Three):
    """Padding by lengths (B,), for heads folded into the batch, repeated for each sample or as a whole."""

    def __init__(self, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(f(x)).reshape(6, 5, 4) for f in (self.q, self.k, self.v))
        padded = torch.arange(5)[None] >= lengths[:, None]
        padded = padded.repeat(3, 1) if self.whole else padded.repeat_interleave(3, 0)
        w = (q @ k.mT / 2).masked_fill(padded[:, None], -torch.inf).softmax(-1)
        return (w @ v).view(2, 3, 5, 4).transpose(1, 2).flatten(2)


class Grouped(Three):
    """Keys and values of two heads in one projection, for four query heads."""

    def __init__(self, tiled: bool = False) -> None:
        super().__init__()
        self.tiled, self.kv = tiled, nn.Linear(12, 12).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = self.q(x).view(2, 5, 4, 3).transpose(1, 2)
        k, v = self.kv(x).view(2, 5, 2, 2, 3).permute(2, 0, 3, 1, 4)
        k, v = (y.repeat(1, 2, 1, 1) if self.tiled else y.repeat_interleave(2, 1) for y in (k, v))
        return mixed(q, k, v).transpose(1, 2).flatten(2)


class Ranked(Three):
    """The keys of the three largest scores, or of the three smallest."""

    def __init__(self, largest: bool) -> None:
        super().__init__()
        self.largest = largest

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        s = self.q(x) @ self.k(x).mT * 12**-0.5
        best, at = s.topk(3, dim=-1, largest=self.largest)
        return torch.zeros_like(s).scatter(-1, at, best.softmax(-1)) @ self.v(x)


class Normed(Three):
    """Queries and keys of one norm, times a number that somebody gave."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm = nn.functional.rms_norm
        q, k = (norm(self.split(f(x)), (4,)) * torch.tensor([1.0, 2, 0.5, 3]).double() for f in (self.q, self.k))
        return ((q @ k.mT) * 12**-0.5).softmax(-1) @ self.split(self.v(x))


class Channels(Three):
    """Channels attend to each other, with a learned factor for each head, of either sign (XCiT)."""

    def __init__(self) -> None:
        super().__init__()
        self.t = nn.Parameter(torch.tensor([0.5, -1.5, 2.0]).double().view(3, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(f(x)).mT for f in (self.q, self.k, self.v))
        w = (nn.functional.normalize(q, dim=-1) @ nn.functional.normalize(k, dim=-1).mT * self.t).softmax(-1)
        return (w @ v).mT.transpose(1, 2).flatten(2)


class Sink(Three):
    """One more logit for each head, whose weight is thrown away (GPT-OSS)."""

    def __init__(self) -> None:
        super().__init__()
        self.sinks = nn.Parameter(torch.randn(3).double())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.split(f(x)) for f in (self.q, self.k, self.v))
        s = torch.cat([q @ k.mT / 2, self.sinks.view(1, 3, 1, 1).expand(2, 3, 5, 1)], -1)
        return (s.softmax(-1)[..., :-1] @ v).transpose(1, 2).flatten(2)


class Differential(Three):
    """The difference of two softmaxes, and a norm after it (Ye et al. 2024)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (a, b), (c, d) = ((f(x)[..., :6], f(x)[..., 6:]) for f in (self.q, self.k))
        w = (a @ c.mT * 6**-0.5).softmax(-1) - 1.3 * (b @ d.mT * 6**-0.5).softmax(-1)
        return self.o(nn.functional.rms_norm(w @ self.v(x), (12,)))


class Sixteen(Three):
    """Weights that are rounded to half precision among wider numbers."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = (self.q(x) @ self.k(x).mT * 12**-0.5).to(torch.bfloat16).softmax(-1)
        return w.double() @ self.v(x)


def merged(log: Callable[..., Any], power: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """Two halves of the keys, merged by their log-sum-exps."""

    def code(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        parts = []
        for half in (slice(0, 3), slice(3, 6)):
            s = q @ k[:, half].mT * 4**-0.5
            lse = s.logsumexp(-1, keepdim=True)
            parts.append((torch.exp(s - lse) @ v[:, half], log(lse)))
        (a, x), (b, y) = parts
        one, two = power(x), power(y)
        return (a * one + b * two) / (one + two)

    return code


def gated(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Scores are multiplied by what is given."""
    return (q @ k.mT / 2 * seen[:, None]).softmax(-1) @ v


def packed(x: torch.Tensor) -> torch.Tensor:
    return mixed(*(x[:, :, i].transpose(1, 2) for i in range(3))).transpose(1, 2)


def returned(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bare: bool) -> tuple[torch.Tensor, torch.Tensor]:
    s = q @ k.mT * 4**-0.5
    w = s.softmax(-1)
    return w @ v, s if bare else w


class Prefixed(Three):
    """Learned keys before those of the tokens, and learned values behind theirs, or before them too."""

    def __init__(self, behind: bool = False) -> None:
        super().__init__()
        self.behind, self.more = behind, nn.Parameter(torch.randn(2, 1, 3, 12).double())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys, values = self.more.expand(-1, len(x), -1, -1)
        several = [values, self.v(x)]
        k, v = torch.cat([keys, self.k(x)], 1), torch.cat(several[::-1] if self.behind else several, 1)
        return self.o(mixed(*map(self.split, (self.q(x), k, v))).transpose(1, 2).flatten(2))


class OwnKeys(Three):
    """The keys are mixed; what would be values is a gate, or nothing."""

    def __init__(self, gated: bool = True) -> None:
        super().__init__()
        self.gated = gated

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        w = mixed(*map(self.split, (q, k, k))).transpose(1, 2).flatten(2)
        return self.o(w * v.sigmoid() if self.gated else w)


class Blocks(Three):
    """Attention and then attention of the tokens in another order, that is undone or not."""

    def __init__(self, lost: bool = False) -> None:
        super().__init__()
        self.lost = lost

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(x, x)
        order = torch.tensor([3, 0, 4, 1, 2])
        y = self.attend(x[:, order], x[:, order])
        return x + y[:, order if self.lost else order.argsort()]


def kept(late: bool) -> Callable[[np.ndarray], np.ndarray]:
    """One token after another, of which the last few are kept; each value when its key is, or after the look."""
    drawn = np.random.default_rng(0)
    a, b, c = (drawn.normal(size=(6, 6)) for _ in range(3))

    def run(series: np.ndarray) -> np.ndarray:
        keys, values, found = np.zeros((7, 6)), np.zeros((7, 6)), []
        for t, x in enumerate(series):
            keys[t], values[t] = x @ b, values[t] if late else x @ c
            s = keys[: t + 1] @ (x @ a) / 6**0.5
            e = np.exp(s - s.max())
            found.append((e / e.sum()) @ values[: t + 1])
            values[t] = x @ c
        return np.stack(found)

    return run


@pytest.mark.parametrize("late", [False, True])
def test_a_value_is_there_when_its_key_is(late: bool) -> None:
    result, operations = record_operations(kept(late), np.random.default_rng(1).normal(size=(5, 6)))
    faults = judge(operations, [result]).faults
    assert {(f.mistake, f.step) for f in faults} == ({("unknown", "mixing")} if late else set())


def named(name: str, bare: bool) -> Callable[..., dict[str, torch.Tensor]]:
    """A dictionary with scores, or the weights, under a name."""

    def code(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> dict[str, torch.Tensor]:
        s = q @ k.mT * 4**-0.5
        return {"output": s.softmax(-1) @ v, name: s if bare else s.softmax(-1)}

    return code


def whole(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    s = q @ k.mT * 4**-0.5
    e = (s - s.max(-1, keepdim=True).values).exp()
    return e / e.sum() @ v


@pytest.mark.parametrize(
    ("code", "shapes", "mistake"),
    [
        (Pixels(scrambled=True), [(2, 12, 4, 5)], "unknown in positions"),
        (Windows((0, 1, 4, 2, 3, 5)), [(2, 4, 6, 12)], "unknown in merge"),
        (Windows((0, 1, 4, 2, 3, 5), rolled=True), [(2, 4, 4, 12)], "unknown in merge"),
        (Window(first=True), [(2, 6, 12)], "unknown in mixing"),
        (Cross(own=True), [(2, 5, 12), (2, 5, 12)], "unknown in values"),
        (Folded(swapped=True), [(5, 2, 12)], "fold_batch_head_swap in merge"),
        (Grouped(tiled=True), [(2, 5, 12)], "gqa_tile in groups"),
        (Ranked(largest=False), [(2, 7, 12)], "unknown in mask"),
        (Prefixed(behind=True), [(2, 5, 12)], "unknown in mixing"),
        (OwnKeys(gated=False), [(2, 5, 12)], "unknown in values"),
        (Blocks(lost=True), [(2, 5, 12)], "unknown in merge"),
        (Sixteen(), [(2, 5, 12)], "softmax_low_precision in softmax"),
        (whole, [(5, 4), (7, 4), (7, 4)], "softmax_global in softmax"),
        (merged(lambda x: x, torch.exp2), [(2, 5, 4), (2, 6, 4), (2, 6, 4)], "lse_base2 in log-sum-exp"),
        (merged(lambda x: x / np.log(2), torch.exp), [(2, 5, 4), (2, 6, 4), (2, 6, 4)], "lse_base2 in log-sum-exp"),
        (lambda q, k, v: returned(q, k, v, True), [(5, 4), (7, 4), (7, 4)], "returns_scores in weights"),
    ],
)
def test_what_was_moved_is_found(code: Any, shapes: list[tuple[int, ...]], mistake: str) -> None:
    assert set(found(code, *drawn(*shapes), memory=True)) == {mistake}


@pytest.mark.parametrize(
    ("code", "shapes"),
    [
        (Pixels(), [(2, 12, 4, 5)]),
        (Windows((0, 1, 3, 2, 4, 5)), [(2, 4, 6, 12)]),
        (Windows((0, 1, 3, 2, 4, 5), rolled=True), [(2, 4, 4, 12)]),
        (Shifted(), [(2, 5, 12)]),
        (Patches(), [(2, 15, 4)]),
        (Window(), [(2, 6, 12)]),
        (Prefixed(), [(2, 5, 12)]),
        (OwnKeys(), [(2, 5, 12)]),
        (Blocks(), [(2, 5, 12)]),
        (Cross(), [(2, 5, 12), (2, 5, 12)]),
        (Folded(), [(5, 2, 12)]),
        (Grouped(), [(2, 5, 12)]),
        (Ranked(largest=True), [(2, 7, 12)]),
        (Normed(), [(2, 5, 12)]),
        (Channels(), [(2, 7, 12)]),
        (Sink(), [(2, 5, 12)]),
        (Differential(), [(2, 5, 12)]),
        (merged(lambda x: x, torch.exp), [(2, 5, 4), (2, 6, 4), (2, 6, 4)]),
        (merged(lambda x: x / np.log(2), torch.exp2), [(2, 5, 4), (2, 6, 4), (2, 6, 4)]),
        (gated, [(2, 5, 4), (2, 7, 4), (2, 7, 4), (2, 7)]),
        (packed, [(2, 5, 3, 2, 4)]),
        (lambda q, k, v: returned(q, k, v, False), [(5, 4), (7, 4), (7, 4)]),
    ],
)
def test_what_is_moved_and_belongs_there_is_left_alone(code: Any, shapes: list[tuple[int, ...]]) -> None:
    assert found(code, *drawn(*shapes), memory=True) == []


@pytest.mark.parametrize(
    ("name", "bare", "wrong"),
    [("attention_raw", True, False), ("attention", True, True), ("attention", False, False)],
)
def test_scores_that_are_called_so_are_not_in_the_place_of_weights(name: str, bare: bool, wrong: bool) -> None:
    result, operations = record_operations(named(name, bare), *drawn((5, 4), (7, 4), (7, 4)))
    told = judge(operations, [x.numpy() for x in result.values()], intended={"returned": [f".{n}" for n in result]})
    assert [f.mistake for f in told.faults] == ["returns_scores"] * wrong


@pytest.mark.parametrize("whole", [False, True])
def test_each_sample_has_its_own_padding(whole: bool) -> None:
    told = found(Lengths(whole), *drawn((2, 5, 12)), torch.tensor([5, 3]))
    assert told == (["mask_fold_order in mask"] if whole else [])


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_places_are_found_where_numbers_come_twice(data: st.DataObject) -> None:
    B, T, H, D = (data.draw(st.integers(2, 4)) for _ in range(4))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    large = rng.normal(size=(B, T, H * D))
    # A token that all samples have, and a row that comes again.
    large[:, 0] = large[:1, 0]
    if data.draw(st.booleans()):
        large[0, T - 1] = large[0, 1]
    at = np.arange(large.size).reshape(B, T, H, D).transpose(0, 2, 1, 3).reshape(B * H, T, D)
    found = places(large.ravel()[at], large)
    if found is not None:
        flat = np.ravel_multi_index(tuple(found), large.shape)
        np.testing.assert_array_equal(large.ravel()[flat], large.ravel()[at])
        single = np.array([(large == x).sum() == 1 for x in large.ravel()[at].ravel()]).reshape(at.shape)
        np.testing.assert_array_equal(flat[single], at[single])
    # Where only the token is the same everywhere, it is sure.
    if T > 2 and len(np.unique(large)) == large.size - (B - 1) * H * D:
        assert found is not None
        np.testing.assert_array_equal(flat, at)


def test_an_attention_along_the_samples_has_as_many_keys() -> None:
    class Classified(nn.Module):
        def __init__(self, first: bool) -> None:
            super().__init__()
            self.first = nn.Parameter(torch.randn(1, 1, 8))
            self.attention = nn.MultiheadAttention(8, 2, batch_first=first)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
            return self.attention(x, x, x, need_weights=False)[0]

    for first in (True, False):
        model = Classified(first).double().eval()
        with torch.no_grad():
            result, operations = record_operations(model, *drawn((2, 5, 8)))
        facts = judge(operations, [result.numpy()]).facts
        # As many keys as there are samples, or a token of their own and five positions.
        assert [span["keys"] for span in facts["spans"]] == [6 if first else 2]


def test_lengths_that_hide_what_they_count_are_found() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor, flip: bool) -> torch.Tensor:
        there = (torch.arange(k.shape[-2]) < lengths[:, None])[:, None]
        s = q @ k.mT * q.shape[-1] ** -0.5
        return s.masked_fill(there if flip else ~there, -1e9).softmax(-1) @ v

    args = *drawn((2, 5, 4), (2, 7, 4), (2, 7, 4)), torch.tensor([4, 6])
    assert found(attend, *args, False) == []
    assert found(attend, *args, True) == ["mask_inverted in mask"]


def ahead(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    every = torch.ones(q.shape[-2], k.shape[-2]).bool()
    seen = every.tril(1)
    s = q @ k.mT * 4**-0.5
    return s.masked_fill(~seen, -torch.inf).softmax(-1) @ v


def shared(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    q, k, v = (x.unflatten(-1, (2, 4)).transpose(1, 2).flatten(0, 1) for x in (q, k, v))
    rows = hidden.repeat(2, 1)
    s = q @ k.mT * 4**-0.5
    y = s.masked_fill(rows[:, None], -torch.inf).softmax(-1) @ v
    return y.unflatten(0, (-1, 2)).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("code", "shapes", "masks", "mistake", "text"),
    [
        (ahead, [(2, 5, 4)] * 3, [], "causal_off_by_one", "every.tril(1)"),
        (shared, [(3, 5, 8)] * 3, [[5, 3, 4]], "mask_fold_order", "hidden.repeat"),
    ],
)
def test_a_mask_is_wrong_where_it_was_made(
    code: Any, shapes: list[tuple[int, ...]], masks: list[list[int]], mistake: str, text: str
) -> None:
    hidden = [torch.arange(5) >= torch.tensor(lengths)[:, None] for lengths in masks]
    result, operations = record_operations(code, *drawn(*shapes), *hidden)
    (fault,) = judge(operations, [result.numpy()]).faults
    assert fault.mistake == mistake
    assert text in linecache.getline(fault.file, fault.line or 0)
