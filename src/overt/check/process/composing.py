"""Several calls as one: what an object is made of, what it is told first, and what is asked of it then.

What a method reads of the instance, and another one sets, says which is called before; the arguments of all are one's.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial, update_wrapper
from typing import Any

import numpy as np

from overt.check.process.arrays import backends
from overt.check.process.describe import arguments_of, describe, is_keras, libraries, rows_of
from overt.check.process.giving import drawn, parted
from overt.check.process.watching import plain
from overt.check.text.lives import Lives
from overt.check.text.roles import role
from overt.check.text.syntax import assigned, is_own, parsed, statements, walked
from overt.check.text.usage import source_of
from overt.errors import ArgumentError

# What stands between the names of methods that are called one after the other, and behind that of one that is called so
# by itself; and the name that makes the object.
THEN, AGAIN, MAKE = " then ", " again and again", "__init__"
# What a class that stands for functions was made of; no name that somebody's own class has.
STANDS_FOR = "stands for"


def applied(thing: Any) -> Any:
    """A function in place of a class of torch's autograd, which is called by its ``apply``, without what it keeps.

    And in place of a partial one, which is called with the arguments that are left.
    """
    if isinstance(thing, partial) and not inspect.isclass(thing.func):
        with suppress(TypeError, ValueError):
            return _left(thing)
    torch: Any = sys.modules.get("torch")
    if torch is None or torch.autograd.Function not in getattr(thing, "__mro__", ()):
        return thing
    signature = inspect.signature(thing.forward)
    # What sets its context up by itself has a forward without one.
    rows = [*signature.parameters.values()][thing.setup_context is torch.autograd.Function.setup_context :]
    signature = signature.replace(parameters=rows)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return thing.apply(*bound.args)

    made: Any = update_wrapper(call, thing.forward)
    made.__signature__ = signature
    call.__name__, call.__doc__ = thing.__name__, thing.__doc__
    return call


def _left(thing: partial) -> Any:
    """A partial function as one of the arguments that are left."""
    signature = inspect.signature(thing)

    def call(*args: Any, **kwargs: Any) -> Any:
        return thing(*args, **kwargs)

    made: Any = update_wrapper(call, thing.func, updated=())
    # A keyword that is given could still be given anew.
    left = [row for row in signature.parameters.values() if row.name not in thing.keywords]
    made.__signature__ = signature.replace(parameters=left)
    return made


def closing(function: Any) -> Any:
    """A class in place of a function that returns a function of its own, or several, of which the last is called.

    What the first draws, of a source of random numbers and of numbers, is the first argument of the last.
    """
    outer = next(iter(_tree(function).body), None) if inspect.isfunction(function) else None
    known: dict[str, ast.AST] = {n.name: n for n in getattr(outer, "body", ()) if isinstance(n, ast.FunctionDef)}
    known |= {n.targets[0].id: n.value for n in getattr(outer, "body", ()) if isinstance(n, ast.Assign)
              and isinstance(n.targets[0], ast.Name)}  # fmt: skip
    for node in getattr(outer, "body", ()):
        given = node.value if isinstance(node, ast.Return) else None
        several = given.elts if isinstance(given, ast.Tuple) else [given]
        inner = [found for x in several if (found := _arguments(x, known)) is not None]
        if inner and len(inner) == len(several):
            drawing, arguments = [a.arg for a in inner[0].args], copy.deepcopy(inner[-1])
            draws = len(inner) > 1 and bool(drawing) and role(drawing[0]) in ("seed", "k") and len(arguments.args) > 1
            numbers = drawing[1:] if draws else []
            arguments.args = arguments.args[draws:]
            for one in (*arguments.args, *arguments.kwonlyargs):
                one.annotation = None
            alike = eval(f"lambda {ast.unparse(arguments)}: 0", dict(function.__globals__))

            own: dict[str, Any] = {
                "__init__": _making(function, numbers if draws else None),
                "__call__": lambda self, *args, **kwargs: self.function(*args, **kwargs),
            }
            own |= {
                "__module__": function.__module__,
                "__doc__": function.__doc__,
                STANDS_FOR: (function, alike, numbers),
            }
            return type(function.__name__, (), own)
    return function


def _arguments(node: ast.AST | None, known: Mapping[str, ast.AST], depth: int = 4) -> ast.arguments | None:
    """The arguments of a function, also through what is called with it, as ``jit`` and ``vmap`` are."""
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        return node.args
    if isinstance(node, ast.Name) and depth:
        return _arguments(known.get(node.id), known, depth - 1)
    if isinstance(node, ast.Call) and len(node.args) == 1 and depth:
        return _arguments(node.args[0], known, depth - 1)
    return None


def _making(function: Any, numbers: list[str] | None) -> Callable[..., None]:
    """What makes such a class's instance; numbers: names of what weights are drawn of, None where none are drawn."""

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        given = [kwargs.pop(f"{name}_") for name in numbers or ()]
        made = function(*args, **kwargs)
        self.function = made[-1] if isinstance(made, tuple) else made
        if numbers is not None:
            self.function = partial(made[-1], _weights(made[0], given))

    return make


