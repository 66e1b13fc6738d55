"""``overt check`` names every mistake of its catalogue, alone and in pairs, and leaves right code alone.

The candidates in tests/check_candidates were written by hand, without a look at the variants that find them.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import overt
from overt.check.checking import examine
from overt.check.formats import junit
from overt.check.mistakes import MISTAKES
from overt.check.process.loading import setting_of_keras
from overt.check.process.session import Session
from overt.check.report import CallError, Report
from overt.cli.check import command
from overt.errors import ArgumentError
from test_check_lines import ELSEWHERE, placed

HERE = Path(__file__).parent / "check_candidates"
SETS = (
    "numpy_mistakes",
    "torch_mistakes",
    "other_styles",
    "pairs",
    "lessons",
    "right",
    "tutorials",
    "models",
    "references",
    "first_sight",
    "second_sight",
    "third_sight",
    "encoder_decoder",
    "parts",
)
# What is wrong only at the edge, or only elsewhere, and may be told of any candidate.
TOLD = ("convention", "risk")


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"check_candidates_{name}", HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    vars(np)["infty"] = np.inf
    spec.loader.exec_module(loaded)
    del vars(np)["infty"]
    return loaded


EXPECTED = {(name, candidate): set(ids.split()) for name in SETS for candidate, ids in module(name).EXPECTED.items()}


@pytest.mark.parametrize(("name", "candidate"), EXPECTED)
def test_candidates(session: Session, name: str, candidate: str) -> None:
    expected = EXPECTED[name, candidate]
    report = examine(session, f"{HERE / name}.py:{candidate}")
    found = {f.id for f in report.findings}
    wrong = {f.id for f in report.findings if f.kind not in TOLD}
    assert expected <= found, str(report)
    assert wrong <= expected, str(report)
    assert report.ok == (not wrong)
    where = placed(name, candidate, report)
    assert {key for key, right in where.items() if not right} == where.keys() & ELSEWHERE, str(report)


def test_the_whole_catalogue_is_shown_twice_and_forty_pairs() -> None:
    single: dict[str, set[str]] = {}
    for (name, candidate), ids in EXPECTED.items():
        for one in ids:
            single.setdefault(one, set()).add(f"{name}:{candidate}")
    assert {name for name, where in single.items() if len(where) >= 2} >= set(MISTAKES)
    assert sum(len(ids) == 2 for (name, _), ids in EXPECTED.items() if name == "pairs") >= 40
    assert sum(name == "right" for name, _ in EXPECTED) >= 40


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        (torch.nn.functional.scaled_dot_product_attention, {"kv_len_mismatch", "causal_top_left"}),
        (torch.nn.MultiheadAttention, {"weights_after_dropout", "full_row_nan"}),
        (torch.nn.MultiheadAttention(12, 3, batch_first=True), {"full_row_nan"}),
        (overt.attention, set()),
    ],
    ids=["sdpa", "MultiheadAttention", "batch_first", "overt"],
)
def test_peers_are_right_or_differ_in_convention(peer: object, told: set[str]) -> None:
    report = overt.check(peer)
    assert report.ok, str(report)
    assert told <= {f.id for f in report.findings}
    assert all(f.kind in TOLD for f in report.findings)


def test_jax_where_it_is_installed() -> None:
    if importlib.util.find_spec("jax") is not None:
        report = overt.check("jax.nn:dot_product_attention", layout="BTHD", mask="keep", timeout=60.0, memory=8 << 30)
        assert report.ok, str(report)
        assert "causal_top_left" in {f.id for f in report.findings}


def test_a_process_that_has_used_jax_checks_in_a_fork(tmp_path: Path) -> None:
    # JAX would wait there for threads that a fork does not have.
    used = "import jax.numpy as jnp; (jnp.ones((3, 3)) @ jnp.ones((3, 3))).block_until_ready()"
    code = f"""
import numpy as np, overt
{used if importlib.util.find_spec("jax") is not None else ""}

def attention(q, k, v):
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v

