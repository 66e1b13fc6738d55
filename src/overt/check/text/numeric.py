"""What an expression says of those in it: that they are single numbers, sides of a shape, or that they count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from overt.check.text.syntax import assigned, is_own

# What makes arrays of one number.
_MADE = r"(new_)?(zeros|ones|full|empty)"


def numbers(node: ast.AST) -> list[ast.AST]:
    """Of an expression what can only be a number: in a text, beside whole numbers, before what counts up."""
    match node:
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str() as text), right=right) if "%d" in text:
            return [*right.elts] if isinstance(right, ast.Tuple) else [right]
        case ast.BinOp(op=ast.Add(), left=one, right=ast.Call() as two) if counts_up(two):
            return [one] if isinstance(one, ast.Name) else []
        case ast.Slice(upper=ast.BinOp(op=ast.Add(), left=ast.Name() as one, right=ast.Constant())):
            return [one]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="full"), args=[_, ast.Name() as one, *_]):
            return [one]
        case ast.Tuple(elts=elements) if sum(isinstance(x, ast.Constant) and x.value == 0 for x in elements) > 1:
            return [x for x in elements if isinstance(x, ast.Name)]
    return []


def sides(node: ast.AST) -> list[ast.AST]:
    """What stands among the lengths that something is given as its shape, or counts pieces, also as a factor."""
    match node:
        case ast.BinOp(op=ast.FloorDiv(), right=ast.Name() as whole):
            return [whole]
        case ast.Call(func=ast.Name(id="range") | ast.Attribute(attr="linspace"), args=[*_, last]):
            return [x for x in ast.walk(last) if isinstance(x, ast.Name)] if not _within(last) else []
        case ast.Call(
            func=ast.Attribute(attr="split"),
            args=[*_, ast.ListComp(elt=ast.BinOp() as size)] | [ast.ListComp(elt=ast.BinOp() as size), *_],
        ):
            return [x for x in (size.left, size.right) if isinstance(x, ast.Name)]
    products = [x for x in makes(node) if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Mult)]
    shaped = isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("reshape", "view", "expand")
    todo: list[ast.AST] = [*node.args] if isinstance(node, ast.Call) and shaped else []
    # A function is given the array first, and a type stands alone.
    todo = [*products, *(todo if len(todo) > 1 and not isinstance(todo[1], ast.Tuple | ast.List) else [])]
    found: list[ast.AST] = []
    while todo:
        one = todo.pop()
        todo += [one.left, one.right] if isinstance(one, ast.BinOp) else []
        found += [one] if isinstance(one, ast.Name) else []
    return found


def grid(node: ast.AST) -> list[ast.AST]:
    """The numbers of rows and columns of the positions: what is no last axis is taken apart into both."""
    match node:
        case ast.Call(args=[_, ast.Constant(value=str(pattern)), *_], keywords=keywords):
            given: dict[str | None, ast.AST] = {one.arg: one.value for one in keywords}
            groups = re.findall(r"\((\w+) (\w+)\) *(?=\w)", pattern.partition("->")[0])
            return [given[axis] for pair in groups if given.keys() >= {*pair} for axis in pair]
        case ast.Call(func=ast.Attribute(attr="reshape" | "view"), args=[_, rows, columns, _]):
            return [rows, columns]
    return []


def heads(node: ast.AST) -> list[ast.AST]:
    """What counts heads: a width is divided by it without a rest, or it stands in a shape before a last −1."""
    match node:
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=ast.Name() | ast.Attribute() | ast.Subscript() as number):
            return [number]
        case ast.Call(func=ast.Attribute(attr="reshape" | "view"), args=args):
            sizes = args[0].elts if len(args) == 1 and isinstance(args[0], ast.Tuple) else args
            if len(sizes) > 2 and ast.unparse(sizes[-1]) == "-1":
                return [sizes[-2]]
    return []


def makes(node: ast.AST) -> list[ast.expr]:
    """What says how long the axes of an array are that is made of one number."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *more]) if re.fullmatch(_MADE, name):
            return [*first.elts] if isinstance(first, ast.Tuple | ast.List) else [first, *more]
    return []


