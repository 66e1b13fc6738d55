"""Signals: what was begun is put away, and the exit code says which it was."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.conftest import Run, environment

# A command of the library's own, with a body that waits in the middle of its work.
COMMAND = """
import os, sys, time
from overt import cli
from overt.cli import export
from overt.models import ctranslate2
from overt.writing import replaced, replaced_folder

def wait(folder, checkpoint, overwrite):
    with replaced_folder(folder, overwrite=overwrite) as new, replaced("file") as file:
        (new / "model").write_text("half")
        file.write(b"half")
        print("begun", flush=True)
        for _ in range(600):
            time.sleep(0.1)

ctranslate2.save = wait
cli.main(["export", "dates", "--to", "ctranslate2", "-o", "folder"])
"""


def begun(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], 30)
    assert ready
    assert process.stdout.readline() == b"begun\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=lambda x: str(int(x))
)
def test_what_is_temporary_is_removed(tmp_path: Path, number: int, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # Who started the tests may have it ignored, as nohup does.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    ) as process:
        begun(process)
        assert len(os.listdir(tmp_path)) >= 1
        process.send_signal(number)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (code, b"")
    assert os.listdir(tmp_path) == []


def test_what_shall_be_ignored_is_ignored(tmp_path: Path) -> None:
    # As under nohup.
    code = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)" + COMMAND.replace("600", "3")
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        begun(process)
        process.send_signal(signal.SIGHUP)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (0, b"")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_handlers_are_given_back(overt: Run) -> None:
    code = """
import signal
from overt.cli import main
before = [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
try:
    main(["models"])
except SystemExit:
    pass
assert before == [signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment(), timeout=60)


def test_an_interrupted_command_says_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "overt", "translate"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        bufsize=0,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hello\n" * 64)
        assert process.stdout.readline()
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (130, b"")
