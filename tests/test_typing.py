"""What a type checker knows of the package; that a user's script passes (tests/typing) is held by ``make lint``."""

from __future__ import annotations

import inspect
from pathlib import Path

import overt


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(inspect.getfile(overt)).parent / "py.typed").is_file()
