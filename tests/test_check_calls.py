"""Calls by trying: sizes, widths, dtypes and roles that no name tells; examples; what fails proves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import overt
from overt.check.calls.call import KINDS, LADDER, Guess, ladder, specs
from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import CallError
from overt.check.text.interface import Interface
from overt.cli.check import command
from overt.errors import ArgumentError

SOURCE = """
import sys
import math
import numpy as np
import torch
from torch import nn

def soft(q, k, v, scale):
    return torch.softmax(q @ k.mT * scale, -1) @ v

class Blocky(nn.Module):
    wrong = False

    def __init__(self, dim, num_heads):
        super().__init__()
        assert dim % 16 == 0
        self.h = num_heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        if T % 16:
            raise ValueError(f"{T} tokens are no multiple of 16")
        q, k, v = (f(x).view(B, T, self.h, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = soft(q, k, v, (C if self.wrong else q.shape[-1]) ** -0.5)
        return self.o(y.transpose(1, 2).reshape(B, T, C))

class BlockyWrong(Blocky):
    wrong = True

def blocks(q, k, v):
    assert q.shape[-2] % 16 == 0 and k.shape[-2] % 16 == 0
    return soft(q, k, v, q.shape[-1] ** -0.5)

def halves(q, k, v):
    if q.dtype != torch.float16:
        raise TypeError("half precision only")
    return soft(q.float(), k.float(), v.float(), q.shape[-1] ** -0.5).half()

def fruit(apple, pear, plum):
    return soft(apple, pear, plum, apple.shape[-1] ** -0.5)

def rotten(apple, pear, plum):
    return torch.softmax(apple @ pear.mT / apple.shape[-1], -1) @ plum

def turned(xq, xk, xv, freqs_cis, start_pos):
    q, k = (torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)) for x in (xq, xk))
    turn = freqs_cis[start_pos : start_pos + q.shape[1]][None, :, None]
    q, k = (torch.view_as_real(x * turn).flatten(3).transpose(1, 2) for x in (q, k))
    return soft(q, k, xv.transpose(1, 2), q.shape[-1] ** -0.5).transpose(1, 2)

class Configured(nn.Module):
    axis = -1

    def __init__(self, stuff):
        super().__init__()
        assert stuff.ghi % stuff.jkl == 0
        self.z, self.drop = stuff.jkl, nn.Dropout(stuff.mno)
        self.a, self.b = nn.Linear(stuff.ghi, 3 * stuff.ghi), nn.Linear(stuff.ghi, stuff.ghi)

    def forward(self, dog):
        B, T, C = dog.shape
        q, k, v = (x.view(B, T, self.z, -1).transpose(1, 2) for x in self.a(dog).chunk(3, -1))
        w = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), self.axis)
        return self.b((self.drop(w) @ v).transpose(1, 2).reshape(B, T, C))

class ConfiguredWrong(Configured):
    axis = -2