def _weights(draw: Callable[..., Any], numbers: list[Any]) -> Any:
    """What a function draws; of a length and what is drawn, the second."""
    # What another candidate has loaded is none of its own.
    near = libraries(draw)
    jax = sys.modules.get("jax") if "jax" in near or "numpy" not in near else None
    library, source = ("jax", jax.random.PRNGKey(0)) if jax is not None else ("numpy", np.random.default_rng(0))
    found = backends(library, "float64").run(draw, [source, *numbers], {}, {}, False)
    pair = isinstance(found, tuple) and len(found) == 2 and not isinstance(found[0], dict | list)
    return drawn(found[1] if pair else found, np.random.default_rng(0))


def described(thing: Any, method: str | None = None, named: str | None = None) -> dict[str, Any]:
    """A candidate that is called by a method, where none is given by that which somebody named or its usual one.

    Before that comes what it needs.
    """
    if inspect.isclass(thing) and STANDS_FOR in vars(thing):
        function, alike, numbers = vars(thing)[STANDS_FOR]
        told = describe(function)
        told |= {"kind": "class", "method": "__call__", "methods": [], "starts": [], "constructor": told["parameters"]}
        row = {"required": True, "default": None, "annotation": "", "kind": "keyword"}
        told["constructor"] += [{**row, "name": f"{name}_"} for name in numbers]
        return told | {"parameters": arguments_of(alike), "globals": []}
    told = describe(thing) | {"named": named}
    first = named or told["method"]
    cls: Any = thing if inspect.isclass(thing) else type(thing)
    usual = first or method
    if told["kind"] != "function":
        told["asking"] = [name for name in told["methods"] if lives(cls).asks(name)]
    if named not in (None, told["method"]) and is_keras(cls):
        raise ArgumentError(f"{told['name']} is a layer of Keras, of which nothing but its {told['method']} is checked")
    if told["kind"] == "function" or usual is None or is_keras(cls):
        return told
    told["makes"] = [name for name in vars(cls) if makes(cls, name)]
    last = usual.split(THEN)[-1]
    told["life"] = THEN.join([*lives(cls).before(last), last])
    told["steps"] = [name for name in told["methods"] if name not in usual.split(THEN) and _attends(cls, name, last)]
    told["callers"] = [name for name in told["methods"] if name != last and last in lives(cls).inner(name)]
    if method is not None and method.endswith(AGAIN):
        rows = [{**row, "each": name == last} for name, _, row in _each(cls, method.removesuffix(AGAIN))]
        return told | {"method": method, "composed": True, "parameters": rows, "hands": [], "starts": []}
    told["handed"] = _handed(cls, usual)
    told["hands"] = sorted({*told["handed"].values()})
    lacks, told["starts"] = _before(cls, usual, () if inspect.isclass(thing) else dir(thing))
    if lives(cls).keeps(last):
        told["callers"].append((f"{lacks}{THEN}{last}" if lacks else last) + AGAIN)
    method = method or (f"{lacks}{THEN}{usual}" if lacks else usual)
    if method == told["method"]:
        return told
    names = method.split(THEN)
    told |= {"method": method, "composed": several(method), "parameters": _rows(cls, method)}
    told["body"] = "\n".join(source_of(getattr(cls, name))[0] for name in names if name != MAKE)
    if makes(cls, names[0]):
        told |= {"kind": "function", "method": None, "constructor": [], "methods": []}
    return told


