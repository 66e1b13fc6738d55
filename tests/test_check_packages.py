"""Calls as packages want them; and what of a candidate once made the checker itself fail."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn

import overt
from overt.check.checking import examine
from overt.check.process.composing import composed
from overt.check.process.session import Session
from overt.check.report import CallError, Report

SOURCE = '''
import math
import time
import numpy as np
import torch
from torch import nn

class Array:
    """What annotations name."""
    shape = ()
    dtype = object

def annotated(q, k, v):
    def weights(scores: Array):
        assert Array
        return torch.softmax(scores, -1)
    return weights(q @ k.mT * q.shape[-1] ** -0.5) @ v

def imaginary(q, k, v):
    return torch.complex(*[torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v] * 2)

class Options:
    def __init__(self, options):
        self.heads, self.width = int(options["heads"]), int(options["width"])

class Opted(nn.Module):
    def __init__(self, options: Options):
        super().__init__()
        self.heads = options.heads
        self.q, self.k, self.v = (nn.Linear(options.width, options.width) for _ in range(3))

    def forward(self, x):
        B, T, W = x.shape
        q, k, v = (f(x).view(B, T, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = torch.softmax(q @ k.mT / math.sqrt(W // self.heads), -1) @ v
        return y.transpose(1, 2).reshape(B, T, W)

class Plain(nn.Module):
    def __init__(self, width, heads, inner=None):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, inner or width) for _ in range(3))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return (torch.softmax(self.scored(q, k), -1) @ v).transpose(1, 2).flatten(2)

    def scored(self, q, k):
        return q @ k.mT / math.sqrt(q.shape[-1])

class HandedOn(Plain):
    def __init__(self, *args, gain=1.0, **kwargs):
        super().__init__(*args, inner=None, **kwargs)
        self.gain = gain

class HandedOnWrong(HandedOn):
    def scored(self, q, k):
        return q @ k.mT / q.shape[-1]

class Listener(nn.Module):
    """One step of a decoder, which keeps what it makes of the sounds until it is told to begin."""
    def __init__(self, sunits, dunits, att_dim, squashed=True):
        super().__init__()
        self.squashed = squashed
        self.dunits, self.kept = dunits, None
        self.of_sounds, self.of_state = nn.Linear(sunits, att_dim), nn.Linear(dunits, att_dim)
        self.of_before, self.score = nn.Linear(1, att_dim), nn.Linear(att_dim, 1)

    def begin(self):
        self.kept = None

    def forward(self, sounds_pad, sounds_len, dec_z, weights_prev_list):
        """One step.

        :param torch.Tensor sounds_pad: padded sounds (B x T_max x D_sounds)
        :param list sounds_len: their lengths (B)
        :param torch.Tensor dec_z: state of the decoder (B x D_dec)
        :param list weights_prev_list: the weights of the steps before (B x T_max)
        """
        if self.kept is None:
            self.kept = self.of_sounds(sounds_pad)
        seen = torch.arange(max(sounds_len))[None] < torch.tensor(sounds_len)[:, None]
        if weights_prev_list is None:
            weights_prev_list = [seen.float() / sounds_pad.new(sounds_len)[:, None]]
        before = self.of_before(sum(weights_prev_list)[:, :, None])
        e = self.kept + self.of_state(dec_z.view(len(sounds_pad), self.dunits))[:, None] + before
        e = self.score(torch.tanh(e) if self.squashed else e)[..., 0]
        w = torch.softmax(e.masked_fill(~seen, float("-inf")), -1)
        weights_prev_list += [w]
        return (w[:, :, None] * sounds_pad).sum(1), weights_prev_list

class ListenerWrong(Listener):
    def __init__(self, sunits, dunits, att_dim):
        super().__init__(sunits, dunits, att_dim, False)

    def forward(self, sounds_pad, sounds_len, dec_z, weights_prev_list):
        """:param torch.Tensor sounds_pad: padded sounds (B x T_max x D_sounds)"""
        return super().forward(sounds_pad, sounds_len, dec_z, weights_prev_list)

class Guarded(nn.Module):
    scaled = 0.5

    def __init__(self, width: int, heads: int, theta: float):
        super().__init__()
        self.heads, self.theta = heads, theta
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def turned(self, x, places):
        half = x.shape[-1] // 2
        angles = places[None, None, :, None] * self.theta ** -(torch.arange(half) / half)
        one, two = x[..., :half], x[..., half:]
        return torch.cat([one * angles.cos() - two * angles.sin(), two * angles.cos() + one * angles.sin()], -1)

    def forward(self, x, mask=None, position_ids=None):
        assert position_ids is not None
        if mask is None or mask.shape[2] != 1:
            raise ValueError("a mask (queries, keys, 1) is wanted")
        assert mask.shape[0] == x.shape[1]
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = self.turned(q, position_ids) @ self.turned(k, position_ids).mT * q.shape[-1] ** -self.scaled
        y = torch.softmax(scores.masked_fill(~mask[..., 0], float("-inf")), -1) @ v
        return y.transpose(1, 2).flatten(2)

class GuardedWrong(Guarded):
    scaled = 1

class Compared(nn.Module):
    """Asks its keys by a network that gets both beside each other."""
    def __init__(self, width=4):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(4 * width, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, query, keys):
        both = query[:, None].expand_as(keys)
        scores = self.score(torch.cat([both, keys, both - keys, both * keys], -1))[..., 0]
        return (torch.softmax(scores, -1)[:, None] @ keys)[:, 0]

class Commented(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.of_query, self.of_key, self.of_places = (nn.Linear(width, width) for _ in range(3))

    def forward(self, query, key, places):
        # (batch, head, klen, d_k) are query and key when they are split
        """query: (B, L, E), key: (B, S, E), and the places of the keys, places: (1, 2*S-1, E)"""
        assert places.shape[1] == 2 * key.shape[1] - 1
        places = places[:, : key.shape[1]]
        q, k = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, x in
                ((self.of_query, query), (self.of_key, key + self.of_places(places))))
        return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ k

class Assembled(nn.Module):
    """The parts are made by the caller."""
    def __init__(self, *, embed_dim: int, num_heads: int, q_proj: nn.Module, k_proj: nn.Module, v_proj: nn.Module):
        super().__init__()
        self.heads, self.q_proj, self.k_proj, self.v_proj = num_heads, q_proj, k_proj, v_proj
        self.root = (embed_dim // num_heads) ** 0.5

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None, *, mask=None):
        """mask: a boolean tensor, where a value of True in row i and column j means that j is seen by i."""
        if y is None:
            if not self.training:
                raise ValueError("keys are wanted")
        q, k, v = (f(z).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, z in
                   ((self.q_proj, x), (self.k_proj, y), (self.v_proj, y)))
        # the mask becomes 0 for visible keys and -2.38e38 otherwise
        added = 0 if mask is None else torch.where(mask.bool(), 0, -2.38e38)
        return (torch.softmax(q @ k.mT / self.root + added, -1) @ v).transpose(1, 2).flatten(2)

class AssembledWrong(Assembled):
    def __init__(self, *, embed_dim: int, num_heads: int, q_proj: nn.Module, k_proj: nn.Module, v_proj: nn.Module):
        super().__init__(embed_dim=embed_dim, num_heads=num_heads, q_proj=q_proj, k_proj=k_proj, v_proj=v_proj)
        self.root = embed_dim ** 0.5

class Tiled(nn.Module):
    """Of `apples` heads, head a reads the pear a // (apples / pears)."""
    def __init__(self, width, apples, pears):
        super().__init__()
        self.apples, self.pears, self.size = apples, pears, width // apples
        self.q, self.k, self.v = (nn.Linear(width, n * self.size) for n in (apples, pears, pears))

    def parted(self, x, n):
        return x.view(x.shape[0], x.shape[1], n, self.size).transpose(1, 2)

    def forward(self, x):
        q = self.parted(self.q(x), self.apples)
        k, v = (self.parted(f(x), self.pears).repeat(1, self.apples // self.pears, 1, 1) for f in (self.k, self.v))
        return (torch.softmax(q @ k.mT * self.size**-0.5, -1) @ v).transpose(1, 2).flatten(2)

class New(nn.Module):
    """Causal self-attention; x (B, T, D)."""

    def __init__(self, heads=2):
        super().__init__()
        self.heads, self.qkv = heads, None

    def forward(self, x):
        B, T, D = x.shape
        if self.qkv is None:
            self.qkv, self.out = nn.Linear(D, 3 * D).to(x), nn.Linear(D, D).to(x)
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        s = q @ k.mT / q.shape[-1] ** 0.5
        s = s.masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D))

