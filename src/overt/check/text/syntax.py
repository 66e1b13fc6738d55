"""The text of a candidate as a tree: its statements, its functions and what they are called with, its texts."""

from __future__ import annotations

import ast
import linecache
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from string import Formatter

# Functions that hand on to one another.
DEPTH = 4
# Texts that one name may stand for.
_MANY = 64


@lru_cache(maxsize=128)
def parsed(source: str) -> ast.Module:
    """The tree of a source, an empty one where it has none: shared, to be read only.

    What ``format`` makes of a text, and the sum of two texts, are written as one in which something is put.  What calls
    one of its functions that something was made of, such as ``jax.vmap(f)(x)``, is written as a call of that.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ast.Module([], [])
    constants = {place.id: value.value for node in tree.body for place, value in assigned(node)
                 if isinstance(place, ast.Name) and isinstance(value, ast.Constant)}  # fmt: skip
    functions = {node.name for node in statements(tree) if isinstance(node, ast.FunctionDef)}
    made = [(one.id, value) for node in statements(tree) for one, value in assigned(node) if isinstance(one, ast.Name)]
    wrapped = {one: name for one, value in made if one not in functions and (name := _wrapped(value, functions))}
    texts = {name: text for name, text in constants.items() if isinstance(text, str)}
    try:
        _Texts(texts, functions, wrapped).visit(tree)
    except RecursionError:
        return ast.parse(source)
    return tree


def _wrapped(node: ast.AST, functions: Collection[str]) -> str | None:
    """The function that something is made of which may be called with the same arguments, or with several of each."""
    match node:
        case ast.Call(func=ast.Name(id=made) | ast.Attribute(attr=made), args=[ast.Name(id=name), *_]):
            # What has some of its arguments already is given others.
            return name if name in functions and made != "partial" else None
    return None


class Wrapped(ast.Load):
    """How a function is read that is called for each of several, or in another way than by itself."""


class _Texts(ast.NodeTransformer):
    """Texts in which something is put, and calls of what was made of functions, all written in one way."""

    def __init__(self, constants: Mapping[str, str], functions: Collection[str], made: Mapping[str, str]) -> None:
        self.constants, self.functions, self.made = constants, functions, made

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if name := _wrapped(node.func, self.functions) or self.made.get(getattr(node.func, "id", "")):
            node.func = ast.copy_location(ast.Name(name, Wrapped()), node.func)
            return node
        match node.func:
            case ast.Attribute(value=ast.Constant(value=str() as text), attr="format"):
                return self._filled(text, node)
            case ast.Attribute(value=ast.Name(id=name), attr="format") if name in self.constants:
                return self._filled(self.constants[name], node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        sides = [x.values if isinstance(x, ast.JoinedStr) else [x] for x in (node.left, node.right)]
        texts = all(isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", None), str)
                    for x in (node.left, node.right))  # fmt: skip
        if not isinstance(node.op, ast.Add) or not texts:
            return node
        return ast.copy_location(ast.JoinedStr([*sides[0], *sides[1]]), node)

    def _filled(self, text: str, node: ast.Call) -> ast.AST:
        given: dict[str | None, ast.expr] = {str(n): x for n, x in enumerate(node.args)}
        given |= {k.arg: k.value for k in node.keywords}
        parts = list[ast.expr]()
        try:
            for number, (plain, name, _, _) in enumerate(Formatter().parse(text)):
                parts += [ast.Constant(plain)] if plain else []
                if name is not None:
                    parts.append(ast.FormattedValue(given[name or str(number)], -1))
        except (KeyError, ValueError):
            return node
        return ast.copy_location(ast.fix_missing_locations(ast.JoinedStr(parts)), node)


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements of a tree, those that hold others before these; expressions, most of a tree, are passed by."""
    todo = deque([tree])
    while todo:
        node = todo.popleft()
        if isinstance(node, ast.stmt):
            yield node
        for name in ("body", "handlers", "cases", "orelse", "finalbody"):
            inner = getattr(node, name, None)
            todo.extend(inner if isinstance(inner, list) else ())


def family(node: ast.AST, tree: ast.Module) -> Iterator[ast.AST]:
    """A function or a class, and the classes of its module that it is built on."""
    defined = {n.name: n for n in tree.body if isinstance(n, ast.ClassDef) and n is not node}
    todo = [node]
    while todo:
        one = todo.pop()
        yield one
        names = [getattr(base, "attr", getattr(base, "id", "")) for base in getattr(one, "bases", ())]
        todo += [defined.pop(name) for name in names if name in defined]


