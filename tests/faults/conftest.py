"""Real processes, for faults that no call inside the test run shows: signals, limits, full disks, closed pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Run = Callable[..., subprocess.CompletedProcess[bytes]]


def environment(**changes: str) -> dict[str, str]:
    """What processes of the tests get: one thread each, and nothing that says how text is encoded."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("PYTHONIOENCODING", "PYTHONUTF8", "LC_ALL")}
    return {**inherited, "OMP_NUM_THREADS": "1", "COLUMNS": "100", **changes}


@pytest.fixture
def overt(tmp_path: Path) -> Run:
    """Run the command in a process of its own, in a folder of its own; `shell` redirects, with "$@" for the command."""

    def run(*arguments: str, shell: str = '"$@"', **options: Any) -> subprocess.CompletedProcess[bytes]:
        changes = options.pop("env", {})
        given = {"cwd": tmp_path, "capture_output": True, "stdin": subprocess.DEVNULL, "timeout": 60, **options}
        command = ["bash", "-c", shell, "bash", sys.executable, "-m", "overt", *arguments]
        return subprocess.run(command, **given, env=environment(**changes))

    return run


@pytest.fixture
def attention(tmp_path: Path) -> Path:
    """A file that `overt show` reads."""
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 4, 8)).astype(np.float32)
    np.savez(tmp_path / "attention.npz", q=q, k=k, v=v)
    return tmp_path / "attention.npz"


def one_line(done: subprocess.CompletedProcess[bytes], code: int = 2) -> str:
    """What a command complained of, in one line and nothing else."""
    error = done.stderr.decode()
    assert done.returncode == code, error
    assert error.startswith("overt: "), error
    assert error.count("\n") == 1, error
    assert len(error) > len("overt: \n")
    return error
