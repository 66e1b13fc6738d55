"""Calls that need what a file says beside a candidate: shapes in its first text, numbers among lengths, own uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import Report

NAMED = '''
"""Weights as they were exported:

    {i}.Wqkv.weight   [3D, D]   rows 0..D-1 queries, D..2D-1 keys, 2D..3D-1 values
    {i}.Wqkv.bias     [3D]
"""
import numpy as np

def turned(x):
    angles = np.arange(len(x))[:, None] * 0.3 ** np.arange(x.shape[-1] // 2)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

def attend(x, q, k, v):
    s = np.einsum("ihd,jhd->hij", turned(q), turned(k)) / q.shape[-1] ** 0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hij,jhd->ihd", p / p.sum(-1, keepdims=True), v).reshape(x.shape)

def thirds(w, i, x, n_heads):
    """x [L, D]"""
    y = (x @ w[f"{i}.Wqkv.weight"].T + w[f"{i}.Wqkv.bias"]).reshape(len(x), 3, n_heads, -1)
    return attend(x, y[:, 0], y[:, 1], y[:, 2])

def triples(w, i, x, n_heads):
    """x [L, D]"""
    y = (x @ w[f"{i}.Wqkv.weight"].T + w[f"{i}.Wqkv.bias"]).reshape(len(x), n_heads, 3, -1)
    return attend(x, y[:, :, 0], y[:, :, 1], y[:, :, 2])
'''


def ids(report: Report) -> set[str]:
    return {f.id for f in report.findings if f.kind in ("mistake", "unknown")}


@pytest.mark.parametrize(("name", "found"), [("thirds", set()), ("triples", {"qkv_order"})])
def test_how_rows_are_packed_is_said_by_their_ranges(
    session: Session, tmp_path: Path, name: str, found: set[str]
) -> None:
    (tmp_path / "named.py").write_text(NAMED)
    report = examine(session, f"{tmp_path}/named.py:{name}")
    assert ids(report) == found, str(report)
    assert any(entry.step.endswith("mixing") and entry.outcome == "held" for entry in report.ledger)


def test_so_it_is_of_an_example(session: Session, tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(NAMED)
    given = "({'0.Wqkv.weight': np.random.randn(36, 12), '0.Wqkv.bias': np.zeros(36)}, 0, np.random.randn(5, 12), 3)"
    report = examine(session, f"{tmp_path}/named.py:triples", example=("triples", given))
    assert ids(report) == {"qkv_order"}, str(report)


GRAPH = '''
"""Bonds and atoms.

    x           [N, F]    atoms, all molecules of a batch
    edge_index  [2, E]    row 0 = source, row 1 = target
    edge_attr   [E, Fb]   what a bond is
"""
import torch
from torch import nn

def summed(x, index, n):
    return x.new_zeros((n, *x.shape[1:])).index_add_(0, index, x)

def over(e, index, n):
    rows = index.view(-1, 1).expand_as(e)
    top = e.new_full((n, e.shape[1]), float("-inf")).scatter_reduce(0, rows, e, reduce="amax")
    e = torch.exp(e - top[index])
    return e / summed(e, index, n)[index]

class Bonds(nn.Module):
    def __init__(self, in_dim, out_dim, bond_dim, heads=4):
        super().__init__()
        self.h, self.c = heads, out_dim // heads
        self.one, self.two = nn.Linear(in_dim, out_dim), nn.Linear(in_dim, out_dim)
        self.bond, self.att = nn.Linear(bond_dim, out_dim), nn.Parameter(torch.randn(1, heads, self.c))

    def forward(self, x, edge_index, edge_attr):
        n, loop = x.size(0), torch.arange(x.size(0), device=edge_index.device)
        edge_index = torch.cat([edge_index, loop.expand(2, -1)], 1)
        edge_attr = torch.cat([edge_attr, edge_attr.mean(0).expand(n, -1)], 0)
        src, dst = edge_index
        a, b = self.one(x).view(n, self.h, self.c), self.two(x).view(n, self.h, self.c)
        e = nn.functional.leaky_relu(b[dst] + a[src] + self.bond(edge_attr).view(-1, self.h, self.c))
        w = over((e * self.att).sum(-1), dst, n)
        return summed(a[src] * w.unsqueeze(-1), dst, n).reshape(n, -1)
'''


def test_edges_are_told_from_what_is_said_of_them(session: Session, tmp_path: Path) -> None:
    (tmp_path / "graph.py").write_text(GRAPH)
    report = examine(session, f"{tmp_path}/graph.py:Bonds")
    assert ids(report) == set(), str(report)
    assert "edge_index: edges" in str(report)


FRAMES = """
import torch
from torch import nn