@lru_cache(maxsize=4096)
def walked(node: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a function or a file, which are asked for again and again."""
    return (*ast.walk(node),)


@lru_cache(maxsize=64)
def kept_calls(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """What is run where something is called that an instance made of a class of the same source, by its name there."""
    usual = ("forward", "__call__", "call")
    own = {node.name: f for node in tree.body if isinstance(node, ast.ClassDef) for f in node.body
           if isinstance(f, ast.FunctionDef) and f.name in usual}  # fmt: skip
    made = [(ast.unparse(place).partition(".")[2], ast.unparse(value.func)) for x in walked(tree)
            for place, value in assigned(x) if is_own(place) and isinstance(value, ast.Call)]  # fmt: skip
    return {name: own[cls] for name, cls in made[::-1] if cls in own}


def used(source: str, name: str, *, flag: bool = False) -> bool:
    """Whether an argument is read, and not only asked whether it is there, or handed to what never reads it.

    flag: to ask whether it is so is to read it.
    """
    tree = parsed(source)
    functions = {f.name: f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)}
    seen: set[tuple[str, str]] = set()

    def within(function: ast.FunctionDef, name: str) -> bool:
        if (function.name, name) in seen:
            return False
        seen.add((function.name, name))
        nodes = [*ast.walk(function)]
        asks = [x for n in nodes if isinstance(n, ast.If | ast.IfExp | ast.Assert) for x in ast.walk(n.test)]
        apart = set() if flag else {id(x) for x in asks}
        for call in (n for n in nodes if isinstance(n, ast.Call)):
            to = functions.get(getattr(call.func, "attr", getattr(call.func, "id", "")))
            names = [a.arg for a in to.args.args] if to else []
            names = names[1:] if names[:1] == ["self"] else names
            given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
            for other, value in given if to else ():
                if isinstance(value, ast.Name) and value.id == name and to is not None and other is not None:
                    apart.add(id(value))
                    if within(to, other):
                        return True
        return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) and id(n) not in apart
                   for n in nodes)  # fmt: skip

    first = [f for f in ast.walk(tree.body[0]) if isinstance(f, ast.FunctionDef)] if tree.body else []
    return any(within(f, name) for f in first if name in {a.arg for a in (*f.args.args, *f.args.kwonlyargs)})


def blocks(source: str) -> bool:
    """Whether it loops over blocks: numbers that lie apart by another one that has a name, or the ends of slices."""
    nodes = [*ast.walk(parsed(source))]
    loops = [node for node in nodes if isinstance(node, ast.For | ast.comprehension)]
    ranges = (
        x for x in (node.iter for node in loops) if isinstance(x, ast.Call) and getattr(x.func, "id", "") == "range"
    )
    if any(len(x.args) == 3 and isinstance(x.args[2], ast.Name | ast.Attribute) for x in ranges):
        return True
    counted = {x.id for node in loops for x in ast.walk(node.target) if isinstance(x, ast.Name)}
    slices = (x for x in nodes if isinstance(x, ast.Slice) and x.lower is not None and x.upper is not None)
    return any(isinstance(x, ast.Name) and x.id in counted for one in slices for x in ast.walk(one))


def dropping(source: str) -> set[str]:
    """Names, of arguments and of what an instance keeps of these, that say how much is dropped by chance."""
    nodes, found, kept = [*ast.walk(parsed(source))], set[str](), list[tuple[str, str]]()
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if re.fullmatch(r"(?i)dropout\d?d?", name):
                # A function drops some of its first.
                given = [*node.args[name[0].islower() :], *(k.value for k in node.keywords if k.arg in ("p", "rate"))]
                found |= {getattr(x, "attr", getattr(x, "id", "")) for x in given}
            case ast.Assign(targets=[ast.Attribute(attr=one)], value=ast.Name(id=other)):
                kept.append((one, other))
    return found | {other for one, other in kept if one in found}


def called(node: ast.AST) -> str | None:
    """The name of the function, or of the method of the instance, that is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) and is_own(function) else getattr(function, "id", None)


def parameters_of(function: ast.FunctionDef | ast.Lambda) -> list[str]:
    """The names of arguments, without the instance."""
    return [a.arg for a in function.args.args if a.arg != "self"]


