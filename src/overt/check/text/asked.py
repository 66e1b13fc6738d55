"""What one function asks of its arguments, and what those that it hands them on to ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from overt.check.text import numeric
from overt.check.text.ends import JOINS, ends
from overt.check.text.read import Read
from overt.check.text.shapes import Path
from overt.check.text.syntax import DEPTH, assigned, drawn, is_own, of_own, parameters_of, spelt, texts_in, walked

# Attributes that arrays have in one library or another.
_OF_ARRAYS = frozenset((*dir(np.ndarray), "at", "data", "device", "grad", "mH", "mT", "requires_grad"))
# Functions that add up what their second argument says the places of.
_ADDING = r"(?s:.*)\b(index_add_?|scatter_(add|reduce)_?|add\.at|segment_(sum|max))"
_SPLITS = {"split", "chunk", "array_split"}
_PRODUCTS = {"matmul", "dot", "mm", "bmm", "linear"}


def asked(
    function: ast.AST,
    known: dict[str, list[Path]],
    told: Mapping[str, list[str]],
    functions: Mapping[str, ast.FunctionDef],
    found: Read,
    depth: int = 0,
) -> None:
    """Enter what one function asks of what its names stand for: arguments, what lies in them, or texts."""
    nodes = walked(function)
    here = _Asking(known, texts_in(nodes, {**found.lists, **told}), functions, found, depth)
    here.names(nodes)
    here.slices(nodes)
    here.parts(nodes)
    here.shapes(nodes)
    found.picking.update(ends(nodes, known))
    handed_on = {node.func for node in nodes if isinstance(node, ast.Call)}
    demands = numeric.demands(nodes)
    for node in nodes:
        if node not in handed_on:
            here.taken(node)
        here.numbers(node)
        here.flags(node)
        if isinstance(node, ast.If | ast.IfExp) and isinstance(node.test, ast.Name):
            here.listed(node.test, nodes)
        match node:
            case ast.BinOp():
                here.paired(node)
                here.operation(node)
                here.factor(node.op, node.left, node.right)
            case ast.AugAssign():
                here.factor(node.op, node.value)
            case ast.Compare() if node not in demands:
                here.comparison(node)
            case ast.Subscript():
                here.subscript(node)
            case ast.If():
                here.choice(node)
            case ast.While():
                found.hung.update(here.every(numeric.followed(node)))
            case ast.Attribute(attr="shape" | "size" | "ndim"):
                found.sized.update(here.paths(node.value))
            case ast.Call():
                here.call(node)


@dataclass(frozen=True)
class _Asking:
    """One function: what its names stand for, and what they are asked for there."""

    known: dict[str, list[Path]]
    texts: Mapping[str, list[str]]
    functions: Mapping[str, ast.FunctionDef]
    found: Read
    depth: int

    def paths(self, node: ast.AST) -> list[Path]:
        return paths_of(node, self.known, self.texts) or self._part(node)

    def _part(self, node: ast.AST) -> list[Path]:
        """What is taken by its number out of a list that lies in something."""
        match node:
            case ast.Subscript(value=whole, slice=ast.Constant(value=int(number))):
                inside = [(*path, str(number)) for path in paths_of(whole, self.known, self.texts)]
                return [path for path in inside if len(path) > 2 and path in self.found.held]
        return []

    def parts(self, nodes: Sequence[ast.AST]) -> None:
        """What lies in something, and of which nothing is asked but its first and its second, is a list of both."""
        numbers: dict[Path, set[int]] = {}
        for node in nodes:
            match node:
                case ast.Attribute(value=whole):
                    for path in paths_of(whole, self.known, self.texts):
                        numbers.setdefault(path, set()).add(-1)
                case ast.Subscript(value=whole, slice=ast.Constant(value=int(number))):
                    for path in paths_of(whole, self.known, self.texts):
                        numbers.setdefault(path, set()).add(number)
        for path in (path for path, some in numbers.items() if some == {0, 1} and len(path) > 1):
            for place in "01":
                self.found.enter((*path, place), "list")

    def shapes(self, nodes: Sequence[ast.AST]) -> None:
        """How many axes an argument has whose shape is taken apart before it is anything else."""
        first: dict[str, int] = {}
        for x in nodes:
            if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store):
                first[x.id] = min(x.lineno, first.get(x.id, x.lineno))
        for node in nodes:
            match node:
                case ast.Assign(
                    targets=[ast.Tuple(elts=axes)],
                    value=ast.Attribute(value=ast.Name(id=own), attr="shape")
                    | ast.Call(func=ast.Attribute(value=ast.Name(id=own), attr="size"), args=[])
                    | ast.Call(func=ast.Attribute(attr="shape"), args=[ast.Name(id=own)]),
                ) if node.lineno < first.get(own, node.lineno + 1):
                    if not any(isinstance(axis, ast.Starred) for axis in axes):
                        for path in self.known.get(own, ()):
                            self.found.ranks.setdefault(path, set()).add(len(axes))

    def every(self, nodes: Iterable[ast.AST]) -> list[Path]:
        return [path for node in nodes for path in self.paths(node)]

    def names(self, nodes: Sequence[ast.AST]) -> None:
        """Other names that assignments and loops give to arguments, or to what lies in them."""
        stored = [x.id for x in nodes if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Load)]
        for node in nodes:
            if isinstance(node, ast.Assign):
                for given, of in assigned(node):
                    if isinstance(given, ast.Name) and isinstance(of, ast.Name) and stored.count(given.id) == 1:
                        # What is called otherwise, and never anything else, is the same.
                        self.known.setdefault(given.id, self.paths(of))
                    if isinstance(given, ast.Name) and isinstance(of, ast.ListComp | ast.Call) and self.paths(of):
                        # What is left of a list, or is in another order, has another name.
                        self.known.setdefault(given.id, self.paths(of))
                    if isinstance(given, ast.Tuple) and isinstance(of, ast.GeneratorExp | ast.ListComp):
                        # Names for each of what something is made of one by one are names for that.
                        of = of.generators[0].iter if len(of.generators) == 1 else of
                    if isinstance(given, ast.Name) and isinstance(of, ast.Attribute) and ast.unparse(of) in self.known:
                        self.known.setdefault(given.id, self.known[ast.unparse(of)])
                    self._named(given, self._chosen(of) if isinstance(given, ast.Tuple) else self.paths(of))
            elif isinstance(node, ast.For | ast.comprehension):
                self._looped(node.target, node.iter)

    def _chosen(self, node: ast.AST) -> list[Path]:
        """What is taken apart: of several that lie in an argument, such as those of layers, the one of a number."""
        own = self.paths(node.value) if isinstance(node, ast.Subscript) else []
        by = self.paths(node.slice) if isinstance(node, ast.Subscript) and own else []
        if not by or len(by[0]) > 1:
            return self.paths(node)
        self.found.numbers.update(by)
        for path in own:
            self.found.enter((*path, "0"), "list")
        return [(*path, "0") for path in own]

    def _named(self, target: ast.AST, paths: list[Path]) -> None:
        """Another name for something that lies in an argument, or names for what lies in it in its order."""
        if not paths:
            return
        if isinstance(target, ast.Name) and len(paths[0]) > 1:
            self.known.setdefault(target.id, paths)
        elif isinstance(target, ast.Attribute):
            self.known.setdefault(ast.unparse(target), paths)
        elif isinstance(target, ast.Tuple | ast.List) and not any(isinstance(x, ast.Starred) for x in target.elts):
            for number, x in enumerate(target.elts):
                inside = [(*path, str(number)) for path in paths]
                for path in inside:
                    self.found.enter(path, "list")
                if isinstance(x, ast.Name) and x.id != "_":
                    self.found.called |= {path: x.id for path in inside if path not in self.found.called}
                    self.known.setdefault(x.id, inside)
                elif not isinstance(x, ast.Name):
                    if isinstance(x, ast.Attribute) and is_own(x):
                        self.found.called |= {path: x.attr for path in inside if path not in self.found.called}
                    self._named(x, inside)

    def _looped(self, target: ast.AST, over: ast.AST) -> None:
        """What a loop takes out of a list, where the code says by what it asks of that, that it is none of arrays."""
        if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "enumerate" and isinstance(target, ast.Tuple):
            target, over = target.elts[-1], over.args[0]
        if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "reversed":
            over = over.args[0]
        if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "zip" and isinstance(target, ast.Tuple):
            for each, some in zip(target.elts, over.args, strict=False):
                self._looped(each, some)
            return
        if isinstance(over, ast.Tuple | ast.List) and isinstance(target, ast.Name):
            self.known.setdefault(target.id, [path for path in self.every(over.elts) if len(path) > 1])
            return
        paths = [(*path, "0") for path in self.paths(over)]
        if isinstance(target, ast.Tuple) and paths:
            for path in paths:
                self.found.enter(path, "list")
            self._named(target, paths)
        elif isinstance(target, ast.Name) and paths:
            self.known.setdefault(target.id, paths)

    def slices(self, nodes: Sequence[ast.AST]) -> None:
        """What holds the bounds of slices, or their ends alone: in its elements, or where a loop takes these."""
        taken: dict[str, Path] = {}
        for node in nodes:
            if isinstance(node, ast.For | ast.comprehension):
                for target, over in drawn(node.target, node.iter):
                    mine = {path for path in self._inside(over) if len(path) == 1}
                    if len(mine) == 1:
                        taken |= {n.id: next(iter(mine)) for n in ast.walk(target) if isinstance(n, ast.Name)}

        def of(node: ast.AST | None) -> Path | None:
            if isinstance(node, ast.Call) and node.args:
                return of(node.args[0])
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                return next((path for path in self.known.get(node.value.id, ()) if len(path) == 1), None)
            return taken.get(node.id) if isinstance(node, ast.Name) else None

        up = {target.id for node in nodes if isinstance(node, ast.Assign) and numeric.counts_up(node.value)
              for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
        listed = dict(pair for node in nodes if isinstance(node, ast.Assign) for pair in numeric.listed(node))
        for node in nodes:
            counting = [path for name in numeric.counting(node, up) for path in self.known.get(name, ())]
            self.found.lengths.update(counting)
            bounding = (listed.get(name, name) for name in numeric.bounding(node))
            self.found.bounds.update(path for name in bounding for path in self.known.get(name, ()))
            self.found.last.update(counting if isinstance(node, ast.Compare) and numeric.last(node, up) else ())
            if isinstance(node, ast.Slice) and (path := of(node.upper)) is not None:
                both = of(node.lower) == path
                (self.found.bounds if both else self.found.lengths).update([path] if both or node.lower is None else [])

    def _inside(self, node: ast.AST) -> set[Path]:
        """What the names in an expression stand for."""
        return {path for n in ast.walk(node) if isinstance(n, ast.Name) for path in self.known.get(n.id, ())}

    def taken(self, node: ast.AST) -> None:
        """What lies in an argument, and is taken out of it."""
        if isinstance(node, ast.Attribute) and ast.unparse(node) in self.known:
            return
        for path in self.paths(node):
            if len(path) > 1 and not isinstance(node, ast.Name):
                self.found.enter(path, "config" if isinstance(node, ast.Attribute) else "dictionary")

    def numbers(self, node: ast.AST) -> None:
        """What an expression says of the numbers in it."""
        self.found.single.update(path for path in self.every(numeric.single(node)) if len(path) > 1)
        self.found.columns.update(self.every(numeric.columns(node)))
        self.found.numbers.update(self.every(numeric.numbers(node)))
        self.found.heads.update(self.every(numeric.heads(node)))
        self.found.sides.update(self.every(numeric.sides(node)))
        self.found.made.update(self.every(numeric.makes(node)))
        grid = [self.paths(number) for number in numeric.grid(node)]
        self.found.grids.update(path for paths in grid for path in paths if all(grid))

    def flags(self, node: ast.AST) -> None:
        """What is made booleans, turned round as these are, or chooses."""
        conditions: Iterable[ast.expr] = ()
        match node:
            case ast.UnaryOp(op=ast.Invert(), operand=flags) | ast.Call(func=ast.Attribute(value=flags, attr="bool")):
                conditions = [flags]
            case (
                ast.Call(func=ast.Attribute(value=flags, attr="to" | "astype"), args=[kind])
                | ast.Call(func=ast.Attribute(attr="cast"), args=[flags, kind])
            ) if "bool" in ast.dump(kind):
                conditions = [flags]
            case (
                ast.Call(func=ast.Attribute(attr="where"), args=[flags, _, _])
                | ast.Call(func=ast.Attribute(attr="masked_fill" | "masked_fill_"), args=[flags, _])
            ):
                conditions = numeric.conditions(flags)
        self.found.flags.update(self.every(numeric.viewed(part) for part in conditions))

    def operation(self, node: ast.BinOp) -> None:
        """What is multiplied as a matrix, divided, or added."""
        left, right = self.paths(node.left), self.paths(node.right)
        match node.op:
            case ast.MatMult():
                self.found.behind.update(right)
                self.found.before.update(left)
                if isinstance(node.right, ast.Attribute) and node.right.attr in ("T", "mT"):
                    turned = self.paths(node.right.value)
                    self.found.behind.update(turned)
                    self.found.linear.update(turned)
            case ast.Div() if spelt(node.right, self.texts):
                # What is divided by a text is no number: it goes on to what has that name.
                for path in left:
                    self.found.methods.setdefault(path, set()).add("__truediv__")
            case ast.Add() if left and right and len(left[0]) == len(right[0]) == 1 and left != right:
                self.found.added.setdefault(right[0][0], left[0][0])
            case ast.FloorDiv() | ast.Mod():
                for path in right:
                    self.found.divided.setdefault(path, set()).update(left)

    def paired(self, node: ast.BinOp) -> None:
        """A matrix and what is added behind it, by their places in what lies in an argument: x @ p[0] + p[1]."""
        match node:
            case ast.BinOp(
                left=ast.BinOp(op=ast.MatMult(), right=matrix) | ast.Call(args=[_, matrix]),
                op=ast.Add(),
                right=ast.Subscript(value=two, slice=ast.Constant(value=int(second))),
            ):
                turned = isinstance(matrix, ast.Attribute) and matrix.attr in ("T", "mT")
                match matrix.value if turned else matrix:  # type: ignore[attr-defined]
                    case ast.Subscript(value=one, slice=ast.Constant(value=int(first))):
                        inside = self.paths(one) if ast.dump(one) == ast.dump(two) and first != second else []
                        for path in (path for path in inside if len(path) > 1):
                            self.found.enter((*path, str(first)), "list")
                            self.found.enter((*path, str(second)), "list")
                            self.found.behind.add((*path, str(first)))
                            self.found.linear.update([(*path, str(first))] if turned else ())
                            self.found.called.setdefault((*path, str(second)), "bias")

    def factor(self, op: ast.operator, *sides: ast.expr) -> None:
        """What others are divided by, or multiplied with."""
        if isinstance(op, ast.Div):
            self.found.divisors.update(self.paths(sides[-1]))
        elif isinstance(op, ast.Mult):
            self.found.factors.update(self.every(sides))

    def comparison(self, node: ast.Compare) -> None:
        """What is below zero, sought in something, or None, is the same as others of its own, or is a whole number."""
        match node:
            case (
                ast.Compare(ops=[ast.Lt() | ast.GtE()], comparators=[ast.Constant(value=0)])
                | ast.Compare(ops=[_], comparators=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))])
            ):
                self.found.negative.update(self.paths(node.left))
                self.found.hung.update(path[:1] for path in self.paths(node.left) if path[1:] == ("0",))
        first = node.comparators[0]
        match node.ops[0]:
            case ast.Is() | ast.IsNot() if isinstance(first, ast.Constant) and first.value is None:
                self.found.spared.update(self.paths(node.left))
            case ast.In() | ast.NotIn():
                owners = self.paths(first)
                self.found.sought.update((*path, text) for path in owners for text in spelt(node.left, self.texts))
            case ast.Eq() | ast.NotEq():
                names = [{n.id for n in ast.walk(x) if isinstance(n, ast.Name)} for x in (node.left, first)]
                alike = set.intersection(*names)
                self.found.compared.update(path for name in alike for path in self.known.get(name, ()))
                one, two = self.paths(node.left), self.paths(first)
                if one and two and one[0][:1] != two[0][:1] and len(one[0]) + len(two[0]) > 2:
                    self.found.labels.update(one, two)
                if isinstance(first, ast.Constant) and type(first.value) is int:
                    self.found.whole.update(self.paths(node.left))

    def subscript(self, node: ast.Subscript) -> None:
        """What is written, what rows are taken out of, and by what."""
        owners, by = self.paths(node.value), numeric.bare(node.slice)
        self.found.stored.update(self.paths(node) if isinstance(node.ctx, ast.Store) else ())
        self.begun(node.slice)
        ranged = isinstance(by, ast.Call) and "range" in ast.unparse(by.func)
        if ranged or (isinstance(by, ast.Name) and by.id in self.known):
            self.found.tables.update(owners)
            self.found.picking.update(self.paths(by))
            weights = of_own(node.value) or any(len(path) > 1 for path in owners)
            self.found.moving.update(() if weights else self.paths(by))
            self.found.indices.update(self.paths(by) if owners else ())
        whole: ast.expr = node
        places = 0
        while isinstance(whole, ast.Subscript) and isinstance(whole.slice, ast.Name):
            whole, places = whole.value, places + 1
        self.found.counted.update((*path, *("0",) * places) for path in self.paths(whole))
        if isinstance(node.slice, ast.Name):
            self.found.parted.update(path for path in owners if path[-1].isdigit())

    def begun(self, *keys: ast.AST) -> None:
        """What is looked up by the first of what lies in a list."""
        for key in keys:
            match key:
                case ast.Subscript(value=ast.Name() as own, slice=ast.Slice(lower=None, upper=ast.expr())):
                    self.found.branches.update(path[:1] for path in self.paths(own) if path[1:] == ("0",))

    def listed(self, name: ast.Name, nodes: Iterable[ast.AST]) -> None:
        """What is asked whether anything lies in it, and for what lies at some places, is a list."""
        for node in nodes:
            match node:
                case ast.Subscript(value=ast.Name(id=name.id), slice=ast.Constant(value=int(place))) if place >= 0:
                    for path in self.paths(name):
                        self.found.enter((*path, str(place)), "list")

    def choice(self, node: ast.If) -> None:
        """What is made where it is None."""
        match node.test:
            case ast.Compare(left=ast.Name(id=own), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                ways: tuple[tuple[list[ast.stmt], type[ast.expr_context]], ...]
                ways = (node.body, ast.Store), (node.orelse, ast.Load)
                if own in self.known and any(
                    isinstance(x, ast.Name) and x.id == own and isinstance(x.ctx, kind)
                    for some, kind in ways
                    for part in some
                    for x in ast.walk(part)
                ):
                    self.found.absent.update(self.known[own])

    def call(self, node: ast.Call) -> None:
        """What is called, and what calls are given."""
        self.found.layers.update(path for path in self.paths(node.func) if len(path) == 1)
        if isinstance(node.func, ast.Attribute) and node.func.attr not in _OF_ARRAYS:
            for path in self.paths(node.func.value):
                self.found.methods.setdefault(path, set()).add(node.func.attr)
                # What something that is given is asked for by.
                self.found.indices.update(one for one in self.every(node.args) if one[1:] == ("0",))
        # What a library fills may be given two lengths.
        joined = isinstance(node.func, ast.Name) or is_own(node.func) or ast.unparse(node.func).endswith(JOINS)
        for elements in (x.elts for x in node.args if joined and isinstance(x, ast.Tuple) and len(x.elts) == 2):
            # A state of two arrays, (h, c), which a layer takes as one.
            state = [path for x in elements if isinstance(x, ast.Name) for path in self.paths(x)[:1]]
            self.found.sized.update(state if len(state) == 2 else ())
        self.found.streams.update(self.every(one.value for one in node.keywords if one.arg == "rngs"))
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        self.begun(*node.args if name in ("index", "get") else ())
        if re.fullmatch(_ADDING, ast.unparse(node.func)) and len(node.args) > 1:
            self.found.added_by.update(path for path in self.paths(node.args[1]) if len(path) == 1)
        self.found.squashes |= name == "tanh"
        if name in _SPLITS and any(isinstance(x, ast.Constant) and x.value == 3 for x in node.args):
            whole = [*node.args[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
            for part in (x for some in whole for x in ast.walk(some) if isinstance(x, ast.BinOp)):
                kind = {ast.MatMult: "WP", ast.Add: "P"}.get(type(part.op))
                self.found.packed.update(dict.fromkeys(self.paths(part.right) if kind else (), kind or ""))
        if name == "split":
            # Whole numbers that an array is made a list of.
            called = [x.func for x in node.args if isinstance(x, ast.Call) and isinstance(x.func, ast.Attribute)]
            self.found.parts.update(self.every(x.value for x in called if x.attr == "tolist"))
        if name == "unique" and node.args:
            self.found.compared.update(self.paths(node.args[0]))
        if name in self.found.embeds and is_own(node.func):
            self.found.whole.update(self.every(node.args))
            self.found.words.update(self.every(node.args))
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call() as row, attr="view" | "reshape"), args=[*ones, last]) if (
                {ast.unparse(x) for x in ones} == {"1"} and ast.unparse(last) == "-1" and is_own(row.func)
            ):
                self.found.alone.update(self.every(row.args))
        if name in _PRODUCTS and node.args:
            behind = self.paths(node.args[1 if len(node.args) > 1 else 0])
            self.found.behind.update(behind)
            self.found.linear.update(behind if name == "linear" else ())
        other = self.functions.get(name)
        # Of what the instance has, a method is called too.
        owner = node.func.value if isinstance(node.func, ast.Attribute) and name not in _OF_ARRAYS else node.func
        ours = isinstance(node.func, ast.Name) or is_own(node.func) or is_own(owner)
        if other is not None and self.depth < DEPTH and ours:
            self._handed(node, other)

    def _handed(self, node: ast.Call, other: ast.FunctionDef) -> None:
        """What a function of the source asks of what it is given."""
        names = parameters_of(other)
        # What is spread has one for each argument that must be given, and is given in no other way.
        needed = names[: len(names) - len(other.args.defaults)]
        must = len(needed) - sum(one.arg in needed for one in node.keywords)
        spread = must - sum(not isinstance(x, ast.Starred) for x in node.args)
        each: list[list[Path]] = []
        for x in node.args:
            if isinstance(x, ast.Starred):
                for n, name in enumerate(names[len(each) : len(each) + max(spread, 0)]):
                    inside = [(*path, str(n)) for path in self.paths(x.value)]
                    for path in inside:
                        self.found.enter(path, "list")
                        self.found.called.setdefault(path, name)
                    each.append(inside)
            else:
                each.append(self.paths(x))
        passed = dict(zip(names, takewhile(lambda x: not isinstance(x, ast.Starred), node.args), strict=False))
        by_name = {one.arg: one.value for one in node.keywords if one.arg is not None}
        handed = dict(zip(names, each, strict=False)) | {name: self.paths(value) for name, value in by_name.items()}
        passed |= by_name
        spelled = {name: some for name, value in passed.items() if (some := spelt(value, self.texts))}
        for paths in (self.paths(one.value) for one in node.keywords if one.arg is None):
            # What is unpacked has the names of the arguments that are not given otherwise.
            for path, rest in ((path, name) for path in paths for name in needed if name not in passed):
                self.found.enter((*path, rest), "dictionary")
                handed.setdefault(rest, []).append((*path, rest))
        if any(handed.values()):
            known = {name: paths for name, paths in handed.items() if paths}
            asked(other, known, spelled, self.functions, self.found, self.depth + 1)


def paths_of(node: ast.AST, known: Mapping[str, list[Path]], texts: Mapping[str, list[str]]) -> list[Path]:
    """Arguments, or what lies in them by names; several where the name is one of some texts."""
    if isinstance(node, ast.Name):
        return known.get(node.id, [])
    if isinstance(node, ast.Attribute) and ast.unparse(node) in known:
        return known[ast.unparse(node)]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("tuple", "list", "sorted"):
        return [path for x in node.args for path in paths_of(x, known, texts)]
    if isinstance(node, ast.ListComp) and ast.unparse(node.elt) == ast.unparse(node.generators[0].target):
        # Some of what lies in a list.
        return paths_of(node.generators[0].iter, known, texts)
    if isinstance(node, ast.Attribute) and node.attr not in _OF_ARRAYS:
        return [(*path, node.attr) for path in paths_of(node.value, known, texts)]
    if isinstance(node, ast.Subscript):
        return [(*path, name) for path in paths_of(node.value, known, texts) for name in spelt(node.slice, texts)]
    return []
