"""``overt check`` beside its verdicts: the ledger, other formats, what a project says of its checks, discovery."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import overt
from overt.check.discovery import discover
from overt.check.formats import github, sarif
from overt.check.mistakes import MISTAKES, SYMPTOMS
from overt.check.report import CallError, CheckerError, Failure, Finding, Report
from overt.check.settings import Settings
from overt.cli.check import command
from overt.errors import ArgumentError, FileError, OvertError

SOURCE = """
import numpy as np

def soft(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def right(q, k, v, mask=None, flavour="plain"):
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    return soft(s) @ v

def wrong(q, k, v):
    return soft(q @ np.swapaxes(k, -1, -2)) @ v

def unclear(apple, pear, plum, cherry):
    raise RuntimeError(f"{apple.shape} will not do")

def area(a, b):
    return a * b
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    result = CliRunner(env={"COLUMNS": "200"}).invoke(command, arguments, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_ledger_says_what_was_tried(project: Path) -> None:
    right, wrong = (json.loads(run(f"mine.py:{name}", "--json").stdout) for name in ("right", "wrong"))
    assert (right["version"], right["target"], right["ok"]) == (3, "mine.py:right", True)
    held = {entry["step"]: entry["outcome"] for entry in right["tested"]}
    assert {"scale": "held", "softmax": "held", "mask": "held"}.items() <= held.items()
    assert {"step": "argument flavour", "why": "it was never passed"} in right["not_tested"]
    (failed,) = (entry for entry in wrong["tested"] if entry["outcome"] == "failed" and entry["mistake"])
    assert (failed["step"], failed["mistake"], failed["line"]) == ("scale", "scale_missing", 15)
    assert {"step": "mask", "why": "it takes none"} in wrong["not_tested"]
    text = run("mine.py:right").stdout
    assert text.index("tested, and held\n  ") < text.index("softmax") < text.index("not tested\n  ")
    assert "  argument flavour: it was never passed" in text


def test_several_targets_are_a_list_whatever_becomes_of_them(project: Path) -> None:
    done = run("mine.py:wrong", "mine.py:nobody", "mine.py:unclear", "--json")
    assert done.return_value == 2
    told = json.loads(done.stdout)
    assert [(row["target"], row["ok"]) for row in told] == [
        ("mine.py:wrong", False),
        ("mine.py:nobody", None),
        ("mine.py:unclear", None),
    ]
    assert [row["error"]["kind"] for row in told[1:]] == ["target", "call"]
    assert "nobody" in told[1]["error"]["message"]
    # One that failed is told in JSON too.
    alone = run("mine.py:nobody", "--json")
    assert (alone.return_value, json.loads(alone.stdout)["error"]["kind"]) == (2, "target")


def test_a_failure_of_the_checker_is_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(import_module("overt.check.checking"), "_check", broken)
    with pytest.raises(CheckerError, match="ZeroDivisionError"):
        overt.check("mine.py:right")
    done = run("mine.py:right", "--json")
    assert (done.return_value, json.loads(done.stdout)["error"]["kind"]) == (2, "checker")


def test_sarif(project: Path) -> None:
    done = run("mine.py:wrong", "mine.py:right", "mine.py:nobody", "--sarif", "x.sarif")
    assert done.return_value == 2
    log = json.loads((project / "x.sarif").read_text())
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    rules = only["tool"]["driver"]["rules"]
    first = only["results"][0]
    assert (first["ruleId"], first["level"]) == ("scale_missing", "error")
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "mine.py"
        assert place["physicalLocation"]["region"]["startLine"] > 0
    assert first["locations"][0]["physicalLocation"]["region"]["startLine"] == 15
    (invocation,) = only["invocations"]
    assert not invocation["executionSuccessful"]
    assert "nobody" in invocation["toolExecutionNotifications"][0]["message"]["text"]


def test_files_elsewhere_and_strange_names_in_sarif(tmp_path: Path) -> None:
    where = {"file": str(tmp_path / "a b.py"), "line": 3, "text": ""}
    report = Report("a\x00b", {}, [Finding("raises", "unknown", True, "one\nline", where=where)])
    result = sarif([report], [])["runs"][0]["results"][0]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == (tmp_path / "a b.py").as_uri()
    assert result["message"]["text"] == "ab: one\nline"
    assert "locations" not in sarif([Report("f", {}, [Finding("x", "risk", True, "")])], [])["runs"][0]["results"][0]


def test_annotations_of_github(project: Path) -> None:
    lines = run("mine.py:wrong", "--github").stdout.splitlines()
    told = [line for line in lines if line.startswith("::")]
    assert told[0].startswith("::error file=mine.py,line=15,title=overt%3A scale_missing::mine.py:wrong: The scores")
    # A message cannot end its line, nor a name its property.
    where = {"file": "a,b:c.py", "line": 1, "text": ""}
    bad = Report("f", {}, [Finding("raises", "unknown", True, "100 %\n::error::x", where=where)])
    (line,) = github([bad], []).splitlines()
    assert line.endswith("::f: 100 %25%0A::error::x")
    assert "a%2Cb%3Ac.py" in line
    assert github([], [Failure("f", "call", "no")]) == "::error title=overt%3A not checked::f: no"


@pytest.mark.parametrize("name", [*MISTAKES, *SYMPTOMS])
def test_every_finding_is_explained(name: str) -> None:
    assert len(run("--explain", name).stdout.splitlines()) > 1


def test_what_is_no_finding_is_said() -> None:
    with pytest.raises(ArgumentError, match=r"no finding is called scale_mising: did you mean scale_missing"):
        run("--explain", "scale_mising")


def test_discovery(project: Path) -> None:
    (project / "deep").mkdir()
    (project / "deep" / "model.py").write_text(
        "import torch\n\nclass Block(torch.nn.Module):\n    def forward(self, x):\n"
        "        return torch.nn.functional.scaled_dot_product_attention(x, x, x)\n"
        "class Norm(torch.nn.Module):\n    def forward(self, x):\n        return x - x.mean()\n"
    )
    (project / "deep" / "broken.py").write_text("def f(:\n")
    (project / ".hidden").mkdir()
    (project / ".hidden" / "x.py").write_text(SOURCE)
    (project / "test_mine.py").write_text(SOURCE)
    assert discover(Path("mine.py")) == ["mine.py:right", "mine.py:wrong"]
    assert discover(Path()) == ["deep/model.py:Block", "mine.py:right", "mine.py:wrong"]
    with pytest.raises(FileError, match=r"cannot read deep/broken.py"):
        discover(Path("deep/broken.py"))
    with pytest.raises(FileError, match="there is no nowhere"):
        discover(Path("nowhere"))
    done = run("mine.py", "--json")
    assert done.return_value == 1
    assert [row["ok"] for row in json.loads(done.stdout)] == [True, False]
    (project / "area.py").write_text("def area(a, b):\n    return a * b\n")
    with pytest.raises(ArgumentError, match=r"nothing in area.py seems to attend: name it, such as area.py:attention"):
        run("area.py")


def test_what_is_found_and_not_understood_is_no_failure(project: Path) -> None:
    (project / "mixed.py").write_text(
        SOURCE + "\ndef loss(apples, pears, plums):\n    return soft(apples.upper() @ pears) @ plums\n"
    )
    done = run("mixed.py", "--json")
    assert done.return_value == 1
    assert [row["ok"] for row in json.loads(done.stdout)] == [True, False, None]
    # Named, it is one.
    with pytest.raises(CallError):
        run("mixed.py:loss")


def test_what_a_project_says_of_its_checks(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.overt.check]\ntargets = ["mine.py:right", "mine.py:wrong"]\nignore = ["memory_quadratic"]\n'
        '[tool.overt.check.target."mine.py:wrong"]\nignore = ["scale_missing"]\nlayout = "BHTD"\n'
        '[tool.overt.check.target."mine.py:r*"]\nmask = "drop"\n'
    )
    told = json.loads(run("--json").stdout)
    assert [(row["target"], row["ok"], row["ignored"]) for row in told] == [
        ("mine.py:right", False, ["memory_quadratic"]),
        ("mine.py:wrong", True, ["memory_quadratic", "scale_missing"]),
    ]
    assert {f["id"] for f in told[0]["findings"] if f["kind"] == "mistake"} == {"mask_inverted"}
    # What is said on the command line is said later.
    assert run("mine.py:right", "--mask", "keep").return_value == 0
    assert "ignored, as asked: memory_quadratic, scale_missing" in run("mine.py:wrong").stdout
    assert Settings.read(project / "nowhere" / "deep").targets == ("mine.py:right", "mine.py:wrong")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tool.overt.check]\nignored = []", "has no ignored: it has targets"),
        ('[tool.overt.check]\nignore = "x"', "ignore must be list"),
        ("[tool.overt.check]\nignore = [1]", "ignore must be a list of texts"),
        ("[tool.overt.check]\ntimeout = true", "timeout must be int or float"),
        ('[tool.overt.check]\ntarget = "x"', "target must hold tables"),
        ("[tool.overt]\ncheck = 3", "check must be a table"),
        ("[tool", "cannot read"),
    ],
)
def test_what_a_project_says_wrongly(project: Path, text: str, told: str) -> None:
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(FileError, match=told):
        run("mine.py:right")


