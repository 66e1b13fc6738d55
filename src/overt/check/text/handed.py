"""Shapes of arguments that are documented where these are handed to: in functions of the same source."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from overt.check.text import shapes
from overt.check.text.comments import about
from overt.check.text.shapes import Path, Shape
from overt.check.text.syntax import (
    Wrapped,
    assigned,
    called,
    drawn,
    kept_calls,
    parameters_of,
    parsed,
    statements,
    walked,
)

# The axis of several that a loop goes through.
SEVERAL = "several"
# What cuts an array into pieces.
_CUTS = {"array_split", "split", "chunk", "tensor_split"}


def handed(source: str, name: str, names: Sequence[str], module: str = "") -> dict[Path, Shape]:
    """The shapes of arguments of one function of a source, by what is said of those that they become in others.

    module: what their module says, where these say nothing themselves.
    What is handed on one by one, in a loop, has an axis for these in front.
    """
    own, others = _called(source, name)
    found = dict[Path, Shape]()
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
    for other, said, given in others:
        inner = parameters_of(other)
        text = said or "\n".join(about(inner, module, {other.name}))
        told = shapes.shapes(text, inner, alone=False)
        for one, value in given:
            to, several = become.get(getattr(value, "id", ""), ("", False))
            if to and (one,) in told:
                axes = told[one,].axes
                found.setdefault((to,), replace(told[one,], axes=(SEVERAL, *axes) if several else axes))
    return found


def told_of(source: str, name: str, argument: str) -> Iterator[str]:
    """What is said where an argument of a function of a source is handed on as it is, to what calls it the same."""
    own, others = _called(source, name)
    names = (n for n in walked(own) if isinstance(n, ast.Name)) if own is not None else ()
    made = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    for _, said, given in others if argument not in made else ():
        if any(one == argument == getattr(value, "id", None) for one, value in given):
            yield said


def _called(
    source: str, name: str
) -> tuple[ast.FunctionDef | None, list[tuple[ast.FunctionDef, str, list[tuple[str, ast.expr]]]]]:
    """A function of a source by its name, and others that it calls: what is said of each, and what each is given."""
    tree = parsed(source)
    # Of several of one name, that of what is asked for comes first.
    functions = {n.name: n for n in reversed([*statements(tree)]) if isinstance(n, ast.FunctionDef)}
    functions = kept_calls(tree) | functions
    own, found = functions.get(name), []
    for call in (n for n in walked(own) if isinstance(n, ast.Call)) if own is not None else ():
        other = functions.get(called(call) or "")
        # Each of several has an axis less.
        if other is not None and other is not own and not isinstance(getattr(call.func, "ctx", None), Wrapped):
            named = ((str(k.arg), k.value) for k in call.keywords)
            # A method is told of by its class too.
            around: list[ast.ClassDef | ast.FunctionDef] = [
                n for n in tree.body if isinstance(n, ast.ClassDef) and other in n.body and own not in n.body
            ]
            said = "\n\n".join(text for one in (*around, other) if (text := ast.get_docstring(one)))
            found.append((other, said, [*zip(parameters_of(other), call.args, strict=False), *named]))
    return own, found


def _cut(value: ast.AST) -> list[str]:
    """The names in a call that cuts something into pieces: what it is a method of, and what it is given first."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in _CUTS:
        return []
    return [node.id for node in (value.func.value, *value.args[:1]) if isinstance(node, ast.Name)]
