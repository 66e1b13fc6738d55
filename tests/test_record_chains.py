"""overt.record: which calls of one attention are steps of one text, and which are texts of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
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


MIX = pytest.mark.parametrize("mix", [lambda q, k, v, seen: SDPA(q, k, v, attn_mask=seen), by_hand])


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


def whole(rec: Any, model: Attention, keep: str) -> None:
    """Each call by itself is what it was."""
    calls = rec.calls("")
    for call, (q, k, seen) in zip(calls, model.asked, strict=True):
        expected = (q @ k.mT * D**-0.5).masked_fill(~seen, -torch.inf).softmax(-1)
        np.testing.assert_allclose(call.received(), expected.sum(2), atol=1e-5)
        if keep != "statistics":
            np.testing.assert_allclose(call.weights, expected, atol=1e-5)
    assert str(rec)


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