def _within(node: ast.AST) -> bool:
    """Whether something is asked or taken out of something in an expression."""
    return any(isinstance(x, ast.Call | ast.Attribute | ast.Subscript) for x in ast.walk(node))


def single(node: ast.AST) -> list[ast.AST]:
    """The terms of what is made one number, divides without a rest, or is one over some power of it."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float" | "round" | "range"), args=todo):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math")), args=todo):
            pass
        case ast.BinOp(op=ast.FloorDiv(), right=right):
            todo = [right]
        case ast.BinOp(op=ast.Pow(), left=left, right=ast.UnaryOp(op=ast.USub())):
            todo = [left]
        case _:
            return []
    terms: list[ast.AST] = [*todo]
    for x in terms:
        terms += [x.left, x.right] if isinstance(x, ast.BinOp) else []
    return terms


def columns(node: ast.AST) -> list[ast.AST]:
    """What is given an axis of one number behind its own, for a layer or a matrix to map it."""
    mapped = [*node.args] if isinstance(node, ast.Call) and is_own(node.func) else []
    mapped += [node.left] if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) else []
    found: list[ast.AST] = []
    for one in mapped:
        match one:
            case (
                ast.Call(func=ast.Attribute(value=x, attr="unsqueeze"), args=[last])
                | ast.Call(func=ast.Attribute(attr="unsqueeze" | "expand_dims"), args=[x, last])
            ) if ast.unparse(last) == "-1":
                found.append(x)
            case ast.Subscript(value=x, slice=ast.Tuple(elts=[*_, ast.Constant(value=None)])):
                found.append(x)
    return found


def followed(loop: ast.While) -> list[ast.AST]:
    """What says of each number which one comes next, where a loop goes from one to the other: ``n = parents[n]``."""
    found: list[ast.AST] = []
    for node in ast.walk(loop):
        for target, value in assigned(node):
            of = value.args[0] if isinstance(value, ast.Call) and ast.unparse(value.func) == "int" else value
            if isinstance(of, ast.Subscript) and ast.unparse(of.slice) == ast.unparse(target):
                found.append(of.value)
    return found


def counts_up(node: ast.AST) -> bool:
    """Whether it is one number after the other, or made of such."""
    return any(getattr(x.func, "attr", "") == "arange" for x in ast.walk(node) if isinstance(x, ast.Call))


def counting(node: ast.AST, up: set[str]) -> set[str]:
    """Names of what counts: it is made whole one by one, its largest is a number, or it ends what is counted up to.

    up: names of what counts up.
    """
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("int", "range"):
        match node.args:
            case [ast.Subscript(value=ast.Name(id=whole))]:
                return {whole}
        some = [x for arg in node.args for x in ast.walk(arg) if isinstance(x, ast.Call)]
        largest = [x for x in some if getattr(x.func, "attr", getattr(x.func, "id", "")) in ("max", "amax")]
        return {name for x in largest for name in roots(x)}
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        sides = [node.left, node.comparators[0]]
        counted = [counts_up(side) or bool(roots(side) & up) for side in sides]
        # A number alone may be a position.
        others = [
            side for side, mine in zip(sides, counted, strict=True) if not mine and not isinstance(side, ast.Name)
        ]
        return {name for side in others if len(others) == sum(counted) for name in roots(side)}
    return set()


def bounding(node: ast.AST) -> set[str]:
    """Names of what holds where each of several begins: of its pairs of neighbours, or all but the first of it."""
    every: list[ast.AST]
    match node:
        case ast.Call(func=ast.Name("zip"), args=[ast.Subscript() as two, ast.Subscript() as one]) if _named(one, two):
            every = [one] if ast.unparse(two.slice) in (":-1", "0:-1") else []
        case ast.Call(func=ast.Name("pairwise") | ast.Attribute(attr="pairwise"), args=[ast.Name(name)]):
            return {name}
        case ast.Call(func=ast.Attribute(attr="searchsorted" | "bucketize") as called, args=args):
            every = [n for x in (called.value, *args) for n in ast.walk(x)]
        case ast.Call(func=ast.Attribute(attr="reduceat"), args=[_, ast.Subscript(value=ast.Name(name)) as one, *_]):
            return {name} if ast.unparse(one.slice) == ":-1" else set()
        case ast.BinOp(op=ast.Sub(), left=ast.Subscript() as one, right=ast.Subscript() as two) if _named(one, two):
            every = [one] if ast.unparse(two.slice) == ":-1" else []
        case _:
            return set()
    whole = (n for n in every if isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name))
    return {str(getattr(n.value, "id", "")) for n in whole if ast.unparse(n.slice) == "1:"}


def listed(node: ast.Assign) -> list[tuple[str, str]]:
    """Names for the numbers of arrays as a list, each with that of the array."""
    match node:
        case ast.Assign(targets=[ast.Name(name)], value=ast.Call(func=ast.Attribute(value=inner, attr="tolist"))):
            return [(name, n.id) for n in ast.walk(inner) if isinstance(n, ast.Name)][:1]
    return []


def _named(one: ast.Subscript, two: ast.Subscript) -> bool:
    """Whether two pieces are those of one name."""
    return isinstance(one.value, ast.Name) and ast.unparse(one.value) == ast.unparse(two.value)


def last(node: ast.Compare, up: set[str]) -> bool:
    """Whether what is compared with what counts up is the last that counts, and not the first that does not."""
    left = counts_up(node.left) or bool(roots(node.left) & up)
    return isinstance(node.ops[0], ast.LtE | ast.Gt if left else ast.GtE | ast.Lt)


def scaled(node: ast.AST) -> ast.AST:
    """What is multiplied with, or divided by, a name or a number."""
    match node:
        case ast.BinOp(op=ast.Mult() | ast.Div(), left=one, right=ast.Name() | ast.Constant() | ast.Attribute()):
            return one
    return node


def bare(node: ast.AST) -> ast.AST:
    """What is made an array, or has parts that a name picks."""
    names = ("array", "asarray", "tensor", "as_tensor")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
        return node.value
    return node.args[0] if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in names else node


def viewed(node: ast.AST) -> ast.AST:
    """What something is a view of, or says of several whether any or all of them are so."""
    views = ("any", "all", "unsqueeze", "reshape", "view", "transpose", "expand", "expand_as")
    while True:
        match node:
            case ast.Subscript(value=inner, slice=ast.Tuple() | ast.Slice() | ast.Constant(value=None)):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in views:
                node = inner
            case _:
                return node


def roots(node: ast.AST) -> set[str]:
    """The names of what something may be taken out of, or be a view of, as a method gives it or a function of it."""
    match node:
        case ast.Name(id=name):
            return {name}
        case ast.Subscript(value=inner) | ast.Attribute(value=inner):
            return roots(inner)
        case ast.Call(func=func, args=args):
            return roots(func).union(*map(roots, args[:1]))
    return set()


def demands(nodes: Iterable[ast.AST]) -> set[ast.AST]:
    """What is compared only to refuse what does not hold it: in assertions, before a raise, to list what lacks."""
    found: list[ast.expr] = []
    for node in nodes:
        match node:
            case ast.Assert(test=test) | ast.If(test=test, body=[ast.Raise(), *_]):
                found.append(test)
            case ast.ListComp(
                elt=ast.Name(id=own), generators=[ast.comprehension(target=ast.Name(id=name), ifs=tests)]
            ):
                # What is the same as something is chosen.
                chosen = [isinstance(x, ast.Compare) and isinstance(x.ops[0], ast.Eq) for x in tests]
                found += tests if own == name and not any(chosen) else []
    return {part for test in found for part in ast.walk(test) if isinstance(part, ast.Compare)}


def conditions(node: ast.expr) -> Iterator[ast.expr]:
    """The conditions that one is put together of."""
    match node:
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=one, right=two):
            yield from conditions(one)
            yield from conditions(two)
        case ast.UnaryOp(op=ast.Invert(), operand=one):
            yield from conditions(one)
        case ast.Compare(left=one, ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            # 0 is false.
            yield one
        case _:
            yield node
