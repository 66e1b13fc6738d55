"""overt.record: which calls of one attention are steps of one text, and which are texts of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

import overt
from overt.errors import RecordingError

W, H = 8, 2
D = W // H
SDPA = functional.scaled_dot_product_attention
KEEP = pytest.mark.parametrize("keep", ["qk", "disk", "statistics"])


def by_hand(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    return (q @ k.mT * D**-0.5).masked_fill(~seen, -torch.inf).softmax(-1) @ v


MIXES: tuple[Callable[..., Tensor], ...] = (lambda q, k, v, seen: SDPA(q, k, v, attn_mask=seen)), by_hand
MIX = pytest.mark.parametrize("mix", MIXES)


class Attention(nn.Module):
    """Attention of x to a memory; what each call asked is kept."""

    def __init__(self, mix: Callable[..., Tensor]) -> None:
        super().__init__()
        self.mix, self.q, self.kv = mix, nn.Linear(W, W), nn.Linear(W, 2 * W)
        self.asked: list[tuple[Tensor, Tensor, Tensor]] = []

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (H, D)).transpose(1, 2)

    def attend(self, x: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
        q = self.split(self.q(x))
        self.asked.append((q, k, seen))
        return self.mix(q, k, v, seen).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        k, v = map(self.split, self.kv(memory).chunk(2, -1))
        return self.attend(x, k, v, torch.ones(x.shape[1], memory.shape[1], dtype=torch.bool))


class Cached(Attention):
    """Causal self-attention behind learned keys, which keeps what it read, or the last of it."""

    def __init__(self, mix: Callable[..., Tensor], learned: int = 0, last: int | None = None) -> None:
        super().__init__(mix)
        self.learned, self.last = nn.Parameter(torch.randn(1, learned, W)), last
        self.known: Tensor | None = None

    def forward(self, x: Tensor, causal: bool = True) -> Tensor:
        before = self.learned if self.known is None else self.known
        read = torch.cat([before, x], 1)
        k, v = map(self.split, self.kv(read).chunk(2, -1))
        self.known = read if self.last is None else read[:, -self.last :]
        places = torch.arange(x.shape[1])[:, None] + before.shape[1]
        seen = torch.arange(read.shape[1]) <= (places if causal else read.shape[1])
        return self.attend(x, k, v, seen.expand(x.shape[1], -1))


def expected(asked: tuple[Tensor, Tensor, Tensor]) -> np.ndarray:
    """The weights of one call."""
    q, k, seen = asked
    return (q @ k.mT * D**-0.5).masked_fill(~seen, -torch.inf).softmax(-1).numpy()


def whole(rec: Any, model: Attention, keep: str, name: str = "") -> None:
    """Each call by itself is what it was, with room to spare at its end or without."""
    for call, asked in zip(rec.calls(name), model.asked, strict=True):
        weights = expected(asked)
        received = call.received()
        np.testing.assert_allclose(received, weights.sum(2)[..., : received.shape[2]], atol=1e-5)
        assert not weights[..., received.shape[2] :].any()
        if keep != "statistics":
            np.testing.assert_allclose(call.weights, weights[..., : received.shape[2]], atol=1e-5)


@KEEP
@MIX
def test_memories_that_begin_alike_are_two(keep: str, mix: Callable[..., Tensor], tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, memories = Attention(mix), torch.randn(2, 1, 9, W)
    memories[1, :, 0] = memories[0, :, 0]
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        for memory in memories:
            model(torch.randn(1, 3, W), memory)
    whole(rec, model, keep)
    with pytest.raises(RecordingError, match=r"\(model\) attended 2 times to texts"):
        rec[""]


@KEEP
@MIX
def test_a_call_is_whole_though_some_of_it_was_taken_back(keep: str, mix: Callable[..., Tensor], tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = Cached(mix)
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        model(torch.randn(1, 7, W))
        model.known = model.known[:, :4]
        model(torch.randn(1, 1, W))
    whole(rec, model, keep)
    assert rec[""].lse.shape == (1, H, 5)
    assert str(rec)


@KEEP
@MIX
def test_what_was_seen_and_is_gone_is_not_taken_back(keep: str, mix: Callable[..., Tensor], tmp_path: Any) -> None:
    torch.manual_seed(0)
    model = Cached(mix)
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        model(torch.randn(1, 7, W), causal=False)
        model.known = model.known[:, :4]
        model(torch.randn(1, 1, W))
    whole(rec, model, keep)
    with pytest.raises(RecordingError, match="texts that do not continue"):
        rec[""]


@KEEP
@MIX
@pytest.mark.parametrize("last", [None, 3])
def test_of_one_token_again_and_again_nothing_is_guessed(
    keep: str, mix: Callable[..., Tensor], last: int | None, tmp_path: Any
) -> None:
    torch.manual_seed(0)
    model, token = Cached(mix, last=last), torch.randn(1, 1, W)
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        for n in (6, 1, 1, 1):
            model(token.expand(1, n, W))
            # A window slides, or some tokens are taken back.
            model.known = model.known[:, :3]
    whole(rec, model, keep)
    with pytest.raises(RecordingError, match="texts that do not continue"):
        rec[""]


@KEEP
@MIX
@pytest.mark.parametrize("lengths", [(5, 5), (5, 2), (2, 5)])
def test_learned_keys_begin_every_text(
    keep: str, mix: Callable[..., Tensor], lengths: tuple[int, int], tmp_path: Any
) -> None:
    torch.manual_seed(0)
    model = Cached(mix, learned=2)
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        for n in lengths:
            model.known = None
            model(torch.randn(1, n, W))
    whole(rec, model, keep)
    with pytest.raises(RecordingError, match="texts that do not continue"):
        rec[""]


def folder(keep: str, path: Any) -> dict[str, Any]:
    return {"folder": path} if keep == "disk" else {}


@KEEP
@MIX
@pytest.mark.parametrize("back", [2, 4])
def test_tokens_taken_back_in_room_to_spare(keep: str, mix: Callable[..., Tensor], back: int, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, x = Stepped(mix, room=20), torch.randn(1, 9, W)
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        model(x[:, :5])
        model.count -= back
        model(x[:, 5:6])
        model.count -= 1
        model(x[:, 6:])
    whole(rec, model, keep)
    model.room = 0
    same(rec[""], once(model, torch.cat([x[:, : 5 - back], x[:, 6:]], 1)))


@KEEP
def test_keys_tell_where_a_token_stands_that_comes_again_and_again(keep: str, tmp_path: Any) -> None:
    torch.manual_seed(0)
    model, token = Stepped(MIXES[0], turn=True, last=3), torch.randn(1, 1, W)
    with torch.no_grad(), overt.record(model, keep=keep, **folder(keep, tmp_path)) as rec:
        for n in (6, 1, 2, 1):
            model(token.expand(1, n, W))
    whole(rec, model, keep)
    same(rec[""], once(model, token.expand(1, 10, W)))


class Stepped(Attention):
    """Causal self-attention that keeps what it read, in room to spare or not, or sees the last of it only."""

    def __init__(
        self,
        mix: Callable[..., Tensor],
        *,
        turn: bool = False,
        room: int = 0,
        last: int | None = None,
        learned: int = 0,
        strict: bool = False,
    ) -> None:
        super().__init__(mix)
        self.turn, self.room, self.last, self.strict = turn, room, last, strict
        self.learned = nn.Parameter(torch.randn(2, 1, H, learned, D))
        self.start(1)

    def start(self, batch: int) -> None:
        """Begin a text."""
        self.count = self.learned.shape[3]
        spare = torch.zeros(2, batch, H, max(self.room - self.count, 0), D)
        self.known = torch.cat([self.learned.expand(2, batch, *self.learned.shape[2:]), spare], 3).detach()

    def forward(self, x: Tensor) -> Tensor:
        T = x.shape[1]
        q, k, v = map(self.split, (self.q(x), *self.kv(x).chunk(2, -1)))
        places = torch.arange(self.count, self.count + T)
        if self.turn:
            angles = places[:, None] * torch.tensor([1.0, 0.3])
            q, k = (turned(y, angles.cos(), angles.sin()) for y in (q, k))
        new = torch.stack([k, v])
        known = torch.cat([self.known[:, :, :, : self.count], new, self.known[:, :, :, self.count + T :]], 3)
        self.known, self.count = known if self.room else known[:, :, :, : self.count + T], self.count + T
        first = 0 if self.last is None else max(self.count - T - self.last, 0)
        keys = torch.arange(first, self.known.shape[3])
        seen = (keys <= places[:, None] - int(self.strict)) | (keys == 0)
        if self.last is not None:
            seen &= keys >= places[:, None] - self.last
        return self.attend(x, *self.known[:, :, :, first:], seen)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def same(seen: Any, asked: tuple[Tensor, Tensor, Tensor]) -> None:
    """What was joined is what one pass over the whole text asked."""
    weights = expected(asked)
    assert seen.lse.shape == weights.shape[:3]
    entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(-1)
    np.testing.assert_allclose(seen.entropy(), entropy, atol=1e-5)
    if seen.kept is None:
        # Of a single call nobody knows how much is room to spare.
        found = np.asarray(seen.weights)
        assert seen.steps == 1 or found.shape == weights.shape
        np.testing.assert_allclose(found[..., : weights.shape[-1]], weights, atol=1e-5)


def once(model: Stepped, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What one pass over the whole text asks."""
    model.start(len(x))
    with torch.no_grad():
        model(x)
    return model.asked.pop()


