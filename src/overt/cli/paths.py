"""What the command line takes for a path: any text but an empty one, which Python takes for the folder it is in.

As elsewhere, - is standard input where lines are read, and standard output where one file is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class _Path(click.Path):
    def __init__(self, stream: str | None = None, **options: Any) -> None:
        super().__init__(path_type=Path, **options)
        self.stream = stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty: name a file or a folder", param, ctx)
        if value == "-":
            if self.stream is None:
                self.fail(
                    "standard input and output will not do here: name a file (one that is called so is ./-)", param, ctx
                )
            value = self.stream
        return super().convert(value, param, ctx)


class _Name(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty: give a name or a path", param, ctx)
        return super().convert(value, param, ctx)


PATH, FILE, NAME = _Path(), _Path(dir_okay=False), _Name()
"""A path and that of no folder, as a ``Path``; and a name that may be that of a file, such as a model's, as text."""
LINES, WRITTEN = _Path("/dev/stdin"), _Path("/dev/stdout")
"""A file of lines that are read, and a file that is written, of which - is a standard stream."""