class Own(nn.Module):
    wrong = False

    def __init__(self, dim, heads):
        super().__init__()
        self.qkv, self.h = nn.Linear(dim, dim * 3), heads

    def forward(self, x, T):
        B, n, D = x.shape
        x = x[:, 1:].reshape(B * ((n - 1) // T), T, D)
        q, k, v = self.qkv(x).view(len(x), T, 3, self.h, -1).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-2, -1) / (D if self.wrong else D // self.h) ** 0.5).softmax(-1)
        return (w @ v).transpose(1, 2).reshape(B, n - 1, D)

class Wide(Own):
    wrong = True
"""


@pytest.mark.parametrize(("name", "found"), [("Own", set()), ("Wide", {"scale_dmodel"})])
def test_what_stands_among_lengths_is_a_number(session: Session, tmp_path: Path, name: str, found: set[str]) -> None:
    (tmp_path / "frames.py").write_text(FRAMES)
    report = examine(session, f"{tmp_path}/frames.py:{name}")
    assert ids(report) == found, str(report)


PIECES = '''
import numpy as np

class Piece:
    def __init__(self, keys, values):
        self.keys, self.values = keys, values

    def partial(self, q):
        """q [T, H, d]"""
        s = np.einsum("thd,shd->ths", q, self.keys) / q.shape[-1] ** 0.5
        m = s.max(-1, keepdims=True)
        z = np.exp(s - m).sum(-1, keepdims=True)
        return np.einsum("ths,shd->thd", np.exp(s - m), self.values) / z, (m + np.log(z))[..., 0]

class Whole:
    base = np.exp

    def __init__(self, pieces):
        self.pieces = list(pieces)

    def __call__(self, q):
        """q [T, H, d]"""
        outs, lses = zip(*(piece.partial(q) for piece in self.pieces))
        w = self.base(np.stack(lses) - np.max(lses, axis=0))
        return ((w / w.sum(0))[..., None] * np.stack(outs)).sum(0)

    @classmethod
    def scatter(cls, keys, values, n):
        cuts = np.linspace(0, len(keys), n + 1).astype(int)
        return cls(Piece(keys[a:b], values[a:b]) for a, b in zip(cuts[:-1], cuts[1:]) if b > a)

class Halves(Whole):
    base = np.exp2

    @classmethod
    def scatter(cls, keys, values, n):
        return cls(super().scatter(keys, values, n).pieces)
'''


@pytest.mark.parametrize(("name", "found"), [("Whole", set()), ("Halves", {"lse_base2"})])
def test_a_method_of_the_class_makes_what_is_called(
    session: Session, tmp_path: Path, name: str, found: set[str]
) -> None:
    (tmp_path / "pieces.py").write_text(PIECES)
    report = examine(session, f"{tmp_path}/pieces.py:{name}")
    assert ids(report) == found, str(report)


# What it is made of, and is called with, only its file knows.
USED = """
import numpy as np

class Odd:
    wrong = False

    def __init__(self, genome, plan):
        if len(genome) != plan(7) * 5 + 3:
            raise ValueError("no such plan")
        self.m = np.reshape(genome[3:], (7, -1))

    def __call__(self, x, other):
        q, k = x @ self.m, other @ self.m
        s = q @ k.T / (len(k) if self.wrong else q.shape[-1]) ** 0.5
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ k

class Slow(Odd):
    wrong = True

def run(kind, where):
    odd = kind(np.random.default_rng(0).normal(size=38), lambda n: n)
    print(odd(*(np.random.default_rng(n).normal(size=(n, 7)) for n in (4, 6))))
    raise SystemExit(where)

def test_slow():
    run(Slow, 1)

if __name__ == "__main__":
    run(Odd, 0)
"""


@pytest.mark.parametrize(("name", "found"), [("Odd", set()), ("Slow", {"scale_seqlen"})])
def test_what_its_file_calls_it_with_is_taken(session: Session, tmp_path: Path, name: str, found: set[str]) -> None:
    (tmp_path / "used.py").write_text(USED)
    report = examine(session, f"{tmp_path}/used.py:{name}")
    assert ids(report) == found, str(report)
    assert report.convention["called with"] == "what its own file calls it with"


@pytest.mark.parametrize(
    "line", ["open(WHERE, 'w')", "os.open(WHERE, os.O_CREAT)", "os.mkdir(WHERE)", "subprocess.run(['touch', WHERE])"]
)
def test_a_use_that_is_overheard_changes_nothing(session: Session, tmp_path: Path, line: str) -> None:
    head = f"import os, subprocess\nWHERE = {str(tmp_path / 'made')!r}\n"
    (tmp_path / "writing.py").write_text(head + USED.replace("    odd = kind(", f"    {line}\n    odd = kind("))
    session.ask({"op": "load", "target": f"{tmp_path}/writing.py:Odd"})
    assert "error" in session.ask({"op": "overhear", "method": "__call__", "heard": False})[0]
    assert not (tmp_path / "made").exists()


def test_rows_that_are_all_alike_say_nothing(session: Session, tmp_path: Path) -> None:
    alike = USED.replace("np.random.default_rng(n).normal(size=(n, 7))", "np.ones((n, 7))")
    (tmp_path / "alike.py").write_text(alike)
    session.ask({"op": "load", "target": f"{tmp_path}/alike.py:Odd"})
    assert "error" in session.ask({"op": "overhear", "method": "__call__", "heard": False})[0]


# What it is made of, only another class of its file knows.
USER = """
import torch
from torch import nn

class Odd(nn.Module):
    wrong = False

    def __init__(self, plan):
        super().__init__()
        self.h, width = plan()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (self.h, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-2, -1) / (x.shape[-1] if self.wrong else q.shape[-1]) ** 0.5
        return (s.softmax(-1) @ v).transpose(1, 2).flatten(2)

class Wider(Odd):
    wrong = True

class Whole(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.first, self.odd = nn.Linear(width, width), Odd(lambda: (4, width))

    def forward(self, x):
        x = self.first(x)
        return x + self.odd(x)

class Second(Whole):
    def __init__(self, width=24):
        super().__init__()
        self.odd = Wider(lambda: (4, width))
"""


@pytest.mark.parametrize(("name", "found"), [("Odd", set()), ("Wider", {"scale_dmodel"})])
def test_what_a_user_in_its_file_calls_it_with_is_taken(
    session: Session, tmp_path: Path, name: str, found: set[str]
) -> None:
    (tmp_path / "user.py").write_text(USER)
    report = examine(session, f"{tmp_path}/user.py:{name}")
    assert ids(report) == found, str(report)
    assert report.convention["called with"] == "what its own file calls it with"


PACKED = """
import torch

def packed(q, k, v, ends, stops):
    \"\"\"Causal: the last query of a sequence sees all keys of it.\"\"\"
    out = torch.zeros_like(q)
    for a, b, c, d in zip(ends[:-1], ends[1:], stops[:-1], stops[1:]):
        s = q[a:b] @ k[c:d].T / q.shape[-1] ** 0.5
        later = torch.arange(d - c)[None] > torch.arange(b - a)[:, None] + (d - c) - (b - a)
        out[a:b] = s.masked_fill(later, float("-inf")).softmax(-1) @ v[c:d]
    return out
"""


def test_each_of_several_sequences_has_an_end_of_its_own(session: Session, tmp_path: Path) -> None:
    (tmp_path / "packed.py").write_text(PACKED)
    given = "(*(torch.randn(n, 8) for n in (9, 14, 14)), [0, 2, 9], [0, 6, 14])"
    report = examine(session, f"{tmp_path}/packed.py:packed", example=("packed", given))
    assert ids(report) == set(), str(report)
