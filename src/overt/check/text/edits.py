"""Changes of one operator, sign or number in a text: what one slip of the pen may have made of what was meant."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

_SORTS: tuple[tuple[type[Any], ...], ...] = (
    (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.FloorDiv, ast.Mod),
    (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq),
    (ast.BitAnd, ast.BitOr, ast.BitXor),
)
_OTHERS = {one: tuple(other for other in sort if other is not one) for sort in _SORTS for one in sort}


class Edit(NamedTuple):
    """One place of a text, in bytes of its line, what stands there and what may be meant."""

    line: int
    start: int
    end: int
    was: str
    text: str


def edited(source: str, edit: Edit) -> str:
    """The source with an edit, on lines that stay as they are."""
    lines = source.splitlines(keepends=True)
    row = lines[edit.line - 1].encode()
    lines[edit.line - 1] = (row[: edit.start] + edit.text.encode() + row[edit.end :]).decode()
    return "".join(lines)


def rewritten(thing: Any, text: str) -> Any:
    """A function or class as a text defines it, on the lines where its file has it, in a copy of its module."""
    found: Any = dict(vars(sys.modules[thing.__module__]))
    exec(compile(text, inspect.getsourcefile(thing) or "", "exec"), found)
    first, *rest = thing.__qualname__.split(".")
    found = found[first]
    for part in rest:
        found = getattr(found, part)
    return found


@lru_cache(maxsize=8)
def own(source: str, name: str) -> str:
    """What a definition of a source reaches by name, and for all else empty lines."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    lines = source.splitlines(keepends=True)
    kept = set[int]()
    for node in _reached(tree, name):
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        kept |= {*range(first, (node.end_lineno or first) + 1)}
    return "".join(line if number in kept else "\n" for number, line in enumerate(lines, 1))


@lru_cache(maxsize=8)
def edits(source: str) -> tuple[Edit, ...]:
    """Edits of a source, operators before numbers."""
    lines, nodes = source.splitlines(), list(ast.walk(ast.parse(source)))
    # What is called, or asked for something, is no number, and what is annotated is computed nowhere.
    inner = {
        id(n.func if isinstance(n, ast.Call) else n.value) for n in nodes if isinstance(n, ast.Call | ast.Attribute)
    }
    said = [getattr(n, of, None) for n in nodes for of in ("annotation", "returns")]
    inner |= {id(part) for one in said if isinstance(one, ast.AST) for part in ast.walk(one)}
    found: dict[Edit, int] = {}
    for node in nodes:
        for rank, other in _changed(node) if id(node) not in inner else ():
            edit = _placed(lines, node, other)
            if edit is not None and edit.was != edit.text:
                found.setdefault(edit, rank)
    return tuple(sorted(found, key=lambda edit: (found[edit], edit.line, edit.start)))


def _reached(tree: ast.Module, name: str) -> list[ast.stmt]:
    """The statements of a file that a definition reaches by name."""
    own: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            own[node.name] = node
        elif isinstance(node, ast.Assign):
            own |= {target.id: node for target in node.targets if isinstance(target, ast.Name)}
    reached, todo, nothing = list[ast.stmt](), [name], ast.Pass()
    while todo:
        if (node := own.pop(todo.pop(), nothing)) is not nothing:
            reached.append(node)
            todo += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return reached


def _changed(node: ast.AST) -> Iterator[tuple[int, ast.AST]]:
    """What may be meant by a node, with how far that is from it."""
    if isinstance(node, ast.BinOp):
        for kind in _OTHERS.get(type(node.op), ()):
            # A power of what is no number here may take for ever.
            if kind is not ast.Pow or isinstance(node.right, ast.Constant):
                yield 0, ast.BinOp(node.left, kind(), node.right)
    elif isinstance(node, ast.AugAssign):
        for kind in _OTHERS.get(type(node.op), ()):
            if kind is not ast.Pow or isinstance(node.value, ast.Constant):
                yield 0, ast.AugAssign(node.target, kind(), node.value)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        for kind in _OTHERS.get(type(node.ops[0]), ()):
            yield 0, ast.Compare(node.left, [kind()], node.comparators)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Invert | ast.Not):
        yield 0, node.operand
    elif isinstance(node, ast.Constant) and isinstance(n := node.value, int | float) and not isinstance(n, bool):
        for number in dict.fromkeys((-n, n - 1, n + 1, n / 2 if isinstance(n, float) or n % 2 else n // 2, 2 * n)):
            yield 1, ast.Constant(number)
    if isinstance(node, ast.Attribute | ast.Name | ast.Call) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        yield 2, ast.UnaryOp(ast.USub(), node)


def _placed(lines: list[str], node: ast.AST, other: ast.AST) -> Edit | None:
    first, last, start, end = (
        getattr(node, of, None) for of in ("lineno", "end_lineno", "col_offset", "end_col_offset")
    )
    if first is None or first != last or start is None or end is None:
        return None
    text = ast.unparse(ast.fix_missing_locations(other))
    was = lines[first - 1].encode()[start:end].decode()
    return Edit(first, start, end, was, text if isinstance(other, ast.AugAssign | ast.Constant) else f"({text})")
