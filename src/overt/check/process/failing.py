"""What a line that failed says: its names, what it calls, what it takes apart, the condition that refused a call."""

from __future__ import annotations

import ast
import linecache
from contextlib import suppress
from functools import lru_cache
from types import FrameType
from typing import Any

from overt.check.text.syntax import parsed, statements


@lru_cache(maxsize=256)
def statement(file: str, line: int) -> tuple[tuple[str, ...], frozenset[str], str | None]:
    """Of a line the names and texts in it, the methods it calls, and whether it unpacks a shape or an array."""
    node = _lines(file).get(line)
    if node is None:
        return (), frozenset(), None
    told = [getattr(n, "id", getattr(n, "attr", getattr(n, "value", None))) for n in ast.walk(node)]
    calls = [n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    unpacks = None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
        shape = any(getattr(n, "attr", "") in ("shape", "size") for n in ast.walk(node.value))
        unpacks = "shape" if shape else "array"
    return tuple(name for name in told if isinstance(name, str)), frozenset(calls), unpacks


def refused(file: str, line: int, frame: FrameType) -> tuple[list[int], list[str]]:
    """Of a condition that does not hold, the numbers that it compares, and all names, of those around it too."""
    tests = _conditions(file).get(line, [])
    sides: list[int] = []
    for node, wanted in ((node, wanted) for test, wanted in tests[-1:] for node in ast.walk(test)):
        if not isinstance(node, ast.Compare) or not _plainly(node):
            continue
        parts = [part for side in (node.left, *node.comparators) for part in _divided(side)]
        with suppress(Exception):
            # What is only read, as the condition itself has just done it.
            if bool(_value(node, frame)) == wanted:
                continue
            values = [_value(part, frame) for part in parts]
            flat = [n for value in values for n in (value if isinstance(value, tuple | list) else [value])]
            sides += [n for n in flat if type(n) is int and n > 0]
    return sides, [node.id for test, _ in tests[::-1] for node in ast.walk(test) if isinstance(node, ast.Name)]


def _value(node: ast.expr, frame: FrameType) -> Any:
    return eval(compile(ast.Expression(node), "a condition", "eval"), frame.f_globals, frame.f_locals)


def _divided(node: ast.expr) -> list[ast.expr]:
    """What is compared; of a remainder what is divided by what."""
    return [node.left, node.right] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) else [node]


def _plainly(node: ast.AST) -> bool:
    """Whether nothing is called but what tells a size."""
    calls = [x.func for x in ast.walk(node) if isinstance(x, ast.Call)]
    return all(getattr(f, "attr", getattr(f, "id", "")) in ("len", "size", "dim", "numel") for f in calls)


@lru_cache(maxsize=4)
def _conditions(file: str) -> dict[int, list[tuple[ast.expr, bool]]]:
    """For each line of an assertion, or of what is raised under conditions, these, and whether they shall hold."""
    found: dict[int, list[tuple[ast.expr, bool]]] = {}
    for node in statements(parsed("".join(linecache.getlines(file)))):
        if isinstance(node, ast.Assert | ast.If):
            raised = (
                [x for part in node.body for x in statements(part) if isinstance(x, ast.Raise)]
                if isinstance(node, ast.If)
                else [node]
            )
            for line in (line for one in raised for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)):
                found.setdefault(line, []).append((node.test, node in raised))
    return found


@lru_cache(maxsize=4)
def _lines(file: str) -> dict[int, ast.stmt]:
    """What stands in each line: a statement that holds no others."""
    inner = [n for n in statements(parsed("".join(linecache.getlines(file)))) if not hasattr(n, "body")]
    return {line: n for n in inner for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)}


def guards(source: str) -> frozenset[int]:
    """Lines that refuse some calls: assertions, and what raises under a condition."""
    nodes = list(statements(parsed(source)))
    guards: list[ast.stmt] = [n for n in nodes if isinstance(n, ast.Assert)]
    conditions = [n for n in nodes if isinstance(n, ast.If | ast.Match)]
    guards += [n for c in conditions for n in statements(c) if isinstance(n, ast.Raise)]
    return frozenset(line for n in guards for line in range(n.lineno, (n.end_lineno or n.lineno) + 1))