assert overt.check(attention).ok
"""
    (tmp_path / "used.py").write_text(code)
    subprocess.run([sys.executable, "-W", "ignore", str(tmp_path / "used.py")], check=True, timeout=60)


def test_keras_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("keras") is None:
        return
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    own = f"{HERE / 'keras_layers'}.py"
    peers = [
        f"keras.layers:{n}" for n in ("Attention", "AdditiveAttention", "MultiHeadAttention", "GroupQueryAttention")
    ]
    with Session(timeout=60.0, memory=8 << 30) as session:
        for target in (*peers, f"{own}:MyAttention", f"{own}:SelfAttention"):
            report = examine(session, target)
            assert report.ok, str(report)
        wrong = examine(session, f"{own}:Wrong")
    assert [f.id for f in wrong.findings if f.kind == "mistake"] == ["scale_dmodel"]


def test_keras_takes_a_library_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    there = {"torch", "numpy"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in there else None)
    assert setting_of_keras() == {"KERAS_BACKEND": "torch"}
    for said in ("torch", "tensorflow"):
        # Keras writes there what it was to take.
        (tmp_path / "keras.json").write_text(f'{{"backend": "{said}"}}')
        assert setting_of_keras() == ({} if said == "torch" else {"KERAS_BACKEND": "torch"})
    there.add("tensorflow")
    assert setting_of_keras() == {}
    monkeypatch.undo()
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    if not any(map(importlib.util.find_spec, ("torch", "jax"))) or importlib.util.find_spec("keras") is None:
        return
    with Session(timeout=60.0, memory=8 << 30) as session:
        assert examine(session, f"{HERE / 'keras_layers'}.py:MyAttention").ok


def test_memory_that_grows_with_the_square(tmp_path: Path) -> None:
    def textbook(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v

    def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    def blocks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        top = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=q.dtype)
        total, output = torch.zeros_like(top), torch.zeros_like(q)
        for i in range(0, k.shape[-2], 512):
            s = q @ k[..., i : i + 512, :].mT / q.shape[-1] ** 0.5
            new = torch.maximum(top, s.amax(-1, keepdim=True))
            p, old = torch.exp(s - new), torch.exp(top - new)
            total = total * old + p.sum(-1, keepdim=True)
            output = output * old + p @ v[..., i : i + 512, :]
            top = new
        return output / total

    told = [{f.id for f in overt.check(f).findings} for f in (textbook, fused, blocks, overt.attention)]
    assert ["memory_quadratic" in ids for ids in told] == [True, False, False, False]
    right = overt.check(f"{write(tmp_path)}:right")
    assert right.ok
    assert {f.id: f.kind for f in right.findings} == {"memory_quadratic": "risk"}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("import os; os.kill(os.getpid(), 11)", "crashes"),
        ("import os; os._exit(3)", "exits"),
        ("import sys; sys.exit('done')", "exits"),
        ("while True: pass", "hangs"),
        ("import numpy; return numpy.ones(1 << 40)", "memory"),
        ("import numpy; return [bytearray(1 << 20) for _ in range(1 << 20)]", "memory"),
        ("raise KeyError('<b>')", "raises"),
    ],
)
def test_whatever_it_does_there_is_a_report(tmp_path: Path, body: str, found: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(f"def attend(q, k, v):\n    {body}\n")
    report = overt.check(f"{file}:attend", timeout=2.0, memory=256 << 20)
    assert not report.ok
    assert [f.id for f in report.findings if f.kind == "unknown"] == [found]
    assert found in str(report)
    assert ElementTree.fromstring(junit([report])).get("failures") == "1"


def test_what_is_kept_from_the_processor_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "slow.py"
    file.write_text(
        "import math, time, torch\n"
        "slept = []\n"
        "def attend(q, k, v):\n"
        "    if not slept:\n"
        "        slept.append(time.sleep(0.6))\n"
        "    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v\n"
    )
    waits = Session(timeout=0.5)
    monkeypatch.setattr(waits, "_worked", lambda: (0.0, True))
    with waits:
        assert examine(waits, f"{file}:attend").ok
    with Session(timeout=0.5) as sleeps:
        assert [f.id for f in examine(sleeps, f"{file}:attend").findings] == ["hangs"]


@pytest.mark.parametrize("more", ["", "    def add_noise(self, x): return x\n"])
def test_what_need_not_attend_may_wait(tmp_path: Path, more: str) -> None:
    file = tmp_path / "waits.py"
    file.write_text(
        "import time\n"
        "class Scheduler:\n"
        "    def from_config(self, x):\n"
        "        x.reshape(-1)\n"
        "        while True: time.sleep(0.1)\n" + more
    )
    with pytest.raises(CallError, match=r"no method forward.* did not answer within 0.5 seconds"):
        overt.check(f"{file}:Scheduler", timeout=0.5)


def test_what_it_prints_stays_out_of_the_report(tmp_path: Path) -> None:
    file = tmp_path / "loud.py"
    file.write_text(
        "import os, sys, math, torch\nprint('loading')\n"
        "def attend(q, k, v):\n"
        "    print('hello'); os.write(1, b'raw'); sys.stderr.write('error')\n"
        "    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "overt", "check", f"{file}:attend", "--json"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ok"]
    assert {f["id"] for f in json.loads(done.stdout)["findings"]} == {"prints", "memory_quadratic"}
    assert done.stderr == ""


def write(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n\n"
        "def soft(x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n    return e / e.sum(-1, keepdims=True)\n\n"
        "def right(q, k, v):\n    return soft(q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5) @ v\n\n"
        "def wrong(q, k, v):\n    return soft(q @ np.swapaxes(k, -1, -2)) @ v\n\n"
        "def nameless(a, b, c, extra):\n"
        "    return soft(a @ np.swapaxes(b, -1, -2) / a.shape[-1] ** 0.5) @ c + 0 * extra\n\n"
        "def strange(q, k, v):\n    return np.cos(q @ np.swapaxes(k, -1, -2)) @ v\n"
    )
    return file


def test_the_command(tmp_path: Path) -> None:
    # Lines that hold however long the folder's name is.
    file, run = write(tmp_path), CliRunner(env={"COLUMNS": "400"})
    good = run.invoke(command, [f"{file}:right"], standalone_mode=False)
    assert (good.return_value, good.output.splitlines()[0].split(":")[-1]) == (0, "right is right (1 thing to know)")
    bad = run.invoke(command, [f"{file}:wrong", "--json"], standalone_mode=False)
    told = json.loads(bad.output)
    assert bad.return_value == 1
    assert (told["ok"], told["convention"]["layout"]) == (False, "BHTD")
    (finding,) = (f for f in told["findings"] if f["kind"] == "mistake")
    assert (finding["id"], finding["certain"]) == ("scale_missing", True)
    assert finding["where"]["line"] == 11
    assert finding["example"]["expected"] != finding["example"]["actual"]
    assert finding["evidence"].startswith("https://")
    assert finding["mend"]
    xml = tmp_path / "report.xml"
    both = run.invoke(command, [f"{file}:right", f"{file}:wrong", "--junit", str(xml)], standalone_mode=False)
    assert both.return_value == 1
    suite = ElementTree.parse(xml).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "\x1b" not in both.output


def test_a_name_can_be_given_its_meaning(tmp_path: Path) -> None:
    file = write(tmp_path)
    # What it is where nobody says it, is found by trying.
    assert overt.check(f"{file}:nameless").ok
    assert overt.check(f"{file}:nameless", arguments={"a": "q", "b": "k", "c": "v"}).ok
    assert overt.check(f"{file}:nameless", arguments={"a": "q", "b": "k", "c": "v", "extra": "seed"}).ok


def test_what_cannot_be_loaded_is_one_line(tmp_path: Path) -> None:
    for target in ("no_such_file.py:f", f"{write(tmp_path)}:nobody", "no.such.module:f", "nothing"):
        with pytest.raises(ArgumentError) as caught:
            overt.check(target)
        assert "\n" not in str(caught.value)
        assert target in str(caught.value)


def test_wrong_for_no_known_reason(tmp_path: Path) -> None:
    report = overt.check(f"{write(tmp_path)}:strange")
    assert [f.id for f in report.findings if f.kind not in TOLD] == ["unknown"]
    assert report.verdict.endswith("is wrong, but I don't know why")


def test_functions_of_this_process() -> None:
    calls = []

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return torch.softmax(q @ k.transpose(-2, -1), -1) @ v

    report = overt.check(attend)
    assert [f.id for f in report.findings if f.kind == "mistake"] == ["scale_missing"]
    # It ran in a fork.
    assert not calls
    assert [f.id for f in overt.check(attend, isolate=False).findings if f.kind == "mistake"] == ["scale_missing"]
    assert calls


def test_gradients() -> None:
    def cut(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q.detach() @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: object, *dy: torch.Tensor) -> torch.Tensor:
            return 2 * dy[0]

    def doubled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ Double.apply(v)

    def centred(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v
        return y - y.mean(-1, keepdim=True).detach()

    assert {f.id for f in overt.check(cut).findings if f.kind == "mistake"} == {"gradient_cut"}
    # A part that is taken out by hand is meant so.
    assert {f.id: f.kind for f in overt.check(centred).findings}["gradient_wrong"] == "risk"
    assert {f.id for f in overt.check(doubled).findings if f.kind == "mistake"} == {"gradient_wrong"}


@pytest.mark.parametrize("width", [40, 72, 120])
def test_the_report_keeps_to_the_window(width: int, tmp_path: Path) -> None:
    report = overt.check(f"{write(tmp_path)}:wrong")
    text = report.text(width=width, colour=False)
    words = [line for line in text.splitlines() if "https://" not in line and str(tmp_path) not in line]
    assert max(map(len, words)) <= width
    assert "".join(text.split()).startswith("".join(report.verdict.split()))
    assert "\x1b[" in report.text(colour=True)


def test_what_holds_attention_is_looked_into_once(tmp_path: Path) -> None:
    # The method that attends is puzzling in its turn, and is a method of the same class.
    text = (HERE / "third_sight.py").read_text()
    right = "return self.back((a @ v).transpose(1, 2).reshape(B, T, C))"
    assert text.count(right) >= 1
    (tmp_path / "mixed.py").write_text(text.replace(right, right.replace("(1, 2)", "(0, 2)")))
    assert not overt.check(f"{tmp_path / 'mixed.py'}:WholeBlock").ok


def test_control_characters_stay_out_of_xml() -> None:
    xml = junit([Report("a\x00<b>&\x1b[31m", {})])
    assert ElementTree.fromstring(xml).find("testcase").get("name") == "a<b>&[31m"  # type: ignore[union-attr]


def test_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "from overt.check.plugin import overt_check\n"
        "def bad(q, k, v):\n    import numpy as np\n    return q @ np.swapaxes(k, -1, -2) @ v\n"
        "def test_bad(overt_check):\n    overt_check(bad)\n"
    )
    outcome = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:overt")
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(["*softmax_missing*"])
