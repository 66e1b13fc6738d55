"""Whatever fails is one line and exit code 2; a developer sees where."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from faults.conftest import Run, one_line
from overt.cli import main
from overt.models import checkpoint

Q = np.ones((2, 3, 4), np.float32)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"layer": np.inf}, "layer in x.npz must be one number, not inf"),
        ({"layer": np.nan}, "layer in x.npz must be one number, not nan"),
        ({"prompt": -np.inf}, "prompt in x.npz must be one number, not -inf"),
        ({"layer": [1, 2]}, "layer in x.npz must be one number, not int64 (2,)"),
        ({"scale": np.void(b"abc")}, "scale in x.npz must be one number"),
        ({"scale": 10**400}, "x.npz cannot be read as arrays"),
        ({"q": np.void(b"abc")}, "q has dtype void24"),
        ({"softcap": "much"}, "softcap in x.npz must be one number"),
        ({"mask": np.array([b"\xff"] * 3)}, "mask must be"),
        ({"additive": np.array([b"\xff"] * 4)}, "additive v must be floats"),
    ],
    ids=lambda x: "-".join(x) if isinstance(x, dict) else None,
)
def test_files_of_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], extra: dict, message: str
) -> None:
    np.savez(tmp_path / "x.npz", **{"q": Q, "k": Q, **extra})  # type: ignore[arg-type]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["show", "x.npz"])
    out, error = capsys.readouterr()
    assert (stopped.value.code, out, error.count("\n")) == (2, "", 1)
    assert message in error


def test_members_that_are_no_arrays(overt: Run, tmp_path: Path) -> None:
    for k in (b"no array", b"\x93NUMPY"):
        with zipfile.ZipFile(tmp_path / "raw.npz", "w") as file:
            file.writestr("q", b"no array")
            file.writestr("k", k)
        assert "raw.npz" in one_line(overt("show", "raw.npz"))


def test_names_that_are_no_text(overt: Run, tmp_path: Path) -> None:
    # Half of a pair of surrogates, bytes that are no UTF-8, and characters that steer terminals.
    np.savez(tmp_path / "x.npz", q=Q, k=Q, tokens=np.array(["\ud800", "\x1b[2J", "b"]), name=np.array("\udfff"))
    for arguments in ((), ("data",), ("data", "-o", "x.csv"), ("page", "-o", "x.html")):
        done = overt("show", *arguments, "x.npz")
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"\x1b[2J" not in done.stdout


def test_json_that_is_very_deep(overt: Run, tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    save_file({"x": Q}, tmp_path / "deep.safetensors", {"format": checkpoint.FORMAT, "overt": deep})
    with pytest.raises(RecursionError):
        json.loads(deep)
    for command in (["translate", "hello", "--model"], ["export", "--to", "ctranslate2", "-o", "y"]):
        assert "deep.safetensors" in one_line(overt(*command, "deep.safetensors"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("show|", "the path is empty"),
        ("show|bat|", "the path is empty"),
        ("show|bat|--tokens|", "'--tokens': the path is empty"),
        ("show|hello|-m|", "'-m' / '--model': the name is empty"),
        ("show|page|bat|-o|", "'-o' / '--output': the path is empty"),
        ("show|data|bat|-o|", "'-o' / '--output': the path is empty"),
        ("translate|hello|-m|", "'-m' / '--model': the name is empty"),
        ("attend|q.npy|k.npy|v.npy|-o|", "'-o' / '--output': the path is empty"),
        ("attend|q.npy||v.npy|-o|seen", "'K': the path is empty"),
        ("export|en-zh|--to|ctranslate2|-o|", "'-o' / '--output': the path is empty"),
        ("export||--to|ctranslate2|-o|x", "'MODEL': the name is empty"),
        ("train|pairs.tsv|-o|", "'-o' / '--output': the path is empty"),
        ("train||-o|x.safetensors", "'CORPUS...': the name is empty"),
    ],
)
def test_an_empty_path_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(arguments.split("|"))
    out, error = capsys.readouterr()
    assert (stopped.value.code, out, error.count("\n")) == (2, "", 1)
    assert message in error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_developer_sees_where(overt: Run, tmp_path: Path, place: int) -> None:
    arguments = ["show", "none.npz"]
    assert one_line(overt(*arguments)).startswith("overt: cannot read none.npz")
    arguments.insert(place, "--debug")
    done = overt(*arguments)
    lines = done.stderr.decode().splitlines()
    assert done.returncode == 2
    assert lines[0].startswith("Traceback")
    assert any("views/files.py" in line for line in lines)
    assert lines[-1].startswith("overt: cannot read none.npz")


FAILURES = {
    "MemoryError()": "overt: there is not enough memory for this",
    "MemoryError('4 TiB')": "overt: there is not enough memory for this: 4 TiB",
    "ValueError('\\ud800 \\x1b[2J\\ny')": "overt: this should not happen, ValueError: � �[2J y (--debug shows where)",
    "RecursionError()": "overt: this should not happen, RecursionError: (--debug shows where)",
    "OSError(28, 'No space left on device')": "overt: standard input or output: No space left on device",
    "FileNotFoundError(2, 'No such file', 'x')": "overt: x: No such file",
    "OSError(24, 'Too many open files')": "overt: the system refuses: Too many open files",
    "OSError()": "overt: the system refuses: OSError",
}


@pytest.mark.parametrize("failure", FAILURES)
def test_whatever_is_raised(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failure: str) -> None:
    def fail() -> None:
        raise eval(failure)

    monkeypatch.setattr("overt.models.bundled", fail)
    with pytest.raises(SystemExit) as stopped:
        main(["models"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.rstrip("\n") == FAILURES[failure]
    with pytest.raises(SystemExit):
        main(["models", "--debug"])
    assert capsys.readouterr().err.startswith("Traceback")


def test_no_memory(overt: Run, tmp_path: Path) -> None:
    # An array of 256 GiB, says its header.
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1, 1 << 36)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as file:
        file.writestr("q.npy", header.getvalue())
    assert "Unable to allocate 256. GiB" in one_line(overt("show", "x.npz", shell='ulimit -v 2000000; "$@"'))