def _attends(cls: Any, name: str, usual: str) -> bool:
    """Whether a method weighs, and the usual one does not call it, drops some of it, or it keeps something beside."""
    own = lives(cls)
    inner = [source_of(getattr(cls, one, None))[0] for one in own.inner(name)]
    weighs = any(re.search(r"softmax|scaled_dot_product|\bexp2?\(", source) for source in inner)
    return bool(
        weighs
        and name in own.told
        and (name not in own.inner(usual) or own.told[name].fills | own.told[name].sets or _dropped(cls, name, usual))
    )


def _dropped(cls: Any, name: str, usual: str) -> bool:
    """Whether another method takes some alone of what a method returns: one item, or names that are not all read."""
    nodes = list(ast.walk(_tree(getattr(cls, usual))))
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    taken = [n.value for n in nodes if isinstance(n, ast.Subscript)]
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            names = {n.id for n in ast.walk(node.targets[0]) if isinstance(n, ast.Name)}
            taken += [node.value] if names - read else []
    return any(isinstance(n, ast.Call) and is_own(n.func) and getattr(n.func, "attr", "") == name for n in taken)


def makes(cls: Any, name: str) -> bool:
    """Whether a name stands for what makes an object of a class: a method of the class may return one of these."""
    own = inspect.getattr_static(cls, name, None)
    called = rf"return {cls.__name__}\(|return cls\(" if isinstance(own, classmethod) else r"(?!)"
    return name == MAKE or bool(re.search(called, source_of(getattr(cls, name, None))[0]))