class Picture(nn.Module):
    def __init__(self, ch, n):
        super().__init__()
        self.n, self.norm = n, nn.GroupNorm(4, ch)
        self.qkv, self.out = nn.Conv2d(ch, 3 * ch, 1), nn.Conv2d(ch, ch, 1)

    def forward(self, img):
        B, C, H, W = img.shape
        q, k, v = self.qkv(self.norm(img)).reshape(B, 3, self.n, C // self.n, H * W).unbind(1)
        w = torch.softmax(torch.einsum("bncq,bnck->bnqk", q, k) / math.sqrt(C // self.n), -1)
        return img + self.out(torch.einsum("bnqk,bnck->bncq", w, v).reshape(B, C, H, W))

class Window(nn.Module):
    def __init__(self, dim, window_size, num_heads):
        super().__init__()
        self.ws, self.nh = window_size, num_heads
        self.bias = nn.Parameter(torch.zeros(num_heads, window_size**2, window_size**2))
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.nh, C // self.nh).permute(2, 0, 3, 1, 4).unbind(0)
        a = q @ k.transpose(-2, -1) * (C // self.nh) ** -0.5 + self.bias
        return self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C))

class Decoder(nn.Module):
    def __init__(self, vocab, emb, hid):
        super().__init__()
        self.e, self.out = nn.Embedding(vocab, emb), nn.Linear(2 * hid, vocab)
        self.gru = nn.GRU(emb + hid, hid, batch_first=True)

    def forward(self, token, hidden, encoder_outputs):
        x = self.e(token).unsqueeze(1)
        w = torch.softmax(torch.bmm(encoder_outputs, hidden.permute(1, 2, 0)).squeeze(2), 1)
        c = torch.bmm(w.unsqueeze(1), encoder_outputs)
        y, h = self.gru(torch.cat([x, c], 2), hidden)
        return self.out(torch.cat([y, c], 2)).squeeze(1), h, w

def plain(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def lists(x, a, b, c, d, n):
    T, C = x.shape
    q, k, v = ((x @ w).reshape(T, n, C // n).transpose(1, 0, 2) for w in (a, b, c))
    return (plain(q @ k.transpose(0, 2, 1) / np.sqrt(C // n)) @ v).transpose(1, 0, 2).reshape(T, C) @ d

def nested(params, x):
    q, k, v = (x @ params["bee"][name]["kernel"] for name in ("query", "key", "value"))
    return plain(q @ k.swapaxes(-1, -2) / np.sqrt(k.shape[-1])) @ v

def apart(x, a, b, c, d):
    q, k, v = (np.einsum("btd,dhk->bhtk", x, w) for w in (a, b, c))
    w = plain(np.einsum("bhqk,bhsk->bhqs", q, k) / np.sqrt(q.shape[-1]))
    return np.einsum("bhqs,bhsk,hkd->bqd", w, v, d)

def within(inputs):
    query, (keys, values) = inputs
    return plain(query @ keys.swapaxes(-1, -2) / math.sqrt(query.shape[-1])) @ values

def paged(q, k_cache, v_cache, block_tables, context_lens):
    rows = []
    for i in range(len(q)):
        k, v = (x[block_tables[i]].flatten(0, 1)[: context_lens[i]] for x in (k_cache, v_cache))
        w = torch.softmax(torch.einsum("hd,shd->hs", q[i], k) / math.sqrt(q.shape[-1]), -1)
        rows.append(torch.einsum("hs,shd->hd", w, v))
    return torch.stack(rows)

def modified(apple, pear, plum, mod, pairs):
    s = soft_scores = apple @ pear.mT * apple.shape[-1] ** -0.5
    at = torch.arange(s.shape[-2])[:, None], torch.arange(s.shape[-1])[None]
    s = torch.where(pairs(0, 0, *at), mod(soft_scores, 0, 0, *at), -torch.inf)
    return s.softmax(-1) @ plum

def added(apple, pear, plum, cherry):
    return (apple @ pear.mT * apple.shape[-1] ** -0.5 + cherry).softmax(-1) @ plum

def chunks(q, k, v, chunk):
    b, n, d = q.shape
    q, k, v = (x.reshape(b, n // chunk, chunk, -1) for x in (q, k, v))
    return (plain(q @ k.swapaxes(-1, -2) * d**-0.5) @ v).reshape(b, n, -1)

class Named(nn.Module):
    def __init__(self, config, number: int):
        super().__init__()
        self.n, w = config["heads"], config["wide"]
        self.c = nn.Linear(w, 3 * w)

    def forward(self, states, cos, sin, past=None):
        b, t, w = states.shape
        q, k, v = (z.view(b, t, self.n, -1).transpose(1, 2) for z in self.c(states).chunk(3, -1))
        q, k = (z * cos + torch.cat((-z.chunk(2, -1)[1], z.chunk(2, -1)[0]), -1) * sin for z in (q, k))
        return soft(q, k, v, q.shape[-1] ** -0.5).transpose(1, 2).reshape(b, t, w)

class Four(nn.Module):
    def __init__(self, n_head, d_model, d_k, d_v):
        super().__init__()
        self.n, self.k, self.v = n_head, d_k, d_v
        self.a, self.b = nn.Linear(d_model, n_head * d_k), nn.Linear(d_model, n_head * d_k)
        self.c, self.d = nn.Linear(d_model, n_head * d_v), nn.Linear(n_head * d_v, d_model)

    def forward(self, batch):
        x = batch["features"]
        q, k, v = (f(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for f in (self.a, self.b, self.c))
        return self.d(soft(q, k, v, self.k**-0.5).transpose(1, 2).flatten(2))

def missing(q, k, v):
    return queries @ k.mT

def never(apple, pear):
    if not isinstance(apple, str):
        raise TypeError(f"{type(apple).__name__} is no text")

class Never(nn.Module):
    def __init__(self, apple):
        super().__init__()
        if apple is not Never:
            raise TypeError(f"{apple} is not what it should be")

    def forward(self, x):
        return x

class Trait:
    def forward(self, apple):
        return self.of_what_it_is_mixed_into(apple)

def sometimes(apple, pear, how):
    if type(how) is Trait:
        plum = apple @ pear.mT
    return torch.softmax(plum, -1) @ pear

if sys.version_info < (3,):
    import what_nobody_has_installed as nobody

def uninstalled(apple, pear):
    return nobody.softmax(apple @ pear.mT, -1) @ pear

def sums(apple, pear):
    return apple + apple.mean()
"""


RIGHT = (
    "lists",
    "nested",
    "apart",
    "within",
    "paged",
    "modified",
    "added",
    "chunks",
    "Named",
    "Four",
    "Blocky",
    "blocks",
    "halves",
    "fruit",
    "turned",
    "Configured",
    "Picture",
    "Window",
    "Decoder",
)


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_called_as_it_wants(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert report.ok, str(report)
    assert {"softmax", "scale"} & {e.step.split(", ")[-1] for e in report.ledger if e.outcome == "held"}


@pytest.mark.parametrize(
    ("name", "found"),
    [("BlockyWrong", "scale_dmodel"), ("rotten", "scale_d"), ("ConfiguredWrong", "softmax_axis_q")],
)
def test_wrong_code_is_found_wrong_in_such_calls(session: Session, file: Path, name: str, found: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == [found], str(report)


def test_what_a_call_raises_proves_nothing(session: Session, file: Path) -> None:
    for name, told in (
        ("never", "is no text"),
        ("Never", "is not what it should be"),
        ("Trait", "no attribute 'of_what_it_is_mixed_into'"),
        ("sometimes", "cannot access local variable 'plum'"),
        ("uninstalled", "name 'nobody' is not defined"),
    ):
        with pytest.raises(CallError, match=r"\d+ calls were tried.*--example") as caught:
            examine(session, f"{file}:{name}")
        assert told in str(caught.value)
        assert "\n" not in str(caught.value)
    # Unless nothing in the call explains it.
    assert [f.id for f in examine(session, f"{file}:missing").findings] == ["raises"]


def test_no_attention_is_said(session: Session, file: Path) -> None:
    with pytest.raises(CallError, match="no attention was found inside"):
        examine(session, f"{file}:sums")


def test_an_example_settles_the_call(session: Session, file: Path) -> None:
    made = "Configured(type('C', (), dict(ghi=32, jkl=4, mno=0.1)))"
    report = examine(session, f"{file}:Configured", example=(made, "(torch.randn(2, 5, 32),)"))
    assert report.ok, str(report)
    wrong = overt.check(
        f"{file}:ConfiguredWrong",
        example=(made.replace("Configured(", "ConfiguredWrong("), "dict(dog=torch.randn(2, 5, 32))"),
    )
    assert [f.id for f in wrong.findings if f.kind == "mistake"] == ["softmax_axis_q"]
    # What somebody asked for, and raises, is the candidate's.
    raised = examine(session, f"{file}:Blocky", example=("Blocky(64, 4)", "(torch.randn(2, 5, 64),)"))
    assert [f.id for f in raised.findings] == ["raises"]
    assert "5 tokens are no multiple of 16" in str(raised)
    with pytest.raises(CallError, match="the example cannot be made: AssertionError"):
        examine(session, f"{file}:Blocky", example=("Blocky(5, 4)", "()"))
    for bad in ("Blocky(64, 4)", ("x",), (1, 2)):
        with pytest.raises(ArgumentError, match="example takes two texts"):
            overt.check(f"{file}:Blocky", example=bad)  # type: ignore[arg-type]


def test_sizes_that_somebody_gives(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:Window", sizes={"T": 16, "W": 32, "H": 4})
    assert "heads 4, 16 queries, 16 keys, width 32" in report.convention["called with"]
    with pytest.raises(CallError, match=r"no call of Blocky works: .* calls were tried"):
        examine(session, f"{file}:Blocky", sizes={"T": 5, "W": 60, "H": 4})
    for bad in ({"X": 3}, {}, {"T": 0}, {"T": 1.5}, [3]):
        with pytest.raises(ArgumentError, match="size"):
            overt.check(f"{file}:Blocky", sizes=bad)  # type: ignore[arg-type]
    assert [str(n) for n in ladder({"T": 3})] == ["batch 2, heads 4, 3 queries, 3 keys, width 64"]


def test_the_command_takes_them(file: Path) -> None:
    run = CliRunner(env={"COLUMNS": "300"})
    arguments = [f"{file}:Blocky", "--example", "Blocky(64, 4)", "(torch.randn(2, 16, 64),)"]
    assert run.invoke(command, arguments, standalone_mode=False).return_value == 0
    sized = run.invoke(command, [f"{file}:Window", "--sizes", "T=16,W=32,H=4"], standalone_mode=False)
    assert "16 queries" in sized.stdout
    wrong = run.invoke(command, [f"{file}:Window", "--sizes", "T=x"], standalone_mode=False)
    assert "--sizes takes lengths by axis" in str(wrong.exception)
    for twice, said in (
        (("--sizes", "T=4,T=5"), "two lengths for T"),
        (("--argument", "x=q", "--argument", "x=k"), "that x is q"),
    ):
        assert said in str(run.invoke(command, [f"{file}:Window", *twice], standalone_mode=False).exception)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_argument_can_be_made(kind: str) -> None:
    row: dict[str, Any] = {"name": "x", "required": True, "default": None, "annotation": "", "kind": "either"}
    told = {"name": "f", "parameters": [row], "constructor": [], "source": "", "doc": "", "body": "", "helpers": ""}
    face = Interface(told, told["parameters"], {})  # type: ignore[arg-type]
    for lengths in LADDER:
        (spec,), named, arrays = specs(Guess((), lengths).given(("x",), kind), face)
        assert not named
        assert ("array" in spec) == bool(arrays) or kind[1:] == " of them" or kind == "linear"


DECODERS = '''
import numpy as np

ONE, TWO = np.random.default_rng(0).normal(size=(20, 9)), np.random.default_rng(1).normal(size=9)

def soft(e):
    e = np.exp(e - e.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def bent(ash, birch, cedar, elm, fir):
    e = np.tanh((ash @ cedar)[:, None] + birch @ elm) @ fir
    return np.einsum("bs,bsd->bd", soft(e), birch)

def straight(ash, birch, cedar, elm, fir):
    e = ((ash @ cedar)[:, None] + birch @ elm) @ fir
    return np.einsum("bs,bsd->bd", soft(e), birch)

def blind(ash, birch, cedar, elm, fir):
    e = np.repeat((np.tanh(ash @ cedar) @ fir)[:, None], birch.shape[1], axis=1)
    return np.einsum("bs,bsd->bd", soft(e), birch)

def between(ash, birch, cedar):
    return np.einsum("bs,bsd->bd", soft(np.einsum("bd,de,bse->bs", ash, cedar, birch)), birch)

def pooled(ash):
    return soft(np.tanh(ash @ ONE) @ TWO)[..., None, :] @ ash

def matched(ash, birch, cedar, elm, fir):
    """ash (B, T, D), birch (B, S, D)"""
    e = np.tanh(ash @ cedar + birch @ elm) @ fir
    return np.repeat((soft(e)[:, None] @ birch), ash.shape[1], axis=1)
'''


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("bent", set()),
        ("straight", {"additive_no_tanh"}),
        ("blind", {"additive_ignores_keys"}),
        ("between", set()),
        ("pooled", set()),
        ("matched", {"additive_no_pairwise"}),
    ],
)
def test_weights_may_be_arguments_or_lie_in_the_module(tmp_path: Path, name: str, found: set[str]) -> None:
    (tmp_path / "decoders.py").write_text(DECODERS)
    report = overt.check(f"{tmp_path}/decoders.py:{name}")
    assert {f.id for f in report.findings if f.kind in ("mistake", "unknown")} == found, str(report)
    assert any(e.step.endswith(("scores", "softmax")) and e.outcome != "not tried" for e in report.ledger)
