"""What code asks of its arguments, read without running it: what lies in them, and what is done with that."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from overt.check.text import numeric
from overt.check.text.roles import role
from overt.check.text.shapes import Path, Shape
from overt.check.text.syntax import (
    DEPTH,
    assigned,
    called,
    family,
    is_own,
    parameters_of,
    parsed,
    spelt,
    texts_in,
    walked,
)

# Attributes that arrays have in one library or another.
_OF_ARRAYS = frozenset((*dir(np.ndarray), "at", "data", "device", "grad", "mH", "mT", "requires_grad"))
# Functions that add up what their second argument says the places of.
_ADDING = r"(?s:.*)\b(index_add_?|scatter_(add|reduce)_?|add\.at|segment_(sum|max))"
_JOINS = ("cat", "concat", "concatenate", "stack")
_PRODUCTS = {"matmul", "dot", "mm", "bmm", "linear"}


@dataclass
class Read:
    """What lies in arguments, by names or numbers, and how it is asked for there: "dictionary", "config", or "list"."""

    held: dict[Path, str] = field(default_factory=dict)
    # what it is called where it is taken out
    called: dict[Path, str] = field(default_factory=dict)
    # what stands behind and before a product, and what rows are taken out of, and by what
    behind: set[Path] = field(default_factory=set)
    before: set[Path] = field(default_factory=set)
    tables: set[Path] = field(default_factory=set)
    indices: set[Path] = field(default_factory=set)
    # what takes something out of whatever it is
    picking: set[Path] = field(default_factory=set)
    # what is the same as others of its own numbers, or is not, and what is a whole number, or is not
    compared: set[Path] = field(default_factory=set)
    whole: set[Path] = field(default_factory=set)
    # what is compared with numbers below 0, or with 0 from below
    negative: set[Path] = field(default_factory=set)
    # what has its outputs before its inputs, what slices begin and end at, or end at, and what is joined with texts
    linear: set[Path] = field(default_factory=set)
    bounds: set[Path] = field(default_factory=set)
    lengths: set[Path] = field(default_factory=set)
    # of what counts others, what is itself the last of these
    last: set[Path] = field(default_factory=set)
    texts: dict[Path, str] = field(default_factory=dict)
    # what stands where a number must: in a text, beside a number where something begins, before what counts up
    numbers: set[Path] = field(default_factory=set)
    # what is one of several lengths, or a factor of one
    sides: set[Path] = field(default_factory=set)
    # what counts heads, by what is made of it, and what such a number divides
    heads: set[Path] = field(default_factory=set)
    divided: dict[Path, set[Path]] = field(default_factory=dict)
    # what lies in something and is a number: it is made whole, with what it is multiplied with, or something is by it
    single: set[Path] = field(default_factory=set)
    # methods that are called of something, and that no array has
    methods: dict[Path, set[str]] = field(default_factory=dict)
    # what arguments are called with, several things at once: by position, and by name
    applied: dict[str, tuple[list[str], list[str]]] = field(default_factory=dict)
    # what the code makes itself where it is None
    absent: set[Path] = field(default_factory=set)
    # arguments that are added to others, by their names
    added: dict[str, str] = field(default_factory=dict)
    # what arrays are made as long as
    made: set[Path] = field(default_factory=set)
    # what is asked for its size or shape, and what is made booleans or turned round as these are
    sized: set[Path] = field(default_factory=set)
    flags: set[Path] = field(default_factory=set)
    # what is given an axis of one number behind its own, to be mapped
    columns: set[Path] = field(default_factory=set)
    # what lies in a list and has parts by numbers itself, such as the states of layers
    parted: set[Path] = field(default_factory=set)
    # what says where others are added up
    added_by: set[Path] = field(default_factory=set)
    # layers of an instance that take numbers of words
    embeds: set[str] = field(default_factory=set)
    # arguments that are called
    layers: set[Path] = field(default_factory=set)
    # what is looked for before it is asked for, and what is written
    sought: set[Path] = field(default_factory=set)
    stored: set[Path] = field(default_factory=set)

    @property
    def weights(self) -> set[Path]:
        """What others are multiplied with."""
        return self.behind - self.before

    def enter(self, path: Path, kind: str) -> None:
        """What lies in something, and what that lies in by its number."""
        for end in range(2, len(path)):
            if path[end - 1].isdigit():
                self.held.setdefault(path[:end], "list")
        self.held.setdefault(path, kind)

    def of(self, path: Path) -> str | None:
        """What something is, by how others are asked of it."""
        inside = {p[-1]: kind for p, kind in self.held.items() if p[:-1] == path}
        kind = next(iter(inside.values()), None)
        return f"{len(inside)} of them" if kind == "list" else kind

    @property
    def ends(self) -> dict[Path, str]:
        """What asks for more is no array."""
        owners = {path[:-1] for path in self.held}
        return {path: kind for path, kind in self.held.items() if path not in owners}

    def filled(self, path: Path) -> bool:
        """Whether there need be nothing in something: all of it is looked for, or written beside that."""
        inside = {one for one in self.held if one[:-1] == path}
        return bool(inside & self.sought) and inside <= self.sought | self.stored


def read(source: str, names: Sequence[str]) -> Read:
    """What a source asks of its arguments.

    ``w["q"]`` asks a dictionary, ``w.q``, where no array has an attribute q, a configuration, and a loop over what lies
    in something, or several names for it, a list.  What is handed on to other functions of the source is asked there.
    """
    found, tree = Read(), parsed(source)
    functions = {node.name: node for node in walked(tree) if isinstance(node, ast.FunctionDef)}
    for node in tree.body[1:]:
        # What makes an instance is called by the name of its class.
        made = {f.name: f for f in getattr(node, "body", ()) if isinstance(f, ast.FunctionDef)}.get("__init__")
        functions |= {node.name: made} if isinstance(node, ast.ClassDef) and made is not None else {}
    forwards = {node.name: f for node in tree.body if isinstance(node, ast.ClassDef) for f in node.body
                if isinstance(f, ast.FunctionDef) and f.name in ("forward", "__call__", "call")}  # fmt: skip
    for place, value in (pair for x in walked(tree) for pair in assigned(x)):
        if is_own(place) and isinstance(value, ast.Call):
            # What an instance makes and keeps is called by the name that it has there.
            kept, by = ast.unparse(place).partition(".")[2], ast.unparse(value.func)
            functions |= {kept: forwards[by]} if by in forwards and kept not in functions else {}
            found.embeds |= {kept} if by.endswith(("Embedding", "Embed")) else set()
    for own in family(tree.body[0], tree) if tree.body else ():
        # A method may be called with texts of its own class.
        passed = texts_in(walked(own), {})
        joined = _joined(own, functions)
        texts = {name: passed.get(name, [name])[:1] for name in names if name in joined}
        # What is a place in an array too is a number in a text.
        places = _placed(own, functions) & {*texts}
        texts |= {name: ["0"] for name in places}
        found.numbers.update((name,) for name in places)
        found.texts |= {(name,): some[0] for name, some in texts.items() if name not in places}
        found.applied |= _applied(own, names)
        # What is declared in a class is given to whoever makes it.
        fields = {x.target.id for x in getattr(own, "body", ())
                  if isinstance(x, ast.AnnAssign) and isinstance(x.target, ast.Name)}  # fmt: skip
        known: dict[str, list[Path]] = {name: [(name,)] for name in names}
        known |= {f"self.{name}": [(name,)] for name in names if name in fields}
        _asked(own, known, texts, functions, found, 0)
    return found


def _applied(own: ast.AST, names: Sequence[str]) -> dict[str, tuple[list[str], list[str]]]:
    """Arguments that are called, here or where an instance keeps them, and what with."""
    kept = {name: name for name in names}
    for place, value in (pair for node in walked(own) for pair in assigned(node)):
        kept |= {ast.unparse(place): ast.unparse(value)} if is_own(place) and ast.unparse(value) in names else {}
    calls = [node for node in walked(own) if isinstance(node, ast.Call) and ast.unparse(node.func) in kept]
    some = {kept[ast.unparse(n.func)]: ([*map(ast.unparse, n.args)], [str(k.arg) for k in n.keywords]) for n in calls}
    return {name: given for name, given in some.items() if any(given)}


def _joined(function: ast.AST, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> set[str]:
    """Names that stand beside texts in sums, or in texts that are keys, here or in what they are handed on to."""
    both = [(x.left, x.right) for x in walked(function) if isinstance(x, ast.BinOp) and isinstance(x.op, ast.Add)]
    sums = [names for pair in both for one, names in (pair, pair[::-1]) if isinstance(one, ast.Constant | ast.JoinedStr)
            and isinstance(getattr(one, "value", ""), str)]  # fmt: skip
    keys = [x.slice for x in walked(function) if isinstance(x, ast.Subscript)]
    inside = [part.value for key in keys for part in ast.walk(key) if isinstance(part, ast.FormattedValue)]
    for call in walked(function):
        other = functions.get(called(call) or "")
        if isinstance(call, ast.Call) and other is not None and other is not function and depth < DEPTH:
            joined = _joined(other, functions, depth + 1)
            handed = [value for name, value in zip(parameters_of(other), call.args, strict=False) if name in joined]
            inside += [x for value in handed if isinstance(value, ast.Name | ast.JoinedStr | ast.BinOp)
                       for x in ast.walk(value) if isinstance(x, ast.Name)]  # fmt: skip
    found = {x.id for x in (*sums, *inside) if isinstance(x, ast.Name)}
    # What such a text was made of before has its part in it.
    made = [(place.id, value) for node in walked(function) for place, value in assigned(node)
            if isinstance(place, ast.Name) and isinstance(value, ast.JoinedStr)]  # fmt: skip
    for name, text in made[::-1]:
        found |= {x.id for x in ast.walk(text) if isinstance(x, ast.Name)} if name in found else set()
    return found


def _placed(function: ast.AST, functions: Mapping[str, ast.FunctionDef], depth: int = 0) -> set[str]:
    """Names that say where along an axis of an array something lies, here or in what they are handed on to."""
    keys = [x.slice.elts for x in walked(function) if isinstance(x, ast.Subscript) and isinstance(x.slice, ast.Tuple)]
    found = {x.id for elements in keys for x in elements if isinstance(x, ast.Name)}
    for call in walked(function):
        other = functions.get(called(call) or "")
        if isinstance(call, ast.Call) and other is not None and other is not function and depth < DEPTH:
            placed = _placed(other, functions, depth + 1)
            pairs = zip(parameters_of(other), call.args, strict=False)
            found |= {value.id for name, value in pairs if name in placed and isinstance(value, ast.Name)}
    return found


def _asked(
    function: ast.AST,
    known: dict[str, list[Path]],
    told: Mapping[str, list[str]],
    functions: Mapping[str, ast.FunctionDef],
    found: Read,
    depth: int,
) -> None:
    """Enter what one function asks of what its names stand for: arguments, what lies in them, or texts."""
    nodes = walked(function)
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    texts = texts_in(nodes, told)
    for node in nodes:
        if isinstance(node, ast.Assign):
            for given, of in assigned(node):
                if isinstance(given, ast.Tuple) and isinstance(of, ast.GeneratorExp | ast.ListComp):
                    # Names for each of what something is made of one by one are names for that.
                    of = of.generators[0].iter if len(of.generators) == 1 else of
                if isinstance(given, ast.Name) and isinstance(of, ast.Attribute) and ast.unparse(of) in known:
                    known.setdefault(given.id, known[ast.unparse(of)])
                _named(given, _paths(of, known, texts), known, found)
        elif isinstance(node, ast.For | ast.comprehension):
            _looped(node.target, node.iter, known, texts, found)
    _sliced(nodes, known, found)
    for node in nodes:
        if node not in called and not (isinstance(node, ast.Attribute) and ast.unparse(node) in known):
            for path in _paths(node, known, texts):
                if len(path) > 1 and not isinstance(node, ast.Name):
                    found.enter(path, "config" if isinstance(node, ast.Attribute) else "dictionary")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            found.behind.update(_paths(node.right, known, texts))
            found.before.update(_paths(node.left, known, texts))
            if isinstance(node.right, ast.Attribute) and node.right.attr in ("T", "mT"):
                turned = _paths(node.right.value, known, texts)
                found.behind.update(turned)
                found.linear.update(turned)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and spelt(node.right, texts):
            # What is divided by a text is no number: it goes on to what has that name.
            for path in _paths(node.left, known, texts):
                found.methods.setdefault(path, set()).add("__truediv__")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            one, two = (_paths(x, known, texts) for x in (node.left, node.right))
            if one and two and len(one[0]) == len(two[0]) == 1 and one != two:
                found.added.setdefault(two[0][0], one[0][0])
        found.single.update(path for x in numeric.single(node) for path in _paths(x, known, texts) if len(path) > 1)
        found.columns.update(path for x in numeric.columns(node) for path in _paths(x, known, texts))
        found.numbers.update(path for x in numeric.numbers(node) for path in _paths(x, known, texts))
        found.heads.update(path for x in numeric.heads(node) for path in _paths(x, known, texts))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
            for path in _paths(node.right, known, texts):
                found.divided.setdefault(path, set()).update(_paths(node.left, known, texts))
        found.sides.update(path for x in numeric.sides(node) for path in _paths(x, known, texts))
        found.made.update(path for x in numeric.makes(node) for path in _paths(x, known, texts))
        match node:
            case (
                ast.Compare(ops=[ast.Lt() | ast.GtE()], comparators=[ast.Constant(value=0)])
                | ast.Compare(ops=[_], comparators=[ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1))])
            ):
                found.negative.update(_paths(node.left, known, texts))
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            owners = _paths(node.comparators[0], known, texts)
            found.sought.update((*path, text) for path in owners for text in spelt(node.left, texts))
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            found.stored.update(_paths(node, known, texts))
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            alike = set.intersection(
                *({n.id for n in ast.walk(x) if isinstance(n, ast.Name)} for x in (node.left, node.comparators[0]))
            )
            found.compared.update(path for name in alike for path in known.get(name, ()))
            if isinstance(node.comparators[0], ast.Constant) and type(node.comparators[0].value) is int:
                found.whole.update(_paths(node.left, known, texts))
        by = numeric.bare(node.slice) if isinstance(node, ast.Subscript) else node
        ranged = isinstance(by, ast.Call) and "range" in ast.unparse(by.func)
        if isinstance(node, ast.Subscript) and (ranged or (isinstance(by, ast.Name) and by.id in known)):
            found.tables.update(_paths(node.value, known, texts))
            found.picking.update(_paths(by, known, texts))
            found.indices.update(_paths(by, known, texts) if _paths(node.value, known, texts) else ())
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            found.parted.update(path for path in _paths(node.value, known, texts) if path[-1].isdigit())
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "size", "ndim"):
            found.sized.update(_paths(node.value, known, texts))
        match node:
            case ast.If(
                test=ast.Compare(left=ast.Name(id=own), ops=[ast.Is()], comparators=[ast.Constant(value=None)])
            ) if own in known and any(
                isinstance(x, ast.Name) and x.id == own and isinstance(x.ctx, kind)
                for some, kind in ((node.body, ast.Store), (node.orelse, ast.Load))
                for part in some
                for x in ast.walk(part)
            ):
                found.absent.update(known[own])
        match node:
            case ast.UnaryOp(op=ast.Invert(), operand=flags) | ast.Call(func=ast.Attribute(value=flags, attr="bool")):
                found.flags.update(_paths(numeric.viewed(flags), known, texts))
            case (
                ast.Call(func=ast.Attribute(value=flags, attr="to" | "astype"), args=[kind])
                | ast.Call(func=ast.Attribute(attr="cast"), args=[flags, kind])
            ) if "bool" in ast.dump(kind):
                found.flags.update(_paths(numeric.viewed(flags), known, texts))
            case (
                ast.Call(func=ast.Attribute(attr="where"), args=[flags, _, _])
                | ast.Call(func=ast.Attribute(attr="masked_fill" | "masked_fill_"), args=[flags, _])
            ):
                for part in _conditions(flags):
                    found.flags.update(_paths(numeric.viewed(part), known, texts))
        if not isinstance(node, ast.Call):
            continue
        found.layers.update(path for path in _paths(node.func, known, texts) if len(path) == 1)
        if isinstance(node.func, ast.Attribute) and node.func.attr not in _OF_ARRAYS:
            for path in _paths(node.func.value, known, texts):
                found.methods.setdefault(path, set()).add(node.func.attr)
                # What something that is given is asked for by.
                found.indices.update(one for x in node.args for one in _paths(x, known, texts) if one[1:] == ("0",))
        # What a library fills may be given two lengths.
        joined = isinstance(node.func, ast.Name) or is_own(node.func) or ast.unparse(node.func).endswith(_JOINS)
        for elements in (x.elts for x in node.args if joined and isinstance(x, ast.Tuple) and len(x.elts) == 2):
            # A state of two arrays, (h, c), which a layer takes as one.
            state = [path for x in elements if isinstance(x, ast.Name) for path in _paths(x, known, texts)[:1]]
            found.sized.update(state if len(state) == 2 else ())
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        if re.fullmatch(_ADDING, ast.unparse(node.func)) and len(node.args) > 1:
            found.added_by.update(path for path in _paths(node.args[1], known, texts) if len(path) == 1)
        if name == "unique" and node.args:
            found.compared.update(_paths(node.args[0], known, texts))
        if name in found.embeds and is_own(node.func):
            found.whole.update(path for x in node.args for path in _paths(x, known, texts))
        if name in _PRODUCTS and node.args:
            behind = _paths(node.args[1 if len(node.args) > 1 else 0], known, texts)
            found.behind.update(behind)
            found.linear.update(behind if name == "linear" else ())
        other = functions.get(name or "")
        if other is not None and depth < DEPTH and (isinstance(node.func, ast.Name) or is_own(node.func)):
            names = [a.arg for a in other.args.args][other.name == "__init__" or is_own(node.func) :]
            passed = dict(zip(names, node.args, strict=False))
            passed |= {one.arg: one.value for one in node.keywords if one.arg is not None}
            handed = {name: _paths(value, known, texts) for name, value in passed.items()}
            spelled = {name: some for name, value in passed.items() if (some := spelt(value, texts))}
            needed = other.args.args[: len(other.args.args) - len(other.args.defaults)]
            for paths in (_paths(one.value, known, texts) for one in node.keywords if one.arg is None):
                # What is unpacked has the names of the arguments that are not given otherwise.
                for path, rest in ((path, a.arg) for path in paths for a in needed if a.arg not in passed):
                    found.enter((*path, rest), "dictionary")
                    handed.setdefault(rest, []).append((*path, rest))
            if any(handed.values()):
                inside = {name: paths for name, paths in handed.items() if paths}
                _asked(other, inside, spelled, functions, found, depth + 1)


def _conditions(node: ast.expr) -> Iterator[ast.expr]:
    """The conditions that one is put together of."""
    match node:
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=one, right=two):
            yield from _conditions(one)
            yield from _conditions(two)
        case ast.UnaryOp(op=ast.Invert(), operand=one):
            yield from _conditions(one)
        case _:
            yield node


def _sliced(nodes: Sequence[ast.AST], known: Mapping[str, list[Path]], found: Read) -> None:
    """Enter what holds the bounds of slices, or their ends alone: in its elements, or where a loop takes these."""
    taken: dict[str, Path] = {}
    for node in nodes:
        if isinstance(node, ast.For | ast.comprehension):
            some = {path for n in ast.walk(node.iter) if isinstance(n, ast.Name) for path in known.get(n.id, ())
                    if len(path) == 1}  # fmt: skip
            targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
            over = node.iter.args if isinstance(node.iter, ast.Call) and len(node.iter.args) == len(targets) else []
            each = [
                {path for n in ast.walk(x) if isinstance(n, ast.Name) for path in known.get(n.id, ())} for x in over
            ]
            for number, target in enumerate(targets):
                mine = each[number] if each else some
                if isinstance(target, ast.Name) and len(mine) == 1:
                    taken[target.id] = next(iter(mine))

    def of(node: ast.AST | None) -> Path | None:
        if isinstance(node, ast.Call) and node.args:
            return of(node.args[0])
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            return next((path for path in known.get(node.value.id, ()) if len(path) == 1), None)
        return taken.get(node.id) if isinstance(node, ast.Name) else None

    up = {target.id for node in nodes if isinstance(node, ast.Assign) and numeric.counts_up(node.value)
          for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
    for node in nodes:
        counting = [path for name in numeric.counting(node, up) for path in known.get(name, ()) if len(path) == 1]
        found.lengths.update(counting)
        found.last.update(counting if isinstance(node, ast.Compare) and numeric.last(node, up) else ())
        if isinstance(node, ast.Slice) and (path := of(node.upper)) is not None:
            both = of(node.lower) == path
            (found.bounds if both else found.lengths).update([path] if both or node.lower is None else [])


def _named(target: ast.AST, paths: list[Path], known: dict[str, list[Path]], found: Read) -> None:
    """Another name for something that lies in an argument, or names for what lies in it in its order."""
    if not paths:
        return
    if isinstance(target, ast.Name) and len(paths[0]) > 1:
        known.setdefault(target.id, paths)
    elif isinstance(target, ast.Attribute):
        known.setdefault(ast.unparse(target), paths)
    elif isinstance(target, ast.Tuple | ast.List) and not any(isinstance(x, ast.Starred) for x in target.elts):
        for number, x in enumerate(target.elts):
            inside = [(*path, str(number)) for path in paths]
            for path in inside:
                found.enter(path, "list")
            if isinstance(x, ast.Name):
                found.called |= {path: x.id for path in inside if path not in found.called}
                known.setdefault(x.id, inside)
            else:
                _named(x, inside, known, found)


def _looped(
    target: ast.AST, over: ast.AST, known: dict[str, list[Path]], texts: Mapping[str, list[str]], found: Read
) -> None:
    """What a loop takes out of a list, where the code says by what it asks of that, that it is none of arrays."""
    if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "enumerate" and isinstance(target, ast.Tuple):
        target, over = target.elts[-1], over.args[0]
    if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "reversed":
        over = over.args[0]
    if isinstance(over, ast.Call) and getattr(over.func, "id", "") == "zip" and isinstance(target, ast.Tuple):
        for each, some in zip(target.elts, over.args, strict=False):
            _looped(each, some, known, texts, found)
        return
    if isinstance(over, ast.Tuple | ast.List) and isinstance(target, ast.Name):
        known.setdefault(target.id, [path for x in over.elts for path in _paths(x, known, texts) if len(path) > 1])
        return
    paths = [(*path, "0") for path in _paths(over, known, texts)]
    if isinstance(target, ast.Tuple) and paths:
        for path in paths:
            found.enter(path, "list")
        _named(target, paths, known, found)
    elif isinstance(target, ast.Name) and paths:
        known.setdefault(target.id, paths)


def _paths(node: ast.AST, known: Mapping[str, list[Path]], texts: Mapping[str, list[str]]) -> list[Path]:
    """Arguments, or what lies in them by names; several where the name is one of some texts."""
    if isinstance(node, ast.Name):
        return known.get(node.id, [])
    if isinstance(node, ast.Attribute) and ast.unparse(node) in known:
        return known[ast.unparse(node)]
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("tuple", "list"):
        return [path for x in node.args for path in _paths(x, known, texts)]
    if isinstance(node, ast.Attribute) and node.attr not in _OF_ARRAYS:
        return [(*path, node.attr) for path in _paths(node.value, known, texts)]
    if isinstance(node, ast.Subscript):
        return [(*path, name) for path in _paths(node.value, known, texts) for name in spelt(node.slice, texts)]
    return []


def contracted(source: str, names: Sequence[str], found: Mapping[Path, Shape]) -> dict[Path, Shape]:
    """Shapes that the equations of einsum demand of arguments, and of what lies in them, beside those that are known.

    An axis of what is known has the word that it has there.  What no role has, and what is known is multiplied with,
    is a matrix.
    """
    made = dict(found)
    known: dict[str, list[Path]] = {own: [(name,)] for name in names for own in (name, f"self.{name}")}
    nodes = [*ast.walk(parsed(source))]
    texts = texts_in(nodes, {})
    for node in nodes:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            for one, two in product(*(_paths(x, known, texts) for x in (node.left, node.right))):
                if one in found and not found[one].sort and len(two) == 1 and role(two[0]) is None:
                    made.setdefault(two, Shape((found[one].axes[-1], "width"), ""))
        equation = node.args[0] if isinstance(node, ast.Call) and node.args else None
        if not isinstance(equation, ast.Constant) or not isinstance(equation.value, str) or "->" not in equation.value:
            continue
        assert isinstance(node, ast.Call)
        letters = [part.strip() for part in equation.value.partition("->")[0].split(",")]
        paths = [_paths(numeric.scaled(operand), known, texts) for operand in node.args[1:]]
        if len(letters) != len(paths) or not all(part.isalpha() for part in letters):
            continue
        words = {
            letter: word
            for part, some in zip(letters, paths, strict=True)
            for path in some
            if path in made and len(made[path].axes) == len(part)
            for letter, word in zip(part, made[path].axes, strict=True)
        }
        # A letter is the word that it is alone, small or large.
        told = [axis for shape in made.values() for axis in shape.axes]
        words = {part.lower(): part for axis in told for part in re.findall(r"\b[A-Z]\b", axis)} | words
        for part, some in zip(letters, paths, strict=True):
            for path in some:
                made.setdefault(path, Shape(tuple(words.get(letter, letter) for letter in part), ""))
    return made
