"""The thing that a target names: a file is run as itself, or as the module that it is of its package."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from overt.errors import FileError

# Files that this process has run.
_LOADED: dict[Path, ModuleType] = {}
# Packages that it has run, and their names; and those that ended before all of them was run.
_PACKAGES: dict[Path, str] = {}
UNFINISHED: set[str] = set()


def load(target: str) -> tuple[Any, str | None]:
    """What ``FILE.py:name`` or ``module:name`` names: of ``Class.method`` the class, and the method."""
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        path = Path(place).resolve()
        thing: Any = _LOADED.get(path) or _file(path)
        _LOADED[path] = thing
    else:
        _importable(Path.cwd())
        thing = importlib.import_module(place)
    owner = thing
    for part in name.split("."):
        owner, thing = thing, getattr(thing, part)
    if inspect.isclass(owner) and inspect.isfunction(inspect.getattr_static(owner, part)):
        return owner, part
    return thing, None


def _file(path: Path) -> ModuleType:
    if path.exists() and not path.is_file():
        # Who reads a pipe waits for who writes it.
        raise FileError(f"{path} is no file")
    top = path.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    _importable(top)
    _importable(path.parent)
    names = list(path.relative_to(top).with_suffix("").parts)
    if names[-1] == "__init__":
        return _member(top, names[:-1])
    if len(names) > 1 and _asks_for(path, names[0]):
        return _member(top, names)
    return _run(_free(path.stem, path), path)


def _member(beside: Path, names: list[str]) -> ModuleType:
    """A module of a package; what the packages themselves run may fail, for they want what all their modules want."""
    first = beside / names[0]
    if str(first) in getattr(sys.modules.get(names[0]), "__path__", ()):
        _PACKAGES.setdefault(first, names[0])
    if first not in _PACKAGES and len(names) > 1:
        _PACKAGES[first] = _free(names[0], first / "__init__.py")
    name, folder = "", beside
    for part in names[:-1]:
        folder /= part
        name = f"{name}.{part}" if name else _PACKAGES[first]
        if name not in sys.modules:
            try:
                _run(name, folder / "__init__.py")
            except Exception:
                UNFINISHED.add(name)
    return importlib.import_module(f"{name}.{names[-1]}" if name else names[-1])


def _run(name: str, path: Path) -> ModuleType:
    """A file, run under a name by which it stays known even where it fails, so that a package's modules may follow."""
    places = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _free(name: str, path: Path) -> str:
    """The name, or where another module has or would have it one that none has: its torch.py is not everybody's."""
    taken = name in sys.modules
    if not taken:
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(name)
            taken = spec is not None and spec.origin != str(path)
    return f"{name} {len(_LOADED)}" if taken else name


def _asks_for(path: Path, package: str) -> bool:
    """Whether a file imports by its place in its package, or what lies in that package."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False
    names = [(f"{package}." if n.level else n.module or "") for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    names += [alias.name for n in ast.walk(tree) if isinstance(n, ast.Import) for alias in n.names]
    return any(name.partition(".")[0] == package for name in names)


def setting_of_keras() -> dict[str, str]:
    """What to set for Keras to be run by a library that is installed, where that which it would take is not."""
    home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    wanted = "tensorflow"
    with suppress(OSError, ValueError, AttributeError):
        # Keras itself writes there what it took the last time.
        wanted = str(json.loads((home / "keras.json").read_text(encoding="utf-8")).get("backend", wanted))
    some = [name for name in (wanted, "torch", "jax") if importlib.util.find_spec(name) is not None]
    return {"KERAS_BACKEND": some[0]} if some and some[0] != wanted else {}


def _importable(folder: Path) -> None:
    """Let a candidate import what lies beside it, after everything else: a json.py of its own is not everybody's."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
