"""Processes with little of everything: files, stack, environment, columns, and no folder to stand in."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.conftest import Run, one_line

RIGHT = """
import numpy as np

def attend(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v
"""


@pytest.mark.parametrize(
    "shell",
    [
        'ulimit -s 256; "$@"',
        'ulimit -n 8; "$@"',
        'mkdir gone; cd gone; rmdir ../gone; "$@"',
        'env -i "$@"',
        'PYTHONOPTIMIZE=2 "$@"',
        'PYTHONWARNINGS=error "$@"',
        'COLUMNS=0 "$@"',
        'COLUMNS=-1 TERM=nonsense "$@"',
    ],
)
def test_enough_is_enough(overt: Run, shell: str) -> None:
    done = overt("show", "bat", shell=shell)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "bat (cave)" in done.stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "shell", "told"),
    [
        (("check", "right.py:attend"), 'ulimit -n 7; "$@"', "the system refuses: Too many open files"),
        (("show", "page", "bat", "-o", "x.html"), 'mkdir gone; cd gone; rmdir ../gone; "$@"', "cannot write x.html"),
        (("check", "right:attend"), 'mkdir gone; cd gone; rmdir ../gone; "$@"', "cannot load right:attend"),
    ],
    ids=["files", "folder", "module"],
)
def test_too_little_is_said(overt: Run, tmp_path: Path, arguments: tuple[str, ...], shell: str, told: str) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    assert told in one_line(overt(*arguments, shell=shell))


def test_help_without_documentation(overt: Run) -> None:
    for arguments in (("--help",), ("show",), ("show", "--help"), ("show", "page", "--help")):
        done = overt(*arguments, shell='PYTHONOPTIMIZE=2 "$@"')
        assert (done.returncode, done.stderr) == (0, b"")