def drawn(target: ast.expr, over: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """What a loop names, and what each of these goes through."""
    match target, over:
        case ast.Tuple(elts=targets), ast.Call(func=ast.Name(id="zip"), args=several):
            return [pair for one, each in zip(targets, several, strict=False) for pair in drawn(one, each)]
        case ast.Tuple(elts=[_, one]), ast.Call(func=ast.Name(id="enumerate"), args=[each, *_]):
            return drawn(one, each)
        case ast.Tuple(elts=[one, _]), ast.Call(func=ast.Attribute(value=each, attr="items")):
            return drawn(one, each)
    return [(target, over)]


def assigned(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment names, and what each of these is, where it is told one by one; else the whole of both."""
    if not isinstance(node, ast.Assign):
        return []
    match node.targets[0], node.value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            return list(zip(targets, values, strict=False))
        case target, value:
            return [(target, value)]


def tested(file: str, number: int) -> set[str]:
    """Names and attributes that conditions ask for on which it depends whether a line of a file is run."""
    nodes = walked(parsed("".join(linecache.getlines(file))))
    around = [n for n in nodes if isinstance(n, ast.If) and n.lineno < number <= (n.end_lineno or 0)]
    return {getattr(x, "attr", getattr(x, "id", "")) for n in around for x in ast.walk(n.test)} - {"self", ""}


def is_own(node: ast.AST) -> bool:
    """Whether it is an attribute of the instance."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def of_own(node: ast.AST) -> bool:
    """Whether it is made of nothing but what the instance has."""
    called = {id(x.func.value) for x in ast.walk(node) if isinstance(x, ast.Call) and isinstance(x.func, ast.Attribute)}
    return {x.id for x in ast.walk(node) if isinstance(x, ast.Name) and id(x) not in called} == {"self"}


def written(source: str) -> set[str]:
    """The attributes that other methods than a constructor write to by their names, or call methods of."""
    nodes = [n for f in statements(parsed(source)) if isinstance(f, ast.FunctionDef) and f.name != "__init__"
             for n in ast.walk(f)]  # fmt: skip
    places: list[ast.expr] = [n for n in nodes if isinstance(n, ast.Attribute | ast.Subscript)
                              and isinstance(n.ctx, ast.Store)]  # fmt: skip
    places += [n.func.value for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    found = set()
    for place in places:
        while isinstance(place, ast.Subscript):
            place = place.value
        if isinstance(place, ast.Attribute) and is_own(place):
            found.add(place.attr)
    return found


def named_parts(source: str) -> dict[str, set[str]]:
    """The attributes, and the entries of dictionaries, that are set by their names, by the name of what has them."""
    found: dict[str, set[str]] = {}
    for n in ast.walk(parsed(source)):
        if (
            isinstance(n, ast.Attribute | ast.Subscript)
            and isinstance(n.ctx, ast.Store)
            and isinstance(n.value, ast.Name)
        ):
            part = n.attr if isinstance(n, ast.Attribute) else getattr(n.slice, "value", None)
            if isinstance(part, str):
                found.setdefault(n.value.id, set()).add(part)
    return found


def listed(node: ast.AST, lists: Mapping[str, list[str]]) -> list[str]:
    """The texts in a list, or those by which a dictionary is asked."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(keys=parts):
            return [x.value for x in parts if isinstance(x, ast.Constant) and isinstance(x.value, str)]
        case ast.Call(func=ast.Name(id="tuple" | "list" | "set" | "sorted"), args=[inner]):
            return listed(inner, lists)
        case ast.Call(func=ast.Attribute(value=inner, attr="keys")):
            return listed(inner, lists)
        case ast.Name() | ast.Attribute():
            return lists.get(ast.unparse(node), [])
    return []


def lists_in(nodes: Sequence[ast.AST]) -> dict[str, list[str]]:
    """Names that are given to lists of texts, or to dictionaries by texts."""
    pairs = [pair for node in nodes for pair in assigned(node)]
    found = {ast.unparse(place): listed(value, {}) for place, value in pairs
             if isinstance(value, ast.Tuple | ast.List | ast.Set | ast.Dict)}  # fmt: skip
    return {name: some for name, some in found.items() if some}


def texts_in(nodes: Sequence[ast.AST], told: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Names that stand for one text after the other, for texts that functions are called with, or for one put together.

    told: those that are known.
    """
    texts = lists_in(nodes)
    for node in nodes:
        for target, over in drawn(node.target, node.iter) if isinstance(node, ast.For | ast.comprehension) else ():
            some = listed(over, {**texts, **told})
            texts |= {target.id: some} if some and isinstance(target, ast.Name) else {}
            if isinstance(over, ast.Constant) and isinstance(over.value, str) and isinstance(target, ast.Name):
                texts[target.id] = [*over.value]
    names = {f.name: parameters_of(f) for f in nodes if isinstance(f, ast.FunctionDef)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as short):
                names[name] = parameters_of(short)
    pairs = [(name, given) for call in nodes if isinstance(call, ast.Call)
             for name, given in zip(names.get(called(call) or "", ()), call.args, strict=False)]  # fmt: skip
    for node in nodes:
        for pair in assigned(node):
            match pair:
                case ast.Name(id=name), (ast.JoinedStr() | ast.BinOp()) as value:
                    pairs.append((name, value))
    # What is handed on is made of what was.
    for _ in range(DEPTH if pairs else 0):
        for name, given in pairs:
            some = spelt(given, {**texts, **told, name: []}) if name not in told else []
            if some:
                texts[name] = list(dict.fromkeys([*texts.get(name, []), *some]))[:_MANY]
    return {**texts, **told}


def spelt(node: ast.AST, texts: Mapping[str, list[str]]) -> list[str]:
    """The texts that an expression may be, with 0 for a number in them."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.Name(id=name):
            return texts.get(name, [])
        case ast.BinOp(op=ast.Add()):
            return [one + two for one in spelt(node.left, texts) for two in spelt(node.right, texts)]
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text)):
            parts = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            pieces = re.split(r"%[sd]", text)
            filled = product(*(spelt(part, texts) or ["0"] for part in parts))
            return ["".join(map("".join, zip(pieces, [*some, ""], strict=True))) for some in filled
                    if len(some) == len(pieces) - 1]  # fmt: skip
        case ast.FormattedValue() | ast.Call(func=ast.Name(id="str")):
            return spelt(node.value if isinstance(node, ast.FormattedValue) else node.args[0], texts) or ["0"]
        case ast.JoinedStr():
            return ["".join(parts) for parts in product(*(spelt(part, texts) for part in node.values))]
    return []
