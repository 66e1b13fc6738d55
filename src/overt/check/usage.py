"""What the file of a candidate itself gives it: masks that its own functions make."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

_LENGTH = 5


def masks(thing: Any, call: Any) -> dict[str, str]:
    """Of arguments that are given what a function of the file makes of a length: "keep", "drop" or "additive".

    Which of the first two it is, is told of masks that hide the future alone: of others nobody knows it.
    """
    own = thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
    module = sys.modules.get(getattr(own, "__module__", None) or "")
    found: dict[str, set[str | None]] = {}
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        tree = ast.parse(inspect.getsource(module))  # type: ignore[arg-type]
        signature = inspect.signature(call)
        first = () if inspect.isroutine(thing) else (None,)
        for scope in ast.walk(tree):
            if not isinstance(scope, ast.FunctionDef):
                continue
            made = {node.targets[0].id: node.value for node in ast.walk(scope)
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
            for node in _calls(tree, scope, own.__name__):
                named = {k.arg: k.value for k in node.keywords if k.arg is not None}
                with suppress(TypeError):
                    given = signature.bind_partial(*first, *node.args, **named).arguments
                    for name, value in given.items():
                        value = made.get(value.id, value) if isinstance(value, ast.Name) else value
                        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                            found.setdefault(name, set()).add(_made(getattr(module, value.func.id, None)))
    return {name: kind for name, kinds in found.items() if len(kinds) == 1 and (kind := next(iter(kinds))) is not None}


def _calls(tree: ast.AST, scope: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls, in a function, of what has a name, or of what an instance of it was assigned to."""
    held = {name} | {
        getattr(target, "attr", None) or getattr(target, "id", None)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _name(node.value.func) == name
        for target in node.targets
    }
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and _name(node.func) in held:
            yield node


def _name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _made(function: Callable[..., Any] | None) -> str | None:
    """What sort of mask a function makes of a length."""
    if not inspect.isfunction(function):
        return None
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if len(needed) != 1:
        return None
    try:
        x = np.asarray(function(_LENGTH))
    except Exception:
        return None
    if x.dtype.kind not in "bfiu" or x.shape[-2:] != (_LENGTH, _LENGTH) or x.size != _LENGTH**2:
        return None
    x = x.reshape(_LENGTH, _LENGTH)
    low = x < -1e3
    if x.dtype.kind == "f" and low.any() and ((x == 0) | low).all():
        return "additive"
    past = np.tri(_LENGTH, dtype=bool)
    return "keep" if np.array_equal(x, past) else "drop" if np.array_equal(x, ~past) else None
