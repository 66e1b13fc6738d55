"""Attention deep inside whole models: translators, streams of blocks, chunks, clips; and what these keep or give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report

SOURCE = '''
"""Models with attention inside.

Clip [B, 3, T, H, W] -> tubelets by a convolution.
"""
import math

import numpy as np
import torch
from torch import nn


class Translator(nn.Module):
    """Luong's general score, h W s, between all states of the decoder and those of the encoder."""

    def __init__(self, words=30, width=16):
        super().__init__()
        self.source, self.target = nn.Embedding(words, width), nn.Embedding(words, width)
        self.encoder = nn.LSTM(width, width, batch_first=True)
        self.decoder = nn.LSTM(width, width, batch_first=True)
        self.general, self.both = nn.Linear(width, width, bias=False), nn.Linear(2 * width, width)

    def forward(self, src, tgt):
        """src (B, S), tgt (B, T) -> (B, T, width)"""
        states, last = self.encoder(self.source(src))
        asking, _ = self.decoder(self.target(tgt), last)
        weights = torch.softmax(asking @ self.general(states).mT, -1)
        return torch.tanh(self.both(torch.cat([weights @ states, asking], -1)))


class Store:
    """Keys and values in float16 and products in float32, divided by the root of the width of a head."""

    def __init__(self, heads=4, width=16, room=64):
        self.divisor = math.sqrt(width)
        self.keys, self.values = np.zeros((2, heads, room, width), np.float16)
        self.seen = 0

    def step(self, q, k, v):
        """q, k, v: (heads, width) of the new token"""
        self.keys[:, self.seen], self.values[:, self.seen] = k, v
        self.seen += 1
        keys, values = self.keys[:, : self.seen], self.values[:, : self.seen]
        scores = np.einsum("hd,hsd->hs", q.astype(np.float16), keys) / self.divisor
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hs,hsd->hd", scores / scores.sum(-1, keepdims=True), values)


class StoreByWidth(Store):
    """Keys and values in float16 and products in float32, divided by the root of the width of a head."""

    def __init__(self, heads=4, width=16, room=64):
        super().__init__(heads, width, room)
        self.divisor = width


class Slots(nn.Module):
    """Eight slots of 64 features see each other, in eight heads of eight."""

    turned = -2, -1

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, slots):
        """slots [B, 8, 64]"""
        if slots.size(1) != 8:
            raise ValueError("expected 8 slots")
        q, k, v = self.inner(slots).unflatten(-1, (3, 8, 8)).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(*self.turned) / 8**0.5, -1)
        return self.outer((weights @ v).transpose(1, 2).flatten(2))


class SlotsTurned(Slots):
    """Eight slots of 64 features see each other, in eight heads of eight."""

    turned = 1, 2


class Stream(nn.Module):
    """Each block sees itself, in both directions, and what came before; ALiBi takes slope * |i - j| away."""

    shifted = True

    def __init__(self, width=32, heads=4, memory=6):
        super().__init__()
        self.heads, self.memory = heads, memory
        self.query, self.both = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, block, past=None):
        """block (B, T, width) -> (B, T, width), and what the next one is given"""
        whole = block if past is None else torch.cat([past, block], 1)
        T, S = block.size(1), whole.size(1)
        q = self.query(block).unflatten(-1, (self.heads, -1))
        k, v = self.both(whole).unflatten(-1, (2, self.heads, -1)).unbind(2)
        i = torch.arange(T) + (S - T if self.shifted else 0)
        away = (i[:, None] - torch.arange(S)).abs()
        scores = torch.einsum("bthd,bshd->bhts", q, k) * q.size(-1) ** -0.5
        weights = torch.softmax(scores - self.slopes[:, None, None] * away, -1)
        return torch.einsum("bhts,bshd->bthd", weights, v).flatten(2), whole[:, -self.memory :]


class StreamFromZero(Stream):
    """Each block sees itself, in both directions, and what came before; ALiBi takes slope * |i - j| away."""

    shifted = False


class Chunks(nn.Module):
    """A question attends to a document chunk by chunk; these are merged by their log-sum-exps."""

    axis = 2

    def __init__(self, width=32, heads=4, chunk=16):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.query, self.both = nn.Linear(width, width), nn.Linear(width, 2 * width)

    def forward(self, question, document):
        """question (B, T, width), document (B, S, width)"""
        q = self.query(question).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.both(document).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scale = k.shape[self.axis + 1] ** -0.5
        parts, sums = [], []
        for at in range(0, k.shape[2], self.chunk):
            scores = q @ k[:, :, at : at + self.chunk].mT * scale
            sums.append(scores.logsumexp(-1, keepdim=True))
            parts.append(torch.softmax(scores, -1) @ v[:, :, at : at + self.chunk])
        shares = torch.softmax(torch.stack(sums), 0)
        return (shares * torch.stack(parts)).sum(0).transpose(1, 2).flatten(2)


