"""Shapes read in a documentation, and calls of code that only its documentation or its failures explain."""

from __future__ import annotations

from pathlib import Path

import pytest

import overt
from overt.check.calls.call import Guess, Lengths
from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.text.shapes import Shape, shapes, size


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("q, k, v (B, H, L, D), L a multiple of block", ["q", "k", "v"], dict.fromkeys("qkv", "B H L D")),
        ("x: (num_nodes, in); edge_index: (2, num_edges), row 0", ["x", "edge_index"],
         {"x": "num_nodes in", "edge_index": "2 num_edges"}),
        ('x (n, d); w["q"], w["k"] (d, d)', ["x", "w"], {"x": "n d", "w.q": "d d", "w.k": "d d"}),
        ("x: float tensor of shape [batch, time, dim]\nmask: bool tensor (batch, time)", ["x", "mask"],
         {"x": "batch time dim", "mask": "batch time: mask"}),
        ("ids (B, T) int -> logits (B, T, vocab)", ["ids", "logits"], {"ids": "B T: whole"}),
        ("seen (B, S) 1 for words, coverage (B, S)", ["seen", "coverage"], {"seen": "B S: 0 and 1", "coverage": "B S"}),
        ("Maps (B, 3, 12, 8) of pictures (2015)", ["img"], {"img": "B 3 12 8"}),
        ("keep (n,) of 0/1; what has keep == 0 (comments, blank) gets no weight", ["keep"], {"keep": "n: 0 and 1"}),
        ("validos (B, L) com 1 nas palavras e 0 no resto", ["validos"], {"validos": "B L: 0 and 1"}),
        ("q: [t, h, d]     sinks: [h * 2] (float)", ["q", "sinks"], {"q": "t h d", "sinks": "h * 2"}),
        ('x: [n, d], p: {"w": [d, 3 * d], "b": [3 * d]}', ["x", "p"], {"x": "n d", "p.w": "d 3 * d", "p.b": "3 * d"}),
        ("x [B, T, D], m bool [B or 1, T, T], b (1|H, T, T)", ["x", "m", "b"],
         {"x": "B T D", "m": "B T T: mask", "b": "H T T"}),
        ("k (H, P + n, D) for the prefix", ["k"], {"k": "H P + n D"}),
        ("softmax(q k) v, as Smith (2015) has it", ["q", "k", "v"], {}),
    ],
)  # fmt: skip
def test_a_text_gives_shapes(text: str, names: list[str], expected: dict[str, str]) -> None:
    def shown(shape: Shape) -> str:
        return " ".join(shape.axes) + (f": {shape.sort}" if shape.sort else "")

    assert {".".join(path): shown(shape) for path, shape in shapes(text, names).items()} == expected


def test_lengths_are_computed_of_words() -> None:
    sizes = {"P": 4, "n": 3, "H": 2, "block": 5}
    expected = {
        "P + n": 7,
        "2H": 4,
        "2 * H": 4,
        "n // H": 1,
        "12": 12,
        "n": 3,
        "other": None,
        "n // 0": None,
        "n**9": None,
    }
    assert {axis: size(axis, sizes) for axis in expected} == expected