class Decoder(nn.Module):
    """Tokens, their attention to each other, and to a memory."""

    def __init__(self, own: Stepped, across: Attention) -> None:
        super().__init__()
        self.tokens, self.own, self.across = nn.Embedding(4, W), own, across

    def forward(self, ids: Tensor, memory: Tensor) -> Tensor:
        x = self.tokens(ids)
        x = x + self.own(x)
        return x + self.across(x, memory)


SCRIPTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("read"), st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), min_size=1, max_size=5)
        ),
        st.tuples(st.just("back"), st.integers(1, 6)),
        st.tuples(st.just("rows"), st.lists(st.integers(0, 2), min_size=3, max_size=3)),
        st.tuples(st.just("new"), st.booleans()),
    ),
    min_size=2,
    max_size=7,
)


@given(
    script=SCRIPTS,
    kind=st.sampled_from([{}, {"room": 48}, {"last": 2}, {"last": 3}]),
    turn=st.booleans(),
    learned=st.sampled_from([0, 0, 2]),
    strict=st.sampled_from([False, False, True]),
    mix=st.sampled_from(["sdpa", "by hand"]),
    batch=st.sampled_from([1, 3]),
    memories=st.sampled_from([1, 3]),
    keep=st.sampled_from(["qk", "statistics"]),
)
def test_what_is_joined_is_what_one_pass_gives(
    script: list[tuple[str, Any]],
    kind: dict[str, int],
    mix: str,
    batch: int,
    memories: int,
    keep: str,
    **options: Any,
) -> None:
    torch.manual_seed(0)
    mixes = MIXES[mix == "by hand"]
    own = Stepped(mixes, **kind, **options)
    model, memory = Decoder(own, Attention(mixes)), torch.randn(memories, 4, W).expand(3, -1, -1)[:batch]
    texts: list[list[int]] = [[] for _ in range(batch)]
    own.start(batch)
    with torch.no_grad(), overt.record(model, keep=keep) as rec:
        # What was taken back or moved is seen where something is read.
        for what, how in [("read", [[0, 1, 2]]), *script, ("read", [[1, 1, 0]])]:
            if what == "read":
                texts = [[*text, *(ids[b] for ids in how)] for b, text in enumerate(texts)]
                model(torch.tensor([list(ids[:batch]) for ids in how]).T, memory)
            elif what == "back" and how <= len(texts[0]):
                texts, own.count = [text[:-how] for text in texts], own.count - how
            elif what == "rows" and batch > 1:
                texts, own.known = [texts[b] for b in how], own.known[:, how]
                memory = memory[how]
            elif what == "new":
                texts = [[] for _ in texts]
                if how and own.room:
                    own.count = own.learned.shape[3]
                else:
                    own.start(batch)
    for name, module in (("own", own), ("across", model.across)):
        whole(rec, module, keep, name)
    own.room = 0
    own.start(batch)
    with torch.no_grad():
        model(torch.tensor(texts), memory)
    for name, module in (("own", own), ("across", model.across)):
        try:
            seen = rec[name]
        except RecordingError:
            continue
        same(seen, module.asked[-1])