class ChunksByLength(Chunks):
    """A question attends to a document chunk by chunk; these are merged by their log-sum-exps."""

    axis = 1


class Additive(nn.Module):
    def __init__(self, query, key, hidden):
        super().__init__()
        self.query, self.key = nn.Linear(query, hidden, bias=False), nn.Linear(key, hidden)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, state, memory, lengths):
        energy = self.v(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
        energy = energy.masked_fill(torch.arange(memory.size(1)) >= lengths[:, None], -1e9)
        align = torch.softmax(energy, -1)
        return (align.unsqueeze(1) @ memory).squeeze(1), energy


class Aligned(nn.Module):
    """Gives the frames and the attention weights [B, frames, characters]."""

    def __init__(self, mel=20, enc=32, state=48):
        super().__init__()
        self.state, self.cell = state, nn.GRUCell(mel + enc, state)
        self.attention, self.frame = Additive(state, enc, 24), nn.Linear(state + enc, mel)

    def forward(self, memory, lengths, targets):
        """memory [B, S, enc], lengths [B], targets [B, F, mel]"""
        h, context = memory.new_zeros(len(memory), self.state), memory.new_zeros(len(memory), memory.size(2))
        frames, weights = [], []
        for target in targets.unbind(1):
            h = self.cell(torch.cat([target, context], -1), h)
            context, w = self.attention(h, memory, lengths)
            frames.append(self.frame(torch.cat([h, context], -1)))
            weights.append(w)
        return torch.stack(frames, 1), torch.stack(weights, 1)


class Energies(Additive):
    """Gives the context and the energies before the softmax; memory [B, S, 32], state [B, 48], lengths [B]."""

    def __init__(self):
        super().__init__(48, 32, 24)


class Shares(nn.Module):
    """Gives what each word attends to, averaged over the heads."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads, self.inner = heads, nn.Linear(width, 3 * width)

    def forward(self, x):
        """x [B, T, width] -> (B, T, width), attention (B, T, T)"""
        q, k, v = self.inner(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.size(-1) ** 0.5
        weights = torch.softmax(scores, -1)
        return (weights @ v).transpose(1, 2).flatten(2), weights.mean(1)


class SharesOfScores(Shares):
    """Gives what each word attends to, averaged over the heads."""

    def forward(self, x):
        """x [B, T, width] -> (B, T, width), attention (B, T, T)"""
        q, k, v = self.inner(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.size(-1) ** 0.5
        return (torch.softmax(scores, -1) @ v).transpose(1, 2).flatten(2), scores.mean(1)


class Neighbours(nn.Module):
    def __init__(self, width, heads=2, size=10):
        super().__init__()
        self.heads, self.size = heads, size
        self.ask, self.tell = nn.Linear(width, heads * size), nn.Linear(width + 1, 2 * heads * size)

    def forward(self, x, others, ages, present):
        """x [B, F]; others [B, K, F]; ages [B, K] in seconds; present [B, K] bool."""
        q = self.ask(x).view(len(x), self.heads, self.size)
        both = self.tell(torch.cat([others, torch.cos(ages).unsqueeze(-1)], -1))
        k, v = both.view(*ages.shape, 2, self.heads, self.size).unbind(2)
        scores = torch.einsum("bhd,bkhd->bhk", q, k) / math.sqrt(self.size)
        scores = scores.masked_fill(~present[:, None], torch.finfo(scores.dtype).min)
        return torch.einsum("bhk,bkhd->bhd", scores.softmax(-1), v).flatten(1)


class Scorer(nn.Module):
    def __init__(self, width=12, **more):
        super().__init__()
        self.context = Neighbours(width, **more)
        self.head = nn.Linear(width + 20, 1)

    def forward(self, x, others, ages, present):
        return self.head(torch.cat([x, self.context(x, others, ages, present)], -1))


class Thrice(nn.Module):
    """Passages of one list look at each other, by a query, a key and a value map of their own."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.maps = nn.ModuleList([nn.Linear(width, width)] * 3)

    def forward(self, passages):
        """passages [B, N, width]"""
        q, k, v = [one(passages).unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in self.maps]
        weights = torch.softmax(q @ k.mT / q.size(-1) ** 0.5, -1)
        return (weights @ v).transpose(1, 2).flatten(2)


class Filmed(nn.Module):
    """Tubelets of a clip see each other."""

    def __init__(self, width=32, frames=4, size=16):
        super().__init__()
        self.embed = nn.Conv3d(3, width, (2, 8, 8), (2, 8, 8))
        self.places = nn.Parameter(torch.randn(1, frames // 2 * (size // 8) ** 2, width))
        self.inner = nn.Linear(width, 3 * width)

    def forward(self, clip):
        x = self.embed(clip).flatten(2).transpose(1, 2) + self.places
        q, k, v = self.inner(x).chunk(3, -1)
        return torch.softmax(q @ k.mT / q.size(-1) ** 0.5, -1) @ v


class Gated(nn.Module):
    """Gated linear attention (Yang et al. 2024): each position forgets by a factor of its own; there is no softmax."""

    sign = 1

    def __init__(self, width=24):
        super().__init__()
        self.inner, self.gate = nn.Linear(width, 3 * width), nn.Linear(width, 1)

    def forward(self, x):
        """x [B, T, width]"""
        q, k, v = self.inner(x).chunk(3, -1)
        forgotten = nn.functional.logsigmoid(self.gate(x)).cumsum(1)
        factors = (self.sign * (forgotten - forgotten.mT)).exp().tril()
        return q @ k.mT * q.size(-1) ** -0.5 * factors @ v


class GatedTheOtherWay(Gated):
    """Gated linear attention (Yang et al. 2024): each position forgets by a factor of its own; there is no softmax."""

    sign = -1


class GPTAttention(nn.Module):
    """The attention of one layer; the model hides what comes later by the mask that is added."""

    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, attention_mask=None):
        """x [B, T, width], attention_mask [B, 1, T, T]"""
        q, k, v = self.inner(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / q.size(-1) ** 0.5
        if attention_mask is not None:
            scores = scores + attention_mask
        return self.outer((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
'''

RIGHT = ["Shares", "Scorer", "GPTAttention", "Translator", "Slots", "Stream", "Chunks", "Energies", "Filmed"]
# The mistakes, and what their lines say.
WRONG = {
    "StoreByWidth": {"scale_d": "self.divisor", "softmax_low_precision": "np.float16"},
    "Store": {"softmax_low_precision": "np.float16"},
    "SlotsTurned": {"k_transposed_wrong": "k.transpose(*self.turned)"},
    "ChunksByLength": {"scale_seqlen": "scale = k.shape"},
    "Aligned": {"returns_scores": "squeeze(1), energy"},
    "GatedTheOtherWay": {"unknown": "* factors @ v"},
    "SharesOfScores": {"returns_scores": "scores.mean(1)"},
    "Thrice": {"shared_projection": "[nn.Linear(width, width)] * 3"},
}


@pytest.fixture(scope="module")
def check(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Report]:
    file = tmp_path_factory.mktemp("models") / "models.py"
    file.write_text(SOURCE)
    return lambda name: examine(session, f"{file}:{name}")


@pytest.mark.parametrize("name", RIGHT)
def test_right(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    assert report.ok, str(report)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(check: Callable[[str], Report], name: str) -> None:
    report = check(name)
    found = {f.id: f for f in report.findings if f.kind in ("mistake", "unknown")}
    assert found.keys() == WRONG[name].keys(), str(report)
    for mistake, text in WRONG[name].items():
        where = found[mistake].where
        assert where is not None
        assert text in where["text"], str(report)


def test_a_decay_by_what_was_read_is_not_called_wrong(check: Callable[[str], Report]) -> None:
    report = check("Gated")
    assert report.ok, str(report)
    assert {"decay", "mixing"} <= {entry.step for entry in report.ledger}


def test_distances_of_a_later_block(check: Callable[[str], Report]) -> None:
    assert "alibi_offset" not in {f.id for f in check("Stream").findings}
    assert "alibi_offset" in {f.id for f in check("StreamFromZero").findings}


def test_what_failed_is_not_shown_as_held(check: Callable[[str], Report]) -> None:
    *_, held = str(check("SlotsTurned")).partition("tested, and held")
    assert "split" in held
    assert "scores" not in held


def test_numbers_are_shown_from_where_they_differ() -> None:
    from overt.check.steps.pipeline import shown

    one = [0.0] * 8 + [1.0, 2.0]
    assert shown(one, [*one[:8], 3.0, 2.0]) == ("… [1., 2.]", "… [3., 2.]")
    assert shown(one, None) == ("[0., 0., 0., 0., 0., 0.] …", "")
    assert shown([1.0, 2.0], [1.0, 3.0]) == ("[1., 2.]", "[1., 3.]")