SOURCE = '''
import numpy as np, torch
from torch import nn

def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def verified(alpha, beta, gamma, omega):
    """alpha (H, n, D); beta, gamma (H, P + n, D) for the P tokens before; omega (n,) int, what each follows."""
    n, s = alpha.shape[1], beta.shape[1]
    seen = np.tril(np.ones((n, s), bool), s - n)
    scores = np.einsum("hnd,hsd->hns", alpha, beta) / np.sqrt(alpha.shape[-1]) + 0.0 * np.zeros(7)[omega][:, None]
    return soft(np.where(seen, scores, -np.inf)) @ gamma

def spelled(one, two, three):
    """one (B, 6), two (B, S, 5), three (6, 5) -> (B, 5)"""
    w = soft(np.einsum("bd,de,bse->bs", one, three, two))
    return np.einsum("bs,bse->be", w, two)

class Patches(nn.Module):
    """Pictures (B, 3, 12, 8)."""
    def __init__(self, dim=16, heads=4):
        super().__init__()
        self.heads, self.embed = heads, nn.Linear(48, dim)
        self.where = nn.Parameter(torch.randn(6, dim))
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
    def forward(self, p):
        x = p.reshape(len(p), 3, 3, 4, 2, 4).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        x = self.embed(x) + self.where
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        return (torch.softmax(q @ k.mT / 2.0, -1) @ v).transpose(1, 2).flatten(2).mean(1)

class Undocumented(nn.Module):
    def __init__(self, aa=10, bb=6, cc=8):
        super().__init__()
        self.m, self.n, self.o = nn.Linear(aa, cc), nn.Linear(bb, cc), nn.Linear(bb, cc)
        self.table = nn.Embedding(9, aa)
    def forward(self, u, w):
        q, k, v = self.m(self.table(u)), self.n(w), self.o(w)
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

class Wrong(Undocumented):
    def forward(self, u, w):
        q, k, v = self.m(self.table(u)), self.n(w), self.o(w)
        return torch.softmax(q @ k.mT / q.shape[-1], -1) @ v

class Lstm(nn.Module):
    """Tags of words (B, T) int."""
    def __init__(self, words=50, dim=16):
        super().__init__()
        self.e, self.l, self.out = nn.Embedding(words, dim), nn.LSTM(dim, 7, batch_first=True), nn.Linear(7, 3)
    def forward(self, words):
        return self.out(self.l(self.e(words))[0])
'''


@pytest.mark.parametrize("name", ["verified", "Patches", "Undocumented"])
def test_right_code_of_its_own_widths_is_called_and_right(session: Session, file: Path, name: str) -> None:
    report = examine(session, f"{file}:{name}")
    assert report.ok, str(report)
    assert {"softmax", "scale"} & {e.step.split(", ")[-1] for e in report.ledger if e.outcome == "held"}


def test_wrong_code_of_its_own_widths_is_wrong(session: Session, file: Path) -> None:
    report = examine(session, f"{file}:Wrong")
    assert [f.id for f in report.findings if f.kind in ("mistake", "unknown")] == ["scale_d"], str(report)


def test_what_runs_and_does_not_attend_is_said_so(session: Session, file: Path) -> None:
    with pytest.raises(overt.errors.ArgumentError, match="no attention was found inside"):
        examine(session, f"{file}:Lstm")


LEARNED = '''
import torch
from torch import nn

class Learned(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads, self.t = heads, nn.Parameter(torch.tensor(8.0))
        self.w = nn.Linear(dim, 3 * dim)
    def forward(self, x):
        q, k, v = self.w(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        return (torch.softmax(self.t * q @ k.mT, -1) @ v).transpose(1, 2).flatten(2)

class Twice(nn.Module):
    """Of (B, T, dim) and (B, M, dim)."""
    def __init__(self, dim, times=2):
        super().__init__()
        self.look, self.times = nn.Linear(dim, dim), times
    def forward(self, state, stored):
        patterns = self.look(stored)
        for _ in range(self.times):
            state = torch.softmax(2.0 * state @ patterns.mT, -1) @ patterns
        return state

class Maps(nn.Module):
    """Queries that are learned read maps."""
    def __init__(self, d=16, heads=2, size=(3, 4)):
        super().__init__()
        self.q, self.at = nn.Parameter(torch.randn(5, d)), nn.Parameter(torch.randn(size[0] * size[1], d))
        self.look = nn.MultiheadAttention(d, heads, batch_first=True)
    def forward(self, maps):
        memory = maps.flatten(2).transpose(1, 2)
        return self.look(self.q.expand(len(maps), -1, -1), memory + self.at, memory, need_weights=False)[0]
'''


@pytest.mark.parametrize("name", ["Learned", "Twice", "Maps"])
def test_numbers_loops_and_maps_are_right(tmp_path: Path, name: str) -> None:
    (tmp_path / "made.py").write_text(LEARNED)
    report = overt.check(f"{tmp_path / 'made.py'}:{name}")
    assert report.ok, str(report)
    assert {"softmax", "scale"} & {e.step.split(", ")[-1] for e in report.ledger if e.outcome == "held"}


def test_all_that_a_call_makes_is_counted() -> None:
    lengths = Lengths(2, 3, 5, 7, 4, 12)
    kinds = (("x",), "BTW"), (("mask",), "mask (B H, S)"), (("map",), "linear"), (("n",), "width of all")
    assert Guess(kinds, lengths, "float64").size == 2 * 5 * 12 + 2 * 3 * 7 + 12 * 12
