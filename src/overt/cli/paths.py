"""What the command line takes for a path: any text but an empty one, which Python takes for the folder it is in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class _Path(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty: name a file or a folder", param, ctx)
        return super().convert(value, param, ctx)


class _Name(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the name is empty: give a name or a path", param, ctx)
        return super().convert(value, param, ctx)


PATH, FILE, NAME = _Path(path_type=Path), _Path(dir_okay=False, path_type=Path), _Name()
"""A path and that of no folder, as a ``Path``; and a name that may be that of a file, such as a model's, as text."""
