"""What the command line takes for a path: any text but an empty one, which Python takes for the folder it is in.

As elsewhere, - is standard input where lines are read, and standard output where one file is written.
What is written beside what a command is for, such as a report, replaces an older file of its kind, which is told by how
it begins, and no other.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click


class _Path(click.Path):
    def __init__(self, stream: str | None = None, begins: bytes = b"", **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self.stream, self.begins = stream, begins

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty: name a file or a folder", param, ctx)
        if value == "-":
            if self.stream is None:
                self.fail(
                    "standard input and output will not do here: name a file (one that is called so is ./-)", param, ctx
                )
            value = self.stream
        path: Any = super().convert(value, param, ctx)
        if self.begins and Path(path).is_file():
            with suppress(PermissionError), open(path, "rb") as file:
                there = file.read(128)
                if there and not there.startswith(self.begins):
                    self.fail(
                        f"{path} is there already, and nothing that overt wrote here: choose another name", param, ctx
                    )
        return path


class _Name(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty: give a name or a path", param, ctx)
        return super().convert(value, param, ctx)


PATH, NAME = _Path(), _Name()
"""A path, as a ``Path``, and a name that may be that of a file, such as a model's, as text."""
JUNIT = _Path(begins=b'<?xml version="1.0" encoding="utf-8"?>\n<testsuite name="overt check"', dir_okay=False)
SARIF = _Path(begins=b'{\n  "$schema": "https://docs.oasis-open.org/sarif/', dir_okay=False)
PAGE, SAVED = _Path(begins=b'<!doctype html>\n<html lang="en">\n<head>\n'), _Path(begins=b"PK\3\4")
"""Files that are written, each of one kind."""
LINES, WRITTEN = _Path("/dev/stdin"), _Path("/dev/stdout")
"""A file of lines that are read, and a file that is written, of which - is a standard stream."""