class NewDropping(New):
    def forward(self, x):
        return nn.functional.dropout(super().forward(x))

class Slots:
    def __init__(self, n_env, slots, key_dim, val_dim):
        self.keys = torch.zeros(n_env, slots, key_dim)
        self.vals = torch.zeros(n_env, slots, val_dim)
        self.written = torch.zeros(n_env, slots, dtype=torch.bool)
        self.at = 0

    def write(self, key, val):
        self.keys[:, self.at], self.vals[:, self.at], self.written[:, self.at] = key, val, True
        self.at = (self.at + 1) % self.keys.shape[1]

class Reads(nn.Module):
    def __init__(self, state_dim, key_dim):
        super().__init__()
        self.to_q = nn.Linear(state_dim, key_dim)

    def hide(self, s, written):
        return s.masked_fill(~written, -1e9)

    def forward(self, state, store):
        """state [E, S] -> read vector [E, V], weights [E, slots]"""
        q = self.to_q(state)
        s = self.hide(torch.einsum("ek,esk->es", q, store.keys) / q.shape[-1] ** 0.5, store.written)
        w = torch.softmax(s, dim=-1)
        return torch.einsum("es,esv->ev", w, store.vals), w

class ReadsAll(Reads):
    def hide(self, s, written):
        s.masked_fill(~written, -1e9)
        return s