def test_the_fixture_reads_it_too(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.overt.check.target."*:bad"]\nignore = ["softmax_missing", "scale_missing"]\n')
    pytester.makepyfile(
        "from overt.check.plugin import overt_check\n"
        "import numpy as np\n"
        "def bad(q, k, v):\n    return q @ np.swapaxes(k, -1, -2) @ v\n"
        "def worse(q, k, v):\n    return q @ np.swapaxes(k, -1, -2) @ v\n"
        "def test_bad(overt_check):\n    overt_check(bad)\n"
        "def test_worse(overt_check):\n    overt_check(worse)\n"
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:overt").assert_outcomes(passed=1, failed=1)


def test_progress_is_for_terminals(project: Path) -> None:
    (project / "slow.py").write_text("import time\ntime.sleep(2.5)\n" + SOURCE)
    command = [sys.executable, "-m", "overt", "check", "slow.py:right"]
    master, slave = os.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=slave, timeout=60, check=True)
    os.close(slave)
    shown = os.read(master, 10_000)
    os.close(master)
    assert b"slow.py:right" in shown
    assert shown.endswith(b"\r\x1b[K")
    assert b"\r" not in done.stdout
    assert subprocess.run(command, capture_output=True, timeout=60, check=True).stderr == b""


def test_errors_of_the_checker_are_one_tree() -> None:
    assert issubclass(CallError, ArgumentError)
    assert issubclass(CheckerError, OvertError)