def _before(cls: Any, method: str, has: Iterable[str]) -> tuple[str | None, list[str]]:
    """The method that sets most of what another reads and what making it does not set; and all that set such things."""
    functions = {name: f for base in cls.__mro__[::-1] if base.__module__ == cls.__module__
                 for name, f in vars(base).items() if inspect.isfunction(f)}  # fmt: skip
    trees = {name: _tree(f) for name, f in functions.items()}
    made = {"__init__", "__post_init__", "setup"} & set(trees)
    known = set(has) | set(dir(cls)) | set(getattr(cls, "__annotations__", ())) | set(functions)
    # What making it calls sets something too.
    called = {n.attr for name in made for n in ast.walk(trees[name]) if is_own(n)} & set(trees)  # type: ignore[attr-defined]
    for name in made | called:
        texts = (n.value for n in ast.walk(trees[name]) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        known |= _set(trees[name]) | set(texts)
    open_, seen, read = [method], set[str](), set[str]()
    while open_:
        name = open_.pop()
        if name in trees and name not in seen:
            seen.add(name)
            names = {n.attr for n in ast.walk(trees[name]) if is_own(n) and isinstance(n.ctx, ast.Load)}  # type: ignore[attr-defined]
            open_ += names & set(functions)
            read |= names
    others = {name: _set(tree) & read for name, tree in trees.items()
              if name not in seen | made and name[:2] != "__" and _set(tree) & read}  # fmt: skip
    best = max(others, key=lambda name: len(others[name] - known), default=None)
    return best if best is not None and others[best] - known else None, [*others]


@lru_cache(maxsize=64)
def _handed(cls: Any, method: str) -> dict[str, str]:
    """For the arguments of a method, the methods of the same object whose results its module gives it for them."""
    names = [row["name"] for row in rows_of(cls, method) if row["required"] or row["kind"] != "keyword"]
    needed, found = {row["name"] for row in rows_of(cls, method) if row["required"]}, dict[str, str]()
    for function in statements(_tree(sys.modules.get(cls.__module__))):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = walked(function)
        made = {(ast.unparse(value.func.value), target.id): value.func.attr for n in nodes
                for target, value in assigned(n) if isinstance(target, ast.Name) and isinstance(value, ast.Call)
                and isinstance(value.func, ast.Attribute)}  # fmt: skip
        for call in (n for n in nodes if isinstance(n, ast.Call)):
            owner, _, called = ast.unparse(call.func).rpartition(".")
            whole = method in ("__call__", "forward") and called != method
            given = [*zip(names, call.args, strict=False), *((one.arg, one.value) for one in call.keywords)]
            for name, value in given if whole or called == method else ():
                maker = made.get((ast.unparse(call.func) if whole else owner, ast.unparse(value)), "")
                if name in needed and maker != method and inspect.isfunction(getattr(cls, maker, None)):
                    found[str(name)] = maker
    for name in needed - found.keys():
        if wanted := _taken_apart(_tree(getattr(cls, method, None)), name):
            makers = [other for other, f in vars(cls).items() if other != method and inspect.isfunction(f)
                      and other[:1] != "_" and any(_has(some, wanted) for some in _put_together(_tree(f)))]  # fmt: skip
            found |= {name: makers[0]} if len(makers) == 1 else {}
    return found


def _taken_apart(tree: ast.AST, name: str) -> frozenset[str]:
    """The places, or the names, by which all that lies in an argument is taken out of it; nothing for an array."""
    nodes = [*ast.walk(tree)]
    for target, value in (pair for node in nodes for pair in assigned(node)):
        if isinstance(target, ast.Tuple) and ast.unparse(value) == name:
            return frozenset(map(str, range(len(target.elts))))
    asked = [n.slice.value for n in nodes if isinstance(n, ast.Subscript) and ast.unparse(n.value) == name
             and isinstance(n.slice, ast.Constant)]  # fmt: skip
    asked += [n.attr for n in nodes if isinstance(n, ast.Attribute) and ast.unparse(n.value) == name]
    return frozenset(text for text in asked if isinstance(text, str))


def _put_together(tree: ast.AST) -> set[frozenset[str]]:
    """The places, or the names, of what a function returns as a tuple, as a dictionary, or as an object."""
    nodes = [*ast.walk(tree)]
    values = [n.value for n in nodes if isinstance(n, ast.Return)]
    tuples = {frozenset(map(str, range(len(x.elts)))) for x in values if isinstance(x, ast.Tuple)}
    found = tuples | {frozenset(str(key.value) for key in x.keys if isinstance(key, ast.Constant)) for x in values
                      if isinstance(x, ast.Dict)}  # fmt: skip
    found |= {frozenset(str(one.arg) for one in x.keywords) for x in values if isinstance(x, ast.Call)}
    # What is returned may have been given its attributes one after the other.
    stored = [n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return found | {frozenset(n.attr for n in stored if ast.unparse(n.value) == x.id) for x in values
                    if isinstance(x, ast.Name)}  # fmt: skip


def _has(some: frozenset[str], wanted: frozenset[str]) -> bool:
    """Whether of what is put together all is taken that is wanted: by its place all that there is, by its name some."""
    return wanted <= some and (len(wanted) == len(some) or not any(text.isdigit() for text in wanted))


def _tree(function: Any) -> ast.Module:
    return parsed(source_of(function)[0])


def _set(tree: ast.AST) -> set[str]:
    """The attributes of the instance that a function sets."""
    return {n.attr for n in ast.walk(tree) if is_own(n) and not isinstance(n.ctx, ast.Load)}  # type: ignore[attr-defined]


@lru_cache(maxsize=64)
def _each(cls: Any, method: str) -> list[tuple[str, str, dict[str, Any]]]:
    # Of two arguments of one name that of the earlier method has another, unless the later is given what it returns.
    names = method.split(THEN)
    hands = {own for own, maker in _handed(cls, names[-1]).items() if maker in names}
    live = _life(cls, names)
    each = [(name, row["name"], row | {"each": name in live[:-1] and lives(cls).adds(name)})
            for name in names for row in rows_of(cls, name)
            if (name != names[-1] or row["name"] not in hands)
            and not (name in live and row["name"] in lives(cls).told[name].names)]  # fmt: skip
    later = {(name, own): {one for n, one, _ in each if names.index(n) > names.index(name)} for name, own, _ in each}
    called = {key: f"{key[1]}_{key[0]}" if key[1] in others and not hands else key[1] for key, others in later.items()}
    return [(name, own, {**row, "name": called[name, own], "kind": "either"} if len(names) > 1 else row)
            for name, own, row in each]  # fmt: skip


def _rows(cls: Any, method: str) -> list[dict[str, Any]]:
    """The arguments of several methods, each once."""
    return [*{row["name"]: row for _, _, row in _each(cls, method)}.values()]


def train(thing: Any, mode: bool) -> None:
    """Into training or out of it, as modules do it or with two methods."""
    if not callable(getattr(thing, "train", None)):
        return
    modules = getattr(thing, "modules", None)
    if callable(modules) and {getattr(m, "training", None) for m in modules()} == {mode}:
        # What is in its mode already may forget what it keeps where it is told again.
        return
    try:
        thing.train(mode)
    except TypeError:
        getattr(thing, "train" if mode else "eval")()


@lru_cache(maxsize=16)
def lives(cls: Any) -> Lives:
    """What the methods of a class keep in its instances."""
    own = {name: f for base in cls.__mro__[::-1] if base.__module__ == cls.__module__ for name, f in vars(base).items()}
    trees = {name: next(iter(_tree(f).body), None) for name, f in own.items() if inspect.isfunction(f)}
    return Lives({name: tree for name, tree in trees.items() if isinstance(tree, ast.FunctionDef)})


def grown(cls: Any) -> set[str]:
    """What the methods of a class put something into, or add to, or make anew of what it was."""
    told = {name: one for name, one in lives(cls).told.items() if name != "__init__"}
    return set().union(*(one.fills | (one.sets & one.reads) for one in told.values()))


def _life(cls: Any, names: Sequence[str]) -> list[str]:
    """The last of some names, where all are an object's life from when it is made, or none."""
    own = [*names[makes(cls, names[0]) :]]
    return own if len(own) > 1 and [*lives(cls).before(own[-1]), own[-1]] == own else []


def several(method: str) -> bool:
    """Whether a name stands for several calls."""
    return THEN in method or method.endswith(AGAIN)


def composed(cls: Any, method: str, thing: Any) -> Callable[..., Any]:
    """Methods of an instance as one function of all their arguments; without an instance, one is made of its own."""
    if method.endswith(AGAIN):
        return _again(thing, method.removesuffix(AGAIN))
    each, names = _each(cls, method), method.split(THEN)
    hands, told = _handed(cls, names[-1]), [row["name"] for row in _rows(cls, method)]
    live = _life(cls, names)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(told, args, strict=False)), **kwargs}
        it, result, kept = thing, None, dict[str, Any]()
        mine = {name: {own: given[row["name"]] for n, own, row in each if n == name and row["name"] in given}
                for name in names}  # fmt: skip
        for name in names[: -len(live) or None]:
            mine[name] |= {own: kept[maker] for own, maker in hands.items() if name == names[-1] and maker in kept}
            made = makes(cls, name)
            result = _born(cls, name, mine[name]) if made else getattr(it, name)(**mine[name])
            it, kept[name] = result if made else it, result
            # What was made is in training, whatever it is made for.
            train(it, not made and getattr(it, "training", False) is True)
        return _lived(it, live, mine) if live else result

    call.__module__ = cls.__module__
    return call


