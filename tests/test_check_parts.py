"""Parts of attention by themselves: told by their numbers, whatever their names; and encodings inside a recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import overt
from overt.check.checking import examine
from overt.check.positions import encoding
from overt.check.report import CallError
from overt.check.session import Session

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
def session() -> Iterator[Session]:
    with Session() as running:
        yield running


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


def test_encodings_of_a_recorded_step() -> None:
    random = np.random.default_rng(0)
    x, q, scores = random.normal(size=(2, 7, 12)), random.normal(size=(2, 4, 7, 8)), random.normal(size=(2, 4, 7, 7))
    table = overt.positions.sinusoidal(7, 12)
    angles = np.arange(7)[:, None] / 10_000 ** (np.arange(0, 24, 2) / 12)
    wrong = np.where(np.arange(12) % 2, np.cos(angles), np.sin(angles))
    learned = random.normal(size=(9, 12))
    bias = -overt.positions.alibi_slopes(4)[:, None, None] * np.abs(np.arange(7) - np.arange(7)[:, None])

    def told(*given: np.ndarray, axes: str, **more: dict[str, np.ndarray]) -> list[list[str]]:
        return [[name for name, _ in reading.mistakes] for reading in encoding(*given, axes=axes, **more)]

    assert told(x, x + table, axes="BTW")[0] == []
    assert told(x, x + wrong, axes="BTW")[0] == ["pe_exponent"]
    assert told(x, x + learned[:7], axes="BTW", arrays={"table": learned})[0] == []
    assert told(x, 2 * x, axes="BTW") == []
    assert told(q, overt.positions.rope(q, layout="half"), axes="BHTD")[0] == []
    assert told(q, q, axes="BHTD") == []
    assert told(scores, scores + bias, axes="BHTS")[0] == []
    assert told(scores, scores - bias, axes="BHTS")[0] == ["alibi_sign"]
    assert told(scores, scores + bias[::-1], axes="BHTS") == []