def train(steps: int):
    time.sleep(60)

def watched(q, k, v):
    if torch.overrides._get_current_function_mode_stack():
        time.sleep(60)
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
'''


def told(report: Report) -> set[str]:
    """What is wrong, and that something was judged."""
    assert any(entry.step.endswith("scores") and entry.outcome == "held" for entry in report.ledger), str(report)
    return {f.id for f in report.findings if f.kind in ("mistake", "unknown")}


@pytest.mark.parametrize(
    "name",
    [
        "annotated",
        "imaginary",
        "Opted",
        "HandedOn",
        "Listener",
        "Guarded",
        "Compared",
        "Commented",
        "Assembled",
        "New",
        "Reads",
    ],
)
def test_right_code_is_let_through(session: Session, file: Path, name: str) -> None:
    assert told(examine(session, f"{file}:{name}")) == set()


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("HandedOnWrong", "scale"),
        ("GuardedWrong", "scale"),
        ("ListenerWrong", "additive_no_tanh"),
        ("AssembledWrong", "scale_dmodel"),
        ("Tiled", "gqa_tile"),
        ("NewDropping", "dropout_eval"),
        ("ReadsAll", "not_inplace"),
    ],
)
def test_wrong_code_is_found_wrong(session: Session, file: Path, name: str, found: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert any(f.kind == "mistake" and f.id.startswith(found) for f in report.findings), str(report)


def test_the_time_that_judging_takes_is_no_hang_of_the_candidate(file: Path) -> None:
    with pytest.raises(CallError, match="not understood in time"):
        overt.check(f"{file}:watched", timeout=2)
    # Nor is what takes long without an array attention at all.
    with pytest.raises(CallError, match="holds no array"):
        overt.check(f"{file}:train", timeout=2)


def test_objects_are_no_message() -> None:
    with Session() as session:
        session.ask({"op": "load", "target": "math:exp"})
        reply, _ = session.ask({"op": "globals", "names": ["pi"]})
        assert "error" in reply


class Begun(nn.Module):
    def begin(self, rate: float) -> None:
        self.drop = nn.Dropout(rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return cast("torch.Tensor", self.drop(x))


@pytest.mark.parametrize("training", [True, False])
def test_what_a_method_makes_is_in_training_where_its_instance_is(training: bool) -> None:
    x = torch.ones(100)
    dropped = composed(Begun, "begin then forward", Begun().train(training))(rate=0.5, x=x)
    assert torch.equal(dropped, x) is not training
