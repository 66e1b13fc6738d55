"""What is named on the command line of ``overt check`` is what is judged, and no file of the user's is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from overt.cli.check import command
from overt.errors import OvertError

SOURCE = """
import numpy as np

def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def right(q, k, v):
    return soft(q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5) @ v

def wrong(q, k, v):
    return soft(q @ np.swapaxes(k, -1, -2)) @ v

class Usual:
    def __call__(self, q, k, v):
        return right(q, k, v)

    def other(self, q, k, v):
        return wrong(q, k, v)

class Other:
    def tell(self, k, v):
        self.k, self.v = k, v

    def ask(self, q):
        return right(q, self.k, self.v)

    def forward(self, q, k, v):
        return wrong(q, k, v)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_method_that_is_named_is_judged_and_no_other(project: Path) -> None:
    names = ("Usual", "Usual.other", "Other.ask", "Other.forward")
    rows = json.loads(run(*(f"mine.py:{name}" for name in names), "--json").stdout)
    assert [row["ok"] for row in rows] == [True, False, True, False]
