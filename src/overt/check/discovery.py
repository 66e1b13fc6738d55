"""The functions and classes in files and folders that may attend, found in their text: nothing is run."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from overt.errors import FileError

# What libraries call the parts of attention: normalising, and mixing or comparing by products.
_WHOLE = {"scaled_dot_product_attention", "MultiheadAttention", "dot_product_attention", "flex_attention"}
_NORMS = {"softmax", "Softmax", "exp", "log_softmax", "logsumexp", "exp2"}
_PRODUCTS = {"matmul", "einsum", "bmm", "baddbmm", "dot", "tensordot", "inner", "vdot", "mm", "mv"}
_SUMS = {"sum", "segment_sum", "scatter_add", "scatter_add_", "index_add", "index_add_"}
_SKIPPED = {"node_modules", "__pycache__", "build", "dist", "site-packages", "venv", "env"}


def discover(path: Path) -> list[str]:
    """Targets such as ``FILE.py:name`` in a file, or in all files of a folder, in their order."""
    found = []
    for file in files(path):
        try:
            found += _inside(file)
        except FileError:
            if file == path:
                raise
    return found


def files(path: Path) -> list[Path]:
    """A file, or the files of Python in a folder that are no tests."""
    if not path.exists():
        raise FileError(f"there is no {path}: give FILE.py:name, module:name, a file or a folder")
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    for here, folders, names in os.walk(path):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED)
        found += [Path(here) / name for name in names if name.endswith(".py") and not name.startswith("test_")]
    # Who reads a pipe waits for who writes it.
    return sorted(file for file in found if file.is_file())


def _inside(file: Path) -> list[str]:
    """The targets in a file.  Raises FileError where it cannot be read."""
    if not file.is_file():
        raise FileError(f"cannot read {file}: it is no file")
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise FileError(f"cannot read {file}: {error}") from None
    return [f"{file}:{name}" for name in _candidates(tree, file)]


def _candidates(tree: ast.Module, file: Path) -> Iterator[str]:
    """Functions and classes at the top that attend, or that call what normalises, beside them or imported."""
    defined = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    norms, asked = _normalising(tree), False
    for node in defined:
        names = _names(node)
        mixes = bool(names & _PRODUCTS) or any(isinstance(n, ast.MatMult) or _sums(n) for n in ast.walk(node))
        if mixes and not asked:
            # Most files mix nothing.
            norms, asked = norms | _imported(tree, file), True
        if names & _WHOLE or (mixes and names & (_NORMS | norms - {node.name})):
            yield node.name


def _normalising(tree: ast.Module) -> set[str]:
    """What normalises of what a file defines at the top, by other names, too."""
    norms = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and _names(n) & _NORMS}
    for node in tree.body:
        if isinstance(node, ast.Assign) and _names(node.value) & (_NORMS | norms):
            norms |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return norms


def _imported(tree: ast.Module, file: Path) -> set[str]:
    """What normalises of what a file imports from files of its own project, by the names that it has there."""
    top = file.absolute().parent
    while (top / "__init__.py").is_file():
        top = top.parent
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            places = [file.absolute().parents[node.level - 1]] if node.level else [file.absolute().parent, top]
            own = _normalising_in(places, node.module or "")
            for alias in node.names:
                inside = ".".join(filter(None, (node.module, alias.name)))
                # A module's functions are asked for as its attributes.
                found |= own if alias.name == "*" else _normalising_in(places, inside)
                found |= {alias.asname or alias.name} if alias.name in own else set()
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found |= _normalising_in([file.absolute().parent, top], alias.name)
    return found


def _normalising_in(places: list[Path], module: str) -> set[str]:
    """What normalises in a module that lies in one of some folders."""
    for place in places:
        path = place.joinpath(*module.split("."))
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return _normalising_inside(file, file.stat().st_mtime_ns)
    return set()


@lru_cache(maxsize=4096)
def _normalising_inside(file: Path, stamp: int) -> set[str]:
    """What normalises in a file as it is at a time."""
    with suppress(OSError, SyntaxError, ValueError):
        return _normalising(ast.parse(file.read_bytes()))
    return set()


def _sums(node: ast.AST) -> bool:
    """Whether products are summed, as where one query pools what it is given."""
    if not isinstance(node, ast.Call) or getattr(node.func, "attr", getattr(node.func, "id", "")) not in _SUMS:
        return False
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) for n in ast.walk(node))


def _names(node: ast.AST) -> set[str]:
    """Names and attributes that a definition reads."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} | {
        n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)
    }
