"""Standard input and output that are closed, full, broken, or of an encoding that knows few characters."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from faults.conftest import Run, one_line

LESSON = ("show", "my-name-is-john")


@pytest.mark.parametrize(
    "setting",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "cp1252:strict"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=lambda setting: "-".join(setting.values()),
)
def test_any_encoding_shows_what_it_can(overt: Run, setting: dict[str, str]) -> None:
    done = overt(*LESSON, env=setting)
    # A terminal of which nobody said anything gets UTF-8.
    encoding = {"ascii": "utf-8"}.get(given := setting.get("PYTHONIOENCODING", "utf-8").partition(":")[0], given)
    text = done.stdout.decode(encoding)
    assert (done.returncode, done.stderr) == (0, b"")
    assert " 3 scores = q kᵀ".encode(encoding, "replace").decode(encoding) in text
    assert "0.4112  -1.0168   1.9387" in text


def test_translations_in_an_encoding_without_their_letters(overt: Run) -> None:
    done = overt("translate", "I love you.", "--show", env={"PYTHONIOENCODING": "latin-1"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("latin-1").startswith("????\n")


@pytest.mark.parametrize(
    "arguments", [("models",), LESSON, ("show", "data", "bat"), ("translate", "hello"), ("--help",)], ids=" ".join
)
@pytest.mark.parametrize(
    ("shell", "number"), [('"$@" >&-', errno.EBADF), ('"$@" >/dev/full', errno.ENOSPC)], ids=["closed", "full"]
)
def test_output_that_cannot_be_written(overt: Run, arguments: tuple[str, ...], shell: str, number: int) -> None:
    assert os.strerror(number) in one_line(overt(*arguments, shell=shell))


@pytest.mark.parametrize("arguments", [("models",), LESSON, ("show", "page", "bat", "-o", "/dev/stdout")], ids=" ".join)
def test_who_has_read_enough_hears_nothing(overt: Run, arguments: tuple[str, ...]) -> None:
    # The pipe is closed before the command writes its first byte.
    assert overt(*arguments, shell='{ "$@"; echo $? >&2; } | true').stderr == b"141\n"


def test_input_that_is_closed(overt: Run, attention: Path) -> None:
    assert os.strerror(errno.EBADF) in one_line(overt("translate", shell='"$@" <&-'))
    # Who does not read it does not need it, and no file takes its place.
    for shell in ('"$@" <&-', '"$@" <&- 2>&-'):
        done = overt("show", attention.name, shell=shell)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"strongest pairs" in done.stdout


def test_errors_that_nobody_can_be_told(overt: Run) -> None:
    assert overt("show", "nothing", shell='"$@" 2>&-').returncode == 2
    assert overt("show", "nothing", "--debug", shell='"$@" 2>&-').stdout == b""


def test_names_that_are_no_text(overt: Run, tmp_path: Path) -> None:
    done = overt("show", os.fsdecode(b"\xff\xfe.npz"))
    assert "cannot read" in one_line(done)
    done = overt("show", "page", "my-name-is-john", "-o", os.fsdecode(b"\xff.html"))
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"wrote ?.html" in done.stdout
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff.html"]