def _again(thing: Any, method: str) -> Callable[..., Any]:
    """A method that a copy of an instance is asked with each part of what is given, as one function.

    What comes before it is called once.
    """
    cls: Any = type(thing)
    rows, (*first, last) = _each(cls, method), method.split(THEN)

    def call(*args: Any, **kwargs: Any) -> Any:
        given, it = (
            {**dict(zip([row["name"] for _, _, row in rows], args, strict=False)), **kwargs},
            copy.deepcopy(thing),
        )

        def own(name: str, part: Mapping[str, Any]) -> dict[str, Any]:
            return {one: part[row["name"]] for n, one, row in rows if n == name and row["name"] in part}

        for name in first:
            getattr(it, name)(**own(name, given))
        return [getattr(it, last)(**part) for part in parted(own(last, given))]

    call.__module__ = cls.__module__
    return call


# For instances of one request by their identity (some have no hash): these, what was told to a copy of each, that copy,
# and the names under which it keeps things.
living: dict[int, tuple[Any, list[Any], Any, list[Any]]] = {}


# What was made last of each class, and of what.
born: dict[Any, tuple[list[Any], Any]] = {}


def _born(cls: Any, name: str, given: Mapping[str, Any]) -> Any:
    """An instance of a class, made of what is given: the one before that was made of the same, with what it keeps."""
    numbers = [plain(x) for x in given.values()]
    if cls not in born or not _alike(numbers, born[cls][0]):
        born[cls] = numbers, cls(**given) if name == MAKE else getattr(cls, name)(**given)
    return born[cls][1]


