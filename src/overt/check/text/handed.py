"""Shapes of arguments that are documented where these are handed to: in functions of the same source."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from overt.check.text import shapes
from overt.check.text.shapes import Path, Shape
from overt.check.text.syntax import assigned, called, drawn, kept_calls, parameters_of, parsed, statements, walked

# The axis of several that a loop goes through.
SEVERAL = "several"
# What cuts an array into pieces.
_CUTS = {"array_split", "split", "chunk", "tensor_split"}


def handed(source: str, name: str, names: Sequence[str]) -> dict[Path, Shape]:
    """The shapes of arguments of one function of a source, by what is said of those that they become in others.

    What is handed on one by one, in a loop, has an axis for these in front.
    """
    tree = parsed(source)
    # Of several of one name, that of what is asked for comes first.
    functions = {n.name: n for n in reversed([*statements(tree)]) if isinstance(n, ast.FunctionDef)}
    functions = kept_calls(tree) | functions
    own, found = functions.get(name), dict[Path, Shape]()
    if own is None:
        return found
    become = {one: (one, False) for one in names}
    # What it was cut into has as many axes.
    pieces = {target.id: piece for node in walked(own) for target, value in assigned(node)
              for piece in _cut(value) if isinstance(target, ast.Name) and piece in names}  # fmt: skip
    for node in walked(own):
        for target, over in drawn(node.target, node.iter) if isinstance(node, ast.For | ast.comprehension) else ():
            if isinstance(target, ast.Name) and isinstance(over, ast.Name) and over.id in {*names, *pieces}:
                become.setdefault(target.id, (pieces.get(over.id, over.id), over.id not in pieces))
    for call in (n for n in walked(own) if isinstance(n, ast.Call)):
        other = functions.get(called(call) or "")
        text = ast.get_docstring(other) if other is not None and other is not own else None
        if other is None or not text:
            continue
        inner = parameters_of(other)
        told = shapes.shapes(text, inner, alone=False)
        for one, value in chain(zip(inner, call.args, strict=False), ((str(k.arg), k.value) for k in call.keywords)):
            to, several = become.get(getattr(value, "id", ""), ("", False))
            if to and (one,) in told:
                axes = told[one,].axes
                found.setdefault((to,), replace(told[one,], axes=(SEVERAL, *axes) if several else axes))
    return found


def _cut(value: ast.AST) -> list[str]:
    """The names in a call that cuts something into pieces: what it is a method of, and what it is given first."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in _CUTS:
        return []
    return [node.id for node in (value.func.value, *value.args[:1]) if isinstance(node, ast.Name)]
