"""What a type checker makes of a user's script."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import overt

ROOT = Path(__file__).parents[1]


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(inspect.getfile(overt)).parent / "py.typed").is_file()


def test_a_script_of_a_user_is_checked_strictly() -> None:
    # Of its own lines, with what mypy knows of the libraries kept from run to run, and at first from the linters.
    cache = ROOT / ".mypy_cache"
    kept = cache / "user"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not kept.exists() and (cache / version).exists():
        shutil.copytree(cache / version, kept / version)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", kept]
    done = subprocess.run(
        [*command, ROOT / "tests" / "typing" / "user.py"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout == "Success: no issues found in 1 source file\n", done.stdout + done.stderr
