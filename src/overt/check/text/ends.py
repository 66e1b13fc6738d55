"""Arguments that pick rows of others and say where these are added up, as the ends of a graph's edges do."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from overt.check.text.numeric import viewed
from overt.check.text.shapes import Path
from overt.check.text.syntax import assigned

# What puts others together, and what is given the numbers of rows.
JOINS = ("cat", "concat", "concatenate", "stack")
_PICKS = ("index_select", "take", "gather")
_ADDS = ("index_add", "index_add_", "scatter_add", "scatter_add_", "at")


def ends(nodes: Sequence[ast.AST], known: Mapping[str, list[Path]]) -> set[Path]:
    """Both rows of each argument that has two such, whatever is put behind them, as loops of every node are.

    What has one row does both by itself, as the numbers of the bags do that things lie in.
    """
    made: dict[str, list[Path]] = {}

    def of(node: ast.AST) -> list[Path]:
        """What something is, is a view of, or is put together of: an argument, or a row of one."""
        match node:
            case ast.Name(id=name):
                return made.get(name, [path for path in known.get(name, ()) if len(path) == 1])
            case (
                ast.Subscript(value=whole, slice=ast.Constant(value=int(row)))
                | ast.Subscript(value=whole, slice=ast.Tuple(elts=[ast.Constant(value=int(row)), ast.Slice()]))
                | ast.Subscript(value=whole, slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=int(row))]))
            ):
                return [(*path, str(row)) for path in of(whole) if len(path) == 1]
            case ast.Call(func=function, args=[ast.Tuple(elts=parts) | ast.List(elts=parts), *_]) if ast.unparse(
                function
            ).endswith(JOINS):
                return [path for part in parts for path in of(part)]
        inner = viewed(node)
        return of(inner) if inner is not node else []

    for target, value in (pair for node in nodes for pair in assigned(node)):
        rows = of(value)
        if isinstance(target, ast.Name) and rows and not isinstance(value, ast.Name):
            made[target.id] = rows
        elif isinstance(target, ast.Tuple) and len(target.elts) == 2:
            for n, x in enumerate(target.elts if rows else ()):
                made |= {x.id: [(*path, str(n)) for path in rows if len(path) == 1]} if isinstance(x, ast.Name) else {}
    picked, added = set[Path](), set[Path]()
    for node in nodes:
        by = [node.slice] if isinstance(node, ast.Subscript) else []
        name = getattr(node.func, "attr", "") if isinstance(node, ast.Call) else ""
        by += [*node.args] if isinstance(node, ast.Call) and name in (*_PICKS, *_ADDS) else []
        (added if name in _ADDS else picked).update(path for one in by for path in of(one))
    both = picked | added
    return {
        path
        for path in both
        if (path in picked & added if len(path) == 1 else {(path[0], "0"), (path[0], "1")} <= both)
    }
