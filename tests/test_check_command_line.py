"""The command line of ``overt check``: what is named is judged, and what cannot be checked is told."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from overt.check.discovery import discover
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


def test_what_cannot_be_read_or_loaded_is_told_and_no_pipe_is_read(project: Path) -> None:
    (project / "broken.py").write_text("def f(:\n")
    os.mkfifo(project / "pipe.py")
    done = run(".", "mine.py:nothing", "nowhere", "--junit", "x.xml", "--github")
    assert done.return_value == 2
    assert re.search(r"broken.py: cannot read broken.py", done.stderr)
    suite = ElementTree.parse("x.xml").getroot()
    failed = {case.get("name"): len(case.findall("error")) for case in suite}
    assert failed | {"broken.py": 1, "mine.py:nothing": 1, "nowhere": 1, "mine.py:right": 0} == failed
    assert (suite.get("errors"), suite.get("tests")) == ("3", str(len(suite)))
    for target in ("pipe.py", "pipe.py:f", "broken.py"):
        with pytest.raises(OvertError, match=f"cannot (read|load) {target}"):
            run(target)


def test_an_example_is_a_call_of_what_is_named(project: Path) -> None:
    given = "(np.random.randn(2, 5, 4),) * 3"
    assert run("mine.py:wrong", "--example", "lambda q, k, v: wrong(q, k, v)", given).return_value == 1
    assert run("mine.py:Usual.other", "--example", "Usual()", given).return_value == 1
    for target, made in (("wrong", "right"), ("Other", "Usual()"), ("Usual.other", "Usual().__call__")):
        with pytest.raises(OvertError, match="the example cannot be made"):
            run(f"mine.py:{target}", "--example", made, given)
    with pytest.raises(OvertError, match="no tuple of arguments"):
        run("mine.py:right", "--example", "right", "5")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("memory = 1", "memory must be at least 64 MiB"),
        ("timeout = 0.001", "timeout must be seconds, at least 0.1"),
        ("timeout = 5000", "at most 3600"),
        ('ignore = ["scale_dd"]', "no finding is called so"),
    ],
)
def test_settings_have_the_bounds_of_options(project: Path, text: str, told: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.overt.check]\n{text}\n")
    with pytest.raises(OvertError, match=told):
        run("mine.py:right")


def test_targets_of_a_project_lie_where_it_says(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").write_text('[tool.overt.check]\ntargets = ["mine.py:right", "deep"]\n')
    (project / "deep").mkdir()
    (project / "deep" / "more.py").write_text(SOURCE.partition("class")[0])
    monkeypatch.chdir(project / "deep")
    told = json.loads(run("--json").stdout)
    assert [row["target"] for row in told] == ["../mine.py:right", "more.py:right", "more.py:wrong"]


def test_what_normalises_may_be_imported_by_any_name(project: Path) -> None:
    (project / "p").mkdir()
    (project / "p" / "__init__.py").touch()
    (project / "p" / "parts.py").write_text(SOURCE.partition("def right")[0] + "weigh = soft\n")
    (project / "p" / "model.py").write_text(
        "from . import parts\nfrom .parts import weigh as w\n"
        "def one(q, k, v):\n    return w(q @ k.T) @ v\n"
        "def two(q, k, v):\n    return parts.weigh(q @ k.T) @ v\n"
        "def none(q, k, v):\n    return (q @ k.T) @ v\n"
    )
    assert discover(Path("p")) == ["p/model.py:one", "p/model.py:two"]
