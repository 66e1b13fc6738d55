"""Callables that users give, files that they have already, and what their own code does beside its result."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

import overt
from overt.check.process.describe import describe
from overt.cli import main
from overt.errors import ArgumentError
from overt.recorder.operations import drained
from swapped import Check, right_and_wrong

pytest.importorskip("torch")

SOURCE = """
import asyncio
import functools
import numpy as np
import torch


def softmax(s):
    w = np.exp(s - s.max(-1, keepdims=True))
    return w / w.sum(-1, keepdims=True)


def split(heads, q, k, v):
    B, T, D = q.shape
    q, k, v = (x.reshape(B, -1, heads, D // heads).transpose(0, 2, 1, 3) for x in (q, k, v))
    y = softmax(q @ k.swapaxes(-1, -2) / (D // heads) ** 0.5) @ v
    return y.transpose(0, 2, 1, 3).reshape(B, T, D)


partial = functools.partial(split, 3)


async def scores(q, k):
    await asyncio.sleep(0)
    return q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])


async def awaited(q, k, v):
    return softmax(await scores(q, k)) @ v


@torch.compile(fullgraph=True)
def compiled(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v
"""

BOTH = [
    ("partial", "/ (D // heads) ** 0.5", "/ D**0.5", "scale_dmodel"),
    ("awaited", "/ np.sqrt(q.shape[-1])", "/ q.shape[-1]", "scale_d"),
    ("compiled", "* q.shape[-1] ** -0.5", "/ q.shape[-1]", "scale_d"),
]

test_right, test_wrong = right_and_wrong(SOURCE, BOTH)

MODELS = """
import torch
from torch import nn

def prints():
    print("PRINTED")
    return nn.TransformerEncoderLayer(16, 2, batch_first=True).eval(), torch.randn(1, 6, 16)

def ends():
    raise SystemExit(0)

def ends_late():
    raise SystemExit(200)
"""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as done:
        main([*arguments])
    return int(done.value.code or 0)


def test_reports_replace_reports_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(SOURCE)
    Path("users_models.py").write_text(MODELS)
    for option in ("--junit", "--sarif"):
        assert run("check", "mine.py:partial", option, "mine.py") == 2
    for option in ("--page", "--save"):
        assert run("record", "users_models:prints", option, "users_models.py") == 2
    assert (Path("mine.py").read_text(), Path("users_models.py").read_text()) == (SOURCE, MODELS)
    assert "is there already" in capsys.readouterr().err
    report = ("--page", "seen.html", "--save", "seen.npz", "--json")
    for _ in range(2):
        assert run("record", "users_models:prints", *report) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["attentions"]
        assert err == "PRINTED\n"


def test_code_that_ends_or_cannot_be_read_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("users_ends.py").write_text(MODELS)
    Path("users_broken.py").write_text("def f(\n")
    assert run("record", "users_ends:ends") == 2
    assert "ended the process (SystemExit: 0)" in capsys.readouterr().err
    assert run("record", "users_ends:ends_late") == 2
    assert "ended the process (SystemExit: 200)" in capsys.readouterr().err
    assert run("record", "users_broken:f") == 2
    assert "users_broken:f cannot be imported: SyntaxError" in capsys.readouterr().err


def test_what_is_no_code_is_named(check: Check) -> None:
    source = "number = 3\n\nclass A:\n    @property\n    def attend(self):\n        return None\n"
    for name, kind in (("number", "int"), ("A.attend", "property")):
        with pytest.raises(ArgumentError, match=f"it is an? {kind}"):
            check(name, source)
    assert describe(np.matmul)["name"] == "ufunc"


async def _added(x: np.ndarray) -> np.ndarray:
    return x + 2j


def test_traces_of_complex_numbers_and_of_what_is_awaited() -> None:
    steps = overt.trace(_added, np.ones(2))
    assert steps.step("add").mean == 1 + 2j
    assert drained(_added)(np.ones(1))[0] == 1 + 2j

    async def notebook() -> None:
        assert overt.trace(_added, np.ones(2)).step("add").mean == 1 + 2j
        await asyncio.sleep(0)

    # Where a loop runs already, and goes on.
    asyncio.run(notebook())
