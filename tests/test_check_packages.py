"""Calls as packages want them; and what of a candidate once made the checker itself fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import overt
from overt.check.report import CallError, Report
from overt.check.session import Session

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

def watched(q, k, v):
    if torch.overrides._get_current_function_mode_stack():
        time.sleep(60)
    return torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packages") / "packages.py"
    path.write_text(SOURCE)
    return path


def told(report: Report) -> set[str]:
    """What is wrong, and that something was judged."""
    assert any(entry.step.endswith("scores") and entry.outcome == "held" for entry in report.ledger), str(report)
    return {f.id for f in report.findings if f.kind in ("mistake", "unknown")}


@pytest.mark.parametrize("name", ["annotated", "imaginary", "Opted"])
def test_right_code_is_let_through(file: Path, name: str) -> None:
    assert told(overt.check(f"{file}:{name}")) == set()


def test_the_time_that_judging_takes_is_no_hang_of_the_candidate(file: Path) -> None:
    with pytest.raises(CallError, match="not understood in time"):
        overt.check(f"{file}:watched", timeout=1)


def test_objects_are_no_message() -> None:
    with Session() as session:
        session.ask({"op": "load", "target": "math:exp"})
        reply, _ = session.ask({"op": "globals", "names": ["pi"]})
        assert "error" in reply