def _alike(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether all that was given are arrays, and the same ones."""
    return len(some) == len(others) and all(
        x is not None and np.array_equal(x, y) for x, y in zip(some, others, strict=True)
    )


def _apart(part: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same arguments with other numbers in their arrays."""
    arrays = [name for name, x in part.items() if number and getattr(x, "ndim", 0) and plain(x) is not None]
    return {name: x * (1 + number / 8) if name in arrays else x for name, x in part.items()}


def _lived(thing: Any, methods: Sequence[str], given: Mapping[str, Mapping[str, Any]]) -> Any:
    """What a copy of an instance answers that was told what the first methods are given.

    One that was told the same is asked again as it is.
    """
    *first, last = methods
    cls: Any = type(thing)
    told, asked = lives(cls).told, given[last]
    many = any(told[last].names.values())
    names: list[Any] = [*range(next((len(x) for x in asked.values() if getattr(x, "ndim", 0)), 1) if many else 1)]
    parts = {name: parted(given[name]) for name in first}
    # Whole numbers too, such as one of samples.
    numbers = [np.asarray(x) if type(x) is int else plain(x)
               for some in parts.values() for part in some for x in part.values()]  # fmt: skip
    before = living.get(id(thing))
    if before is not None and len(before[3]) == len(names) and _alike(numbers, before[1]):
        *_, it, names = before
    else:
        it = copy.deepcopy(thing)
        for name in first:
            begins, by_name = told[name].begins, told[name].names
            # Under no two names the same numbers are kept.
            results = [getattr(it, name)(**_apart(part, n), **dict.fromkeys(by_name, key))
                       for n, key in enumerate(names if begins or by_name else names[:1])
                       for part in parts[name]]  # fmt: skip
            # What is begun may get its name there.
            names = results if begins and not by_name else names
        living[id(thing)] = thing, numbers, it, names
    keys = {own: names if several else names[0] for own, several in told[last].names.items()}
    return getattr(it, last)(**asked, **keys)
