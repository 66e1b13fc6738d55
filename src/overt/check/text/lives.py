"""What an object is told before it is asked: what keeps something in it, and under which name it is kept."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from overt.check.text.syntax import assigned, drawn, is_own, parameters_of, parsed, statements, walked

# Methods of containers and arrays that put something into them.
_ADDS = {
    "append", "appendleft", "extend", "insert", "add", "update", "setdefault", "copy_", "index_copy_", "index_put_",
    "scatter_",
}  # fmt: skip
_DROPS = {"pop", "popitem", "popleft", "clear", "remove", "delete"}
# What makes something that is kept by names, and methods that ask for one name of it.
_BY_NAME = {"dict", "defaultdict", "OrderedDict", "Dict", "Mapping", "MutableMapping"}
_ASKS = {"get", "pop", "setdefault"}


@dataclass(frozen=True)
class _Told:
    """What a method does with what its instance keeps."""

    # attributes that it reads, those that it sets anew, and those that it puts something into
    reads: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    fills: set[str] = field(default_factory=set)
    # arguments that are names, or several, under which something is kept
    names: dict[str, bool] = field(default_factory=dict)
    # attributes of which it takes, begins, or throws away what is kept under a name
    takes: set[str] = field(default_factory=set)
    begins: set[str] = field(default_factory=set)
    drops: set[str] = field(default_factory=set)


@dataclass
class Lives:
    """The methods of a class by their names, as trees."""

    functions: Mapping[str, ast.FunctionDef]

    @cached_property
    def told(self) -> dict[str, _Told]:
        """What each method does, with what it calls of its own."""
        found = {name: _told(f, self._kept) for name, f in self.functions.items()}
        for _ in self.functions:
            before = repr(found)
            for name, function in self.functions.items():
                self._handed(function, found[name], found)
            if repr(found) == before:
                break
        return found

    @cached_property
    def _kept(self) -> set[str]:
        """The attributes that hold something by names."""
        nodes = [n for f in self.functions.values() for n in walked(f)]
        pairs = [(target, [value, getattr(value, "func", value)]) for n in nodes for target, value in assigned(n)]
        pairs += [(n.target, [*ast.walk(n.annotation)]) for n in nodes if isinstance(n, ast.AnnAssign)]
        return {target.attr for target, said in pairs  # type: ignore[attr-defined]
                if is_own(target) and any(isinstance(x, ast.Dict) or _last(x) in _BY_NAME for x in said)}  # fmt: skip

    def _handed(self, function: ast.FunctionDef, told: _Told, known: Mapping[str, _Told]) -> None:
        """Add what the methods do that a method calls, and which of its arguments they take for names."""
        around = _sources(function)
        for call in (n for n in walked(function) if isinstance(n, ast.Call) and is_own(n.func)):
            name = call.func.attr  # type: ignore[attr-defined]
            if name not in known or known[name] is told:
                continue
            for own, other in zip(vars(told).values(), vars(known[name]).values(), strict=True):
                if isinstance(own, set):
                    own |= other
            given = zip(parameters_of(self.functions[name]), call.args, strict=False)
            for argument, value in given:
                if argument in known[name].names:
                    for source, several in around.get(_id(value), {}).items():
                        told.names.setdefault(source, several or known[name].names[argument])

    def before(self, method: str) -> list[str]:
        """The methods that are called before one that reads what they keep: in order, that which keeps most last.

        What a method keeps by itself, or what it is made with, needs none.
        """
        asked = self.told.get(method)
        if asked is None:
            return []
        inner = self.inner(method)
        others = (name for name in self.told if name not in inner and name[:1] != "_")
        gives = {name: (one.fills | one.sets) & asked.reads
                 for name in others if _free(self.functions[name], one := self.told[name])}  # fmt: skip
        lacking = set().union(*gives.values()) & (self._empty | set().union(*(self.told[name].fills for name in gives)))
        lacking -= (asked.fills | asked.sets) - self._wanting(method)
        chain: list[str] = []
        while lacking:
            # What begins what it keeps needs nothing before it, and what takes less is asked for less.
            best = max(gives, key=lambda name: (len(gives[name] & lacking), not self.told[name].drops & lacking,
                                                not self._lacks(name),
                                                -len(_free(self.functions[name], self.told[name]))))  # fmt: skip
            if not gives[best] & lacking:
                break
            lacking -= gives[best]
            chain.append(best)
        chain.sort(key=lambda name: bool(self.told[name].names))
        opening = next((name for name in self.functions if chain and self._opens(name, chain[-1])), None)
        if opening is not None and opening not in chain:
            chain.insert(len([name for name in chain if not self.told[name].names]), opening)
        return chain

    def asks(self, method: str) -> bool:
        """Whether a method asks an object that was told something, and does not only throw that away."""
        told, chain = self.told.get(method), self.before(method)
        given = {name for one in chain for name in self.told[one].fills | self.told[one].sets}
        if told is None or told.drops & given or not chain or not _free(self.functions[method], told):
            return False
        return any(isinstance(n, ast.Yield) or getattr(n, "value", None) is not None
                   for n in walked(self.functions[method]) if isinstance(n, ast.Return | ast.Yield))  # fmt: skip

    def adds(self, method: str) -> bool:
        """Whether a method puts something beside what is there, so that it may be called again and again."""
        return bool(self.told[method].fills)

    def keeps(self, method: str) -> bool:
        """Whether a method reads what it leaves behind."""
        told = self.told.get(method)
        return told is not None and bool(told.reads & (told.sets | told.fills))

    @cached_property
    def _empty(self) -> set[str]:
        """The attributes that hold nothing when it is made: numbers and weights are no matter of what it is told."""
        found = set(self._kept)
        for name in {"__init__", "__post_init__"} & set(self.functions):
            pairs = [pair for node in walked(self.functions[name]) for pair in assigned(node)]
            bare = {target.id for target, value in pairs if isinstance(target, ast.Name) and _bare(value, set())}
            found |= {target.attr for target, value in pairs if is_own(target) and _bare(value, bare)}  # type: ignore[attr-defined]
        return found

    def _wanting(self, method: str) -> set[str]:
        """The attributes that are None when it is made, and of which a method never asks whether they are."""
        made = [pair for name in {"__init__", "__post_init__"} & set(self.functions)
                for node in walked(self.functions[name]) for pair in assigned(node)]  # fmt: skip
        bare = {target.attr for target, value in made if is_own(target) and _none(value)}  # type: ignore[attr-defined]
        nodes = [n for name in self.inner(method) for n in walked(self.functions[name])]
        tests: list[ast.AST] = [n.test for n in nodes if isinstance(n, ast.If | ast.IfExp | ast.Assert | ast.While)]
        tests += [n for n in nodes if isinstance(n, ast.BoolOp | ast.Try)]
        return bare - {n.attr for test in tests for n in ast.walk(test) if is_own(n)}  # type: ignore[attr-defined]

    def inner(self, method: str) -> set[str]:
        """A method, and what it calls of its own."""
        seen, todo = set[str](), [method]
        while todo:
            name = todo.pop()
            if name in self.functions and name not in seen:
                seen.add(name)
                todo += [n.attr for n in walked(self.functions[name]) if is_own(n)]  # type: ignore[attr-defined]
        return seen

    def _lacks(self, name: str) -> bool:
        """Whether a method takes what is kept under a name that something else must have begun."""
        return bool(self.told[name].takes - self.told[name].begins)

    def _opens(self, name: str, method: str) -> bool:
        """Whether a method begins what another one takes under a name, and wants nothing for it."""
        own = self.told[name]
        lacking = self.told[method].takes - self.told[method].begins
        public = name[:1] != "_" and not _free(self.functions[name], own)
        return public and bool(own.begins & lacking) and not self._lacks(name)


def _told(function: ast.FunctionDef, kept: set[str]) -> _Told:
    """What a method does by itself."""
    told, sources, held = _Told(), _sources(function), _held(function)

    def attributes(node: ast.AST) -> set[str]:
        names = {n.attr for n in ast.walk(node) if is_own(n)}  # type: ignore[attr-defined]
        return names.union(*(held.get(n.id, set()) for n in ast.walk(node) if isinstance(n, ast.Name)))

    def named(key: ast.AST) -> None:
        for source, several in sources.get(_id(key), {}).items():
            told.names.setdefault(source, several)

    given = _made_of(function, {*sources, *held})
    for node in walked(function):
        told.fills.update(_grown(node, given))
        if is_own(node):
            inner = told.reads if isinstance(node.ctx, ast.Load) else told.sets  # type: ignore[attr-defined]
            inner.add(node.attr)  # type: ignore[attr-defined]
        match node:
            case ast.Subscript(value=ast.Attribute(attr=name) as owner, slice=key) if is_own(owner) and name in kept:
                named(key)
                kinds = {ast.Load: told.takes, ast.Store: told.begins, ast.Del: told.drops}
                kinds[type(node.ctx)].add(name)
                if isinstance(node.ctx, ast.Store):
                    told.sets.add(name)
            case ast.Subscript(value=owner, ctx=ast.Store()):
                told.fills.update(attributes(owner))
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store()) if name != "self":
                told.fills.update(held.get(name, ()))
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args):
                own = owner.attr if is_own(owner) else None  # type: ignore[attr-defined]
                if name in _DROPS:
                    told.drops.update(attributes(node))
                if own in kept and name in _ASKS and args:
                    named(args[0])
                    told.begins.update({own} if name == "setdefault" else ())
                if name in _ADDS and not any(_last(n).endswith(("weight", "bias")) for n in ast.walk(owner)):
                    # What a layer computes with is told by whoever loads it.
                    told.fills.update(attributes(owner))
    # What is taken and put back has grown.
    told.fills.update(told.takes & told.begins)
    return told


def _grown(node: ast.AST, names: set[str]) -> set[str]:
    """The attributes of the instance that a statement adds one of some names to, and not only a number that counts."""
    pairs: list[tuple[ast.expr, ast.AST]] = [*assigned(node)]
    pairs += [(node.target, node.value)] if isinstance(node, ast.AugAssign) else []
    found = set()
    for target, value in pairs:
        own = target.attr if isinstance(target, ast.Attribute) and is_own(target) else None
        again = isinstance(node, ast.AugAssign) or any(is_own(n) and n.attr == own for n in ast.walk(value))  # type: ignore[attr-defined]
        if own is not None and again and any(_id(n) in names for n in ast.walk(value)):
            found.add(own)
    return found


def placed(source: str, places: set[str]) -> set[str]:
    """The names of what functions write to at places that arguments tell, as a buffer of keys is filled.

    What is changed by what stood there is no such buffer, nor is what is hidden where numbers are compared.
    """
    found: set[str] = set()
    changed: set[str] = set()
    for function in (n for n in statements(parsed(source)) if isinstance(n, ast.FunctionDef)):
        where = _made_of(function, places, ast.Compare)
        whole = [(t.id, value) for node in walked(function) for target, value in assigned(node)
                 for t in ast.walk(target) if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)]  # fmt: skip
        parts = {name: _root(value) for name, value in whole if _root(value) != name}
        changed |= {_root(node.target) for node in walked(function) if isinstance(node, ast.AugAssign)}
        for node in walked(function):
            pairs: list[tuple[ast.expr, ast.expr]]
            pairs = [(target, value) for target, value in assigned(node) if isinstance(target, ast.Subscript)]
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _ADDS and node.args:
                pairs = [(node, node.args[-1])]
            for target, value in pairs:
                root, inside = _root(target), {_id(n) for n in ast.walk(value)} - {""}
                data = inside - {_id(n.func) for n in ast.walk(value) if isinstance(n, ast.Call)}
                changed |= {root} & inside
                if data and where & {_id(n) for n in ast.walk(target)} - inside:
                    found |= {root, parts.get(root, root)}
        changed |= {parts.get(name, name) for name in changed}
    return found - changed


def _root(node: ast.AST) -> str:
    """The name of what something is a part of, or a view."""
    while isinstance(node, ast.Subscript | ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return _id(node)


def _made_of(function: ast.FunctionDef, names: set[str], but: type[ast.AST] | tuple[()] = ()) -> set[str]:
    """Some names in a function, and those of what is made of these, but by what is of one kind."""
    found = set(names)
    for node in walked(function):
        for target, value in assigned(node):
            inner = [*ast.walk(value)]
            if any(_id(n) in found for n in inner) and not any(isinstance(n, but) for n in inner):
                found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    return found


def _sources(function: ast.FunctionDef) -> dict[str, dict[str, bool]]:
    """For names in a function, the arguments that they are, or are one of (True)."""
    found = {name: {name: False} for name in parameters_of(function)}
    for node in walked(function):
        for target, over in drawn(node.target, node.iter) if isinstance(node, ast.For | ast.comprehension) else ():
            sources = {source: True for n in ast.walk(over) for source in found.get(_id(n), ())}
            for one in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                found[one] = {**sources, **found.get(one, {})}
    return found


def _held(function: ast.FunctionDef) -> dict[str, set[str]]:
    """For names that a function sets, the attributes of the instance that they are parts of."""
    found: dict[str, set[str]] = {}
    for node in walked(function):
        for target, value in assigned(node):
            parts = set() if isinstance(value, ast.Call | ast.BinOp) else set(ast.walk(value))
            names = {n.attr for n in parts if is_own(n)}  # type: ignore[attr-defined]
            for one in (n.id for n in ast.walk(target) if isinstance(n, ast.Name)):
                found.setdefault(one, set()).update(names)
    return found


def _free(function: ast.FunctionDef, told: _Told) -> list[str]:
    """The arguments that a method wants beside names."""
    wanted = parameters_of(function)[: -len(function.args.defaults) or None]
    return [name for name in wanted if name not in told.names]


def _bare(value: ast.AST, names: set[str]) -> bool:
    """Whether a value holds nothing: none, an empty container, an array without rows, or one of some names."""
    match value:
        case ast.Constant(value=None):
            return True
        case ast.Name(id=name) | ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in names:
            return True
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=func, args=args):
            zero = any(isinstance(n, ast.Constant) and n.value == 0 for x in args for n in ast.walk(x))
            return _last(func) in {*_BY_NAME, "list", "deque", "set"} or (_last(func) in ("empty", "zeros") and zero)
    return False


def _none(value: ast.AST) -> bool:
    """Whether a value is none, or as many as there are names."""
    return all(isinstance(x, ast.Constant) and x.value is None for x in getattr(value, "elts", [value]))


def _last(node: ast.AST | None) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _id(node: ast.AST) -> str:
    return getattr(node, "id", "")
