"""What a project says of its checks in ``[tool.overt.check]`` of its pyproject.toml."""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from overt.check.mistakes import MISTAKES, SYMPTOMS
from overt.errors import ArgumentError, FileError

# Each option and the type of its value; those of ``check`` may also stand in the table of a target.
_OPTIONS: dict[str, tuple[type, ...]] = {
    "layout": (str,),
    "mask": (str,),
    "arguments": (dict,),
    "example": (list,),
    "sizes": (dict,),
    "timeout": (int, float),
    "deadline": (int, float),
    "memory": (int,),
}
_LISTS = ("ignore",)


@dataclass(frozen=True)
class Settings:
    """targets: what is checked where none is named; options of ``check``, and ids to ignore, by pattern of a target."""

    targets: tuple[str, ...] = ()
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    ignore: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @staticmethod
    def read(folder: Path | None = None) -> Settings:
        """Those of the nearest pyproject.toml in a folder, the working one, or above it; none where there is none."""
        try:
            folder = folder or Path.cwd()
        except OSError:
            # It was removed.
            return Settings()
        file = next((f for f in (p / "pyproject.toml" for p in (folder, *folder.parents)) if f.is_file()), None)
        if file is None:
            return Settings()
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise FileError(f"cannot read {file}: {error}") from None
        for name in ("tool", "overt", "check"):
            table = table.get(name, {})
            if not isinstance(table, dict):
                raise FileError(f"{file}: {name} must be a table")
        return Settings._of(table, file)

    @staticmethod
    def _of(table: dict[str, Any], file: Path) -> Settings:
        general = {name: value for name, value in table.items() if name not in ("targets", "target")}
        tables = table.get("target", {})
        if not isinstance(tables, dict) or not all(isinstance(inner, dict) for inner in tables.values()):
            raise FileError(f'{file}: target must hold tables, such as [tool.overt.check.target."model.py:*"]')
        options, ignore = {}, {}
        for pattern, inner in {"*": general, **tables}.items():
            for name, value in inner.items():
                if name not in (*_OPTIONS, *_LISTS):
                    known = ", ".join((*_OPTIONS, *_LISTS))
                    raise FileError(f"{file}: [tool.overt.check] has no {name}: it has targets, target, {known}")
                if isinstance(value, bool) or not isinstance(value, _OPTIONS.get(name, (list,))):
                    wanted = " or ".join(kind.__name__ for kind in _OPTIONS.get(name, (list,)))
                    raise FileError(f"{file}: {name} must be {wanted}, not {value!r:.80}")
            options[pattern] = {name: value for name, value in inner.items() if name in _OPTIONS}
            ignore[pattern] = _words(inner.get("ignore", []), "ignore", file)
            for name in ignore[pattern]:
                if name not in MISTAKES and name not in SYMPTOMS:
                    raise FileError(f"{file}: ignore names {name}, and no finding is called so")
        targets = tuple(_placed(name, file.parent) for name in _words(table.get("targets", []), "targets", file))
        return Settings(targets, options, ignore)

    def of(self, target: str, **given: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The options of one target, given ones first, later patterns before earlier; and the ids that it ignores."""
        found: dict[str, Any] = {}
        ignored: tuple[str, ...] = ()
        for pattern, options in self.options.items():
            if fnmatchcase(target, pattern) or fnmatchcase(target, f"*/{pattern}"):
                found |= options
                ignored += self.ignore[pattern]
        if "memory" in found:
            # MiB, as the command has them.
            found["memory"] <<= 20
        if "example" in found and len(found["example"]) != 2:
            raise ArgumentError(f"example takes what is called and its arguments, not {found['example']!r:.80}")
        return found | {name: value for name, value in given.items() if value is not None}, ignored


def _placed(name: str, folder: Path) -> str:
    """A target that a file in a folder names by a path from there, by its path from the working directory."""
    place, colon, inside = (name, "", "") if (folder / name).exists() else name.rpartition(":")
    if Path.cwd() == folder or not (folder / place).exists():
        return name
    return os.path.relpath(folder / place) + colon + inside


def _words(value: Any, name: str, file: Path) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise FileError(f"{file}: {name} must be a list of texts, not {value!r:.80}")
    return tuple(value)
