"""Parts of attention by themselves: told by their numbers, whatever their names."""

from __future__ import annotations

from pathlib import Path

import pytest

from overt.check.checking import examine
from overt.check.process.session import Session
from overt.check.report import CallError

RENAMED = """
import numpy as np

def f(a):
    b = np.exp(a - a.max())
    return b / b.sum(-1, keepdims=True)

def g(a, b):
    c = np.arange(a)[:, None] / 10000 ** (np.arange(b) // 2 * 2 / b)
    return np.where(np.arange(b) % 2, np.cos(c), np.sin(c))

def h(a, b):
    return a.reshape(a.shape[0], b, a.shape[1], -1)

def i(a):
    return a.swapaxes(1, 2).reshape(a.shape[0], a.shape[2], -1)

def j(a):
    return 2.0 ** (-8 * np.arange(a) / a)

def k(a, b):
    c = np.where(b, -np.inf, a)
    c = np.exp(c - c.max(-1, keepdims=True))
    return c / c.sum(-1, keepdims=True)

def m(a):
    c = np.arange(a.shape[-2])[:, None] * 10000.0 ** -(np.arange(0, a.shape[-1], 2) / a.shape[-1])
    c = np.repeat(c, 2, -1)
    n = a.shape[-1] // 2
    return a * np.cos(c) + np.concatenate([-a[..., n:], a[..., :n]], -1) * np.sin(c)

def same(a):
    return a + 0

def norm(a):
    return (a - a.mean(-1, keepdims=True)) / a.std(-1, keepdims=True)
"""
EXPECTED = {
    "f": {"global_max"},
    "g": set(),
    "h": {"split_view"},
    "i": set(),
    "j": {"alibi_slopes"},
    "k": set(),
    "m": {"rope_layout"},
}


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("parts") / "renamed.py"
    file.write_text(RENAMED)
    return file


@pytest.mark.parametrize("name", EXPECTED)
def test_no_name_tells_what_a_part_is(session: Session, renamed: Path, name: str) -> None:
    report = examine(session, f"{renamed}:{name}")
    assert {f.id for f in report.findings if f.kind == "mistake"} == EXPECTED[name], str(report)
    assert "kind" in report.convention


@pytest.mark.parametrize("name", ["same", "norm"])
def test_what_gives_no_known_numbers_is_no_part(session: Session, renamed: Path, name: str) -> None:
    try:
        report = examine(session, f"{renamed}:{name}")
    except CallError:
        return
    assert "kind" not in report.convention


SLIPPED = '''
import numpy as np
import torch
from torch import nn

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e * e.sum(-1, keepdims=True)

def merge(o1, l1, o2, l2):
    share = 1 / (1 + np.exp(l2 - l1))
    return o2 + share[..., None] * (o1 + o2), np.logaddexp(l1, l2)

def softmax_of_squares(x):
    return x**2 / (x**2).sum(-1, keepdims=True)

class WindowBias(nn.Module):
    """Relative position bias of a window (side, side), (heads, side * side, side * side)"""
    def __init__(self, side, heads):
        super().__init__()
        self.side, self.table = side, nn.Parameter(torch.randn((2 * side - 1) ** 2, heads))
        at = torch.cartesian_prod(torch.arange(side), torch.arange(side))
        away = at[:, None] - at[None] + side - 1
        self.register_buffer("index", away[..., 0] * (2 + side - 1) + away[..., 1])

    def forward(self):
        return self.table[self.index].permute(2, 0, 1)

def of_any_name(number, width):
    """Nothing here says what it is."""
    each = torch.exp(torch.arange(width // 2) * (-np.log(10_000) / (width // 2 - 1)))
    each = torch.arange(number)[:, None] + each
    return torch.cat([each.sin(), each.cos()], 1)

class Rows(nn.Module):
    def __init__(self, width):
        super().__init__()
        half = width // 1
        self.register_buffer("each", 10_000 ** -(torch.arange(half) / half))

    def forward(self, x):
        both = torch.arange(x.shape[1])[:, None] * self.each
        return torch.cat([both.sin(), both.cos()], -1)

def near_keys(t, s, w):
    i, j = torch.arange(t)[:, None] + s + t, torch.arange(s)
    return (j <= i) & (j > i - w)

def columns(I, Wq, Wk, Wv):
    """Self-attention of tokens that are columns"""
    Q, K, V = Wq @ I, Wk @ I, Wv @ I
    A = K.T @ Q / np.sqrt(Q.shape[0])
    e = np.exp(A - A.max(0))
    return V @ (e * e.sum(0))
'''


@pytest.mark.parametrize(
    ("name", "line"),
    [("softmax", 8), ("merge", 12), ("softmax_of_squares", 0), ("WindowBias", 24), ("of_any_name", 32),
     ("Rows", 38), ("near_keys", 46), ("columns", 54)],
)  # fmt: skip
def test_what_one_change_makes_a_part_is_located(session: Session, tmp_path: Path, name: str, line: int) -> None:
    file = tmp_path / f"slipped_{name}.py"
    file.write_text(SLIPPED)
    if not line:
        with pytest.raises(CallError):
            examine(session, f"{file}:{name}")
        return
    report = examine(session, f"{file}:{name}")
    (found,) = [f for f in report.findings if f.kind == "unknown"]
    assert (found.where or {}).get("line") == line, str(report)
    # Where it attends for all that, what is wrong is judged by itself.
    assert "in the place of" in found.message or "no softmax of the scores" in found.message
