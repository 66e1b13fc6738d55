"""What is told of a call that failed: the line, its names, what it takes apart, the condition that refused the call."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from types import FrameType, ModuleType
from typing import Any

from overt.check.process.giving import Asked, LackedError, is_written
from overt.check.process.loading import UNFINISHED
from overt.check.text.syntax import parsed, statements


def failure(error: BaseException, file: str | None, passing: Mapping[int, str]) -> dict[str, Any]:
    """Type and message of an exception, and the line of the candidate's file that raised it.

    passing: names of arguments by identity.  lines: those that led there, from the outermost; reached: the places in
    that file's code, likewise, by which a call that came further is known; raised: whether the line does so itself, and
    guarded, on a condition; sides: numbers that this compares; absent: names in that line of what is None; missing:
    what an object or a dictionary was asked for that it does not have, and whether to call it; arguments: those that
    stand in that line; unpacks: "shape" or "array", if it takes one apart.
    """
    lines, reached = list[int](), list[int]()
    trace = error.__traceback__
    arguments: list[str] = []
    unpacks, called = None, frozenset[str]()
    sides: list[int] = []
    absent: list[str] = []
    while trace is not None:
        if file is not None and trace.tb_frame.f_code.co_filename == file:
            lines.append(trace.tb_lineno)
            reached.append(trace.tb_lasti)
            # Each time that a frame is asked for them, they are gathered anew.
            local = trace.tb_frame.f_locals
            names, called, unpacks = _statement(file, lines[-1])
            sides, more = _refused(file, lines[-1], trace.tb_frame)
            names = (*names, *more)
            absent += [name for name in names if local.get(name, 0) is None]
            if isinstance(error, UnboundLocalError) and trace.tb_next is None:
                # What is bound under a condition alone lacks what that asks for, whatever has its name by now.
                absent += _binding(file, lines[-1], tuple(re.findall(r"'(\w+)'", str(error))))
            held = [local.get(name) for name in names]
            # What lies in one of these, and is asked for there.
            parts = [x if isinstance(x, dict) else vars(x) for x in held if isinstance(x, dict | Asked)]
            held += [some[name] for some in parts for name in names if name in some]
            arguments = [passing[id(x)] for x in held if id(x) in passing]
        trace = trace.tb_next
    line = lines[-1] if lines else None
    missing: dict[str, Any] | None = None
    if isinstance(error, AttributeError) and error.name:
        unfinished = isinstance(error.obj, ModuleType) and error.obj.__name__ in UNFINISHED
        missing = {"name": error.name, "owner": "unfinished" if unfinished else type(error.obj).__name__}
        missing |= {"path": error.obj.path} if isinstance(error.obj, Asked) else {}
    elif isinstance(error, KeyError) and error.args and is_written(error.args[0]):
        missing = {"name": error.args[0], "owner": "dict"}
        missing |= {"path": error.path} if isinstance(error, LackedError) else {}
    if missing is not None:
        missing["called"] = missing["name"] in called or missing["name"] == "shape"
    return {
        "type": type(error).__name__,
        "message": str(error)[:500],
        "line": line,
        "lines": lines,
        "reached": reached,
        "missing": missing,
        "arguments": arguments,
        "unpacks": unpacks,
        "sides": sides,
        "absent": absent,
        "guarded": file is not None and line in _guards(file),
        "raised": file is not None and linecache.getline(file, line or 0).split()[:1] == ["raise"],
    }


def read_anew(file: str) -> None:
    """Forget what a file was that may have changed."""
    linecache.checkcache(file)
    for known in (_statement, _conditions, _binding, _lines, _guards):
        known.cache_clear()


@lru_cache(maxsize=256)
def _statement(file: str, line: int) -> tuple[tuple[str, ...], frozenset[str], str | None]:
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


def _refused(file: str, line: int, frame: FrameType) -> tuple[list[int], list[str]]:
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


@lru_cache(maxsize=64)
def _binding(file: str, line: int, wanted: tuple[str, ...]) -> list[str]:
    """The names in conditions under which alone names are bound, in the function of a line."""
    found = []
    for node in statements(parsed("".join(linecache.getlines(file)))):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or line):
            for choice in (n for n in statements(node) if isinstance(n, ast.If)):
                stored = [n for part in choice.body for n in ast.walk(part) if isinstance(n, ast.Name)]
                if any(n.id in wanted and isinstance(n.ctx, ast.Store) for n in stored):
                    found += [n.id for n in ast.walk(choice.test) if isinstance(n, ast.Name)]
    return found


@lru_cache(maxsize=4)
def _lines(file: str) -> dict[int, ast.stmt]:
    """What stands in each line: a statement that holds no others."""
    inner = [n for n in statements(parsed("".join(linecache.getlines(file)))) if not hasattr(n, "body")]
    return {line: n for n in inner for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)}


@lru_cache(maxsize=4)
def _guards(file: str) -> frozenset[int]:
    """Lines that refuse some calls: assertions, and what raises under a condition."""
    nodes = [*statements(parsed("".join(linecache.getlines(file))))]
    guards: list[ast.stmt] = [n for n in nodes if isinstance(n, ast.Assert)]
    conditions = [n for n in nodes if isinstance(n, ast.If | ast.Match)]
    guards += [n for c in conditions for n in statements(c) if isinstance(n, ast.Raise)]
    return frozenset(line for n in guards for line in range(n.lineno, (n.end_lineno or n.lineno) + 1))
