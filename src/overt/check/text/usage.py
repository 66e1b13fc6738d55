"""What the file of a candidate itself gives it: masks that its own functions make, or that tell padding."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
import textwrap
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from overt.check.text.syntax import drawn, parameters_of, parsed, statements, walked

_LENGTH = 5
_FACTORS = (ast.Mult, ast.Div)
_NORMS = {"normalize", "l2norm", "l2_norm", "l2_normalize"}
_TURNED = {"keep": "drop", "drop": "keep"}
_SIGNS = {"Eq": "drop", "NotEq": "keep", "Gt": "keep"}
# What changes the form of a mask, and not what it says.
_SHAPED = {
    "unsqueeze", "squeeze", "view", "reshape", "expand", "repeat", "to", "type", "astype", "bool", "float", "int",
    "long",
}  # fmt: skip


def definition(thing: Any) -> Any:
    """A function or a class itself, or the class of an instance."""
    return thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)


def scope(thing: Any) -> dict[str, Any]:
    """What the module of a thing has, by its names, and the classes that stand in its own."""
    own = definition(thing)
    bases = own.__mro__[-2::-1] if isinstance(own, type) else ()
    nested = {name: x for base in bases for name, x in vars(base).items() if isinstance(x, type)}
    return {**nested, **vars(sys.modules.get(getattr(own, "__module__", None) or "", object))}


def source_of(thing: Any) -> tuple[str, int]:
    """The source of a function or a class, and its first line; "" and 0 where it is lost."""
    try:
        return _lines(thing)
    except (OSError, TypeError):
        return "", 0


@lru_cache(maxsize=256)
def _lines(thing: Any) -> tuple[str, int]:
    if not inspect.isclass(thing):
        lines, line = inspect.getsourcelines(thing)
        return textwrap.dedent("".join(lines)), line
    # Python reads all of a file anew to find a class in it.
    file = inspect.getsourcefile(thing) or inspect.getfile(thing)
    linecache.checkcache(file)
    whole = linecache.getlines(file, vars(sys.modules.get(thing.__module__, object)))
    places = _classes("".join(whole))
    first, last = places.get(thing.__qualname__, (0, 0))
    return textwrap.dedent("".join(whole[max(first - 1, 0) : last])), first


@lru_cache(maxsize=16)
def _classes(source: str) -> dict[str, tuple[int, int]]:
    """The first and last line of each class of a source, by its qualified name: the first of that name."""
    found, around = dict[str, tuple[int, int]](), list[tuple[int, str]]()
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in sorted((n for n in statements(parsed(source)) if isinstance(n, kinds)), key=lambda n: n.lineno):
        while around and around[-1][0] < node.lineno:
            around.pop()
        name, last = (around[-1][1] if around else "") + node.name, node.end_lineno or node.lineno
        if isinstance(node, ast.ClassDef):
            found.setdefault(name, (min([node.lineno, *(x.lineno for x in node.decorator_list)]), last))
        around.append((last, f"{name}." if isinstance(node, ast.ClassDef) else f"{name}.<locals>."))
    return found


def masks(thing: Any, call: Any, deep: int = 3) -> dict[str, str]:
    """Of arguments that are given masks: "keep", "drop" or "additive", where the file always says the same.

    What a function of the file makes of a length is known where it hides the future, and tokens by what they are
    compared with.
    """
    own = definition(thing)
    module = sys.modules.get(getattr(own, "__module__", None) or "")
    found: dict[str, set[str | None]] = {}
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        source = inspect.getsource(module)  # type: ignore[arg-type]
        lines, nodes = source.splitlines(), list(statements(parsed(source)))

        def says(node: ast.stmt, names: set[str]) -> bool:
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            return any(name in text for name in names)

        signature = inspect.signature(call)
        first = () if inspect.isroutine(thing) else (None,)
        # The name of a function, or those that instances of a class are assigned to.
        held = set() if inspect.isclass(own) else {own.__name__}
        held |= {
            _name(target) or ""
            for node in nodes
            if isinstance(node, ast.Assign) and says(node, {own.__name__})
            if own.__name__ in {_name(x.func) for x in ast.walk(node.value) if isinstance(x, ast.Call)}
            for target in node.targets
        }
        for function in (node for node in nodes if isinstance(node, ast.FunctionDef) and says(node, held)):
            inside = list(ast.walk(function))
            calls = _calls(inside, held)
            made = {node.targets[0].id: node.value for node in (inside if calls else ())
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}  # fmt: skip
            for node in calls:
                named = {k.arg: k.value for k in node.keywords if k.arg is not None}
                with suppress(TypeError):
                    given = signature.bind_partial(*first, *node.args, **named).arguments
                    for name, value in given.items():
                        if isinstance(value, ast.Constant):
                            continue
                        kind, outer = _kind(value, made, vars(module)), vars(module).get(function.name)
                        handed = isinstance(value, ast.Name) and value.id in parameters_of(function)
                        if kind is None and handed and deep and inspect.isfunction(outer):
                            # What it was given itself.
                            kind = masks(outer, outer, deep - 1).get(ast.unparse(value))
                        found.setdefault(name, set()).add(kind)
    return {name: kind for name, kinds in found.items() if len(kinds) == 1 and (kind := next(iter(kinds))) is not None}


def scaled(thing: Any) -> str:
    """How scores may be scaled where they are not: under a condition, or by what uses a function in its file.

    That multiplies something with a root, its queries or their matrix, maybe ("scale"), or norms it ("norm").
    """
    own = definition(thing)
    with suppress(OSError, TypeError, SyntaxError, ValueError):
        if any(_factors(n, set()) for n in ast.walk(parsed(source_of(own)[0])) if isinstance(n, ast.If)):
            return "scale"
        module: Any = sys.modules.get(own.__module__)
        every = walked(parsed(inspect.getsource(module))) if inspect.isroutine(thing) else ()
        roots = {_name(x) for node in every if isinstance(node, ast.Assign) and _rooted(node.value)
                 for target in node.targets for x in getattr(target, "elts", [target])} - {None}  # fmt: skip
        for function in (n for n in every if isinstance(n, ast.FunctionDef) and n.name != own.__name__):
            inside = walked(function)
            if any(isinstance(n, ast.Name) and n.id == own.__name__ for n in inside):
                if _factors(function, roots):
                    return "scale"
                return "norm" if any(_name(n) in _NORMS or _squared(n) for n in inside) else ""
    return ""


def _factors(node: ast.AST, roots: set[str | None]) -> bool:
    """Whether something is multiplied with a root, or divided by it, or what has one of the names of roots."""
    inside = [*ast.walk(node)]
    found = [n.value for n in inside if isinstance(n, ast.AugAssign) and isinstance(n.op, _FACTORS)]
    found += [x for n in inside if isinstance(n, ast.BinOp) and isinstance(n.op, _FACTORS) for x in (n.left, n.right)]
    return any(_rooted(x) or _name(x) in roots for x in found)


def _rooted(node: ast.AST) -> bool:
    """Whether a root is taken in an expression, of anything but squares, which norms."""
    for x in ast.walk(node):
        if isinstance(x, ast.Call) and _name(x.func) in ("sqrt", "rsqrt") and not any(map(_squared, ast.walk(x))):
            return True
        root = isinstance(x, ast.BinOp) and isinstance(x.op, ast.Pow) and ast.unparse(x.right) in ("0.5", "-0.5")
        if root and not any(map(_squared, ast.walk(x))):
            return True
    return False


def _squared(node: ast.AST) -> bool:
    """Whether something is multiplied with itself, or what that comes to is meant by a name."""
    match node:
        case ast.BinOp(op=ast.Mult(), left=one, right=two):
            return ast.unparse(one) == ast.unparse(two)
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=2)):
            return True
        case ast.Call(func=ast.Attribute(attr="pow"), args=[*_, ast.Constant(value=2)]):
            return True
    return isinstance(node, ast.Call) and _name(node.func) in ("square", "var")


def _calls(nodes: list[ast.AST], held: set[str]) -> list[ast.Call]:
    """Calls, in a function, of what has one of these names, or is taken from it by a loop."""
    held = held.union(
        _name(one) or ""
        for node in nodes
        if isinstance(node, ast.For)
        for one, of in drawn(node.target, node.iter)
        if any(_name(x) in held for x in ast.walk(of))
    )
    return [node for node in nodes if isinstance(node, ast.Call) and _name(node.func) in held]


def _kind(value: ast.AST, made: Mapping[str, ast.AST], scope: Mapping[str, Any], deep: int = 8) -> str | None:
    """What sort of mask an expression gives: of a function, or of tokens that are compared with that of padding."""

    def of(node: ast.AST) -> str | None:
        return _kind(node, made, scope, deep - 1) if deep else None

    match value:
        case ast.Name() if value.id in made:
            return of(made[value.id])
        case ast.Subscript():
            return of(value.value)
        case ast.UnaryOp(op=ast.Invert() | ast.Not()):
            return _TURNED.get(of(value.operand) or "")
        case ast.Compare(ops=[sign], comparators=[other]) if _pads(other):
            return _SIGNS.get(type(sign).__name__)
        case ast.Call(func=ast.Name(id=name)):
            return _made(scope.get(name))
        case ast.Call(func=ast.Attribute(attr="eq" | "ne" | "gt" as name), args=[other]) if _pads(other):
            return _SIGNS[{"eq": "Eq", "ne": "NotEq", "gt": "Gt"}[name]]
        case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in _SHAPED:
            return of(inner)
    return None


def _pads(node: ast.AST) -> bool:
    """Whether it is the token of padding: 0, or what is called so."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value == 0
    return "pad" in (_name(node) or "").lower()


def _name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None


def _made(function: Callable[..., Any] | None) -> str | None:
    """What sort of mask a function makes of a length, or of booleans."""
    if not inspect.isfunction(function):
        return None
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if len(needed) != 1:
        return None
    torch, seen = sys.modules.get("torch"), np.arange(_LENGTH)[None] < _LENGTH - 1
    for given in (_LENGTH, seen, *([torch.as_tensor(seen)] if torch is not None else [])):
        with suppress(Exception):
            x = np.asarray(function(given))
            break
    else:
        return None
    low = x < -1e3
    if x.dtype.kind == "f" and low.any() and ((x == 0) | low).all():
        return "additive"
    square = x.dtype.kind in "bfiu" and x.shape[-2:] == (_LENGTH, _LENGTH) and x.size == _LENGTH**2
    if given is not _LENGTH or not square:
        return None
    x, past = x.reshape(_LENGTH, _LENGTH), np.tri(_LENGTH, dtype=bool)
    return "keep" if np.array_equal(x, past) else "drop" if np.array_equal(x, ~past) else None
