"""Whether ``overt check`` says the same of code whose names say nothing: ``python -m benchmarks.renaming [FILE…]``.

Every function, class, argument, attribute, local and global of the candidates gets a name made of random syllables.
Imports, names of libraries and keywords of their calls stay, and so do dunder methods, names that a base class of a
library asks for (``forward``), keys of dictionaries, comments and documentation; where a text names an argument, as in
"mask: True = keep", it names it anew.  No line moves.

The checker may ask then what arguments are: that is a name's to tell.  It is told what their names said, as
``--argument`` does, and must say the same then.  ``--keep-arguments`` leaves their names: what remains is owed to all
others.

The renamed code is run on what the checker ran the original on, and must give the same numbers.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import copy
import functools
import importlib.util
import inspect
import io
import keyword
import math
import random
import re
import signal
import sys
import tempfile
import tokenize
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

import overt
from benchmarks.check import CANDIDATES, names
from overt.check.checking import examine
from overt.check.process.arrays import leaves
from overt.check.process.candidate import Candidate
from overt.check.process.linen import is_linen
from overt.check.process.session import Session
from overt.check.report import Report
from overt.check.text.roles import constructor_role, role
from overt.errors import OvertError

TOLD = ("convention", "risk")
# Tables of the candidates' files, not part of any candidate.
TABLES = {"EXPECTED"}
# The one needs a library of its own, the other is measured by tests/test_check_lines.py.
LEFT_OUT = {"keras_layers", "triples"}
# Attributes that an object of a library may have: after anything but self they are the library's.
LIBRARY = set().union(
    *(
        dir(of)
        for of in (
            torch,
            torch.Tensor,
            torch.nn,
            torch.nn.functional,
            torch.nn.MultiheadAttention(2, 1),
            torch.nn.Linear(1, 1),
            torch.nn.Dropout(),
            np,
            np.ndarray,
            np.random.Generator,
            math,
            dict,
            list,
            str,
            tuple,
            set,
        )
    )
)
# The name of an attribute is a string there.
BY_STRING = {"register_buffer", "register_parameter", "add_module", "getattr", "setattr", "hasattr", "delattr"}
# Calls on an instance, checked from outside, that are made again.
CALLS_COMPARED = 16
# What of a class is called.
METHODS = ("forward", "__call__", "call", "step", "prefill")
# Seconds for one run of the checker on the recorded candidate.
PATIENCE = 10.0


def new_names(seed: int) -> Iterator[str]:
    """Words of three syllables that are no words."""
    chance = random.Random(seed)
    given = set()
    while True:
        word = "".join(chance.choice("bdfgjlnprtvwxz") + chance.choice("aiou") for _ in range(3))
        if word not in given and not keyword.iskeyword(word):
            given.add(word)
            yield word


class Bound(ast.NodeVisitor):
    """The names that a file gives: to variables, to attributes, and what a class or function of its own takes."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.imported: set[str] = set()
        self.variables: set[str] = set()
        self.attributes: set[str] = set()
        # Names that inheritance asks for, and what is given to them.
        self.asked: set[str] = set()
        # Functions and classes of the file, and what holds one of them or an instance.
        self.own: set[str] = set()
        # What a class says that it has, and what a function is given.
        self.fields: set[str] = set()
        self.given: set[str] = set()
        self.firsts: set[str] = set()
        self.classes: list[str] = []

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self.imported |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}

    visit_ImportFrom = visit_Import  # noqa: N815

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        (self.attributes if self.classes else self.variables).add(node.name)
        self.own.add(node.name)
        made = getattr(self.module, node.name, None)
        if isinstance(made, type):
            for base in made.__mro__[1:]:
                if base.__module__ != self.module.__name__:
                    self.asked |= set(dir(base))
            if issubclass(made, torch.nn.Module):
                self.asked |= set(vars(torch.nn.Module()))
        self.classes.append(node.name)
        for statement in node.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            self.fields |= {target.id for target in targets if isinstance(target, ast.Name)}
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self.fields.add(statement.name)
        self.attributes |= self.fields
        self.generic_visit(node)
        self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.own.add(node.name)
        (self.attributes if self.classes else self.variables).add(node.name)
        if self.classes and node.args.args:
            self.firsts.add(node.args.args[0].arg)
        outer, self.classes = self.classes, []
        self.generic_visit(node)
        self.classes = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_arg(self, node: ast.arg) -> None:
        self.variables.add(node.arg)
        self.given.add(node.arg)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.variables.add(node.id)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.variables.add(node.name)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id in self.firsts:
            self.attributes.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in BY_STRING - {"getattr", "hasattr"}:
            constants = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
            self.attributes |= {name for name in constants if isinstance(name, str)}
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        # An instance of a class of the file takes that class's arguments.
        value = node.value
        mentioned = {part.id for part in ast.walk(value) if isinstance(part, ast.Name)}
        if isinstance(value, ast.Call | ast.Lambda) and (mentioned & self.own or isinstance(value, ast.Lambda)):
            for target in node.targets:
                self.own.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
        self.generic_visit(node)


class Places(ast.NodeVisitor):
    """Where a name stands that becomes another: (line, column) → the new one."""

    def __init__(self, bound: Bound, fresh: dict[str, str]) -> None:
        self.bound, self.fresh = bound, fresh
        self.at: dict[tuple[int, int], str] = {}
        # Lines on which every token of a set is renamed: the tree has no columns for these.
        self.tokens: list[tuple[int, int, set[str]]] = []
        self.strings: dict[tuple[int, int], str] = {}

    def variable(self, name: str) -> bool:
        return name in self.fresh and name in self.bound.variables

    def put(self, line: int, column: int, name: str) -> None:
        self.at[line, column] = name

    def visit_Name(self, node: ast.Name) -> None:
        if self.variable(node.id) or (node.id in self.fresh and node.id in self.bound.own):
            self.put(node.lineno, node.col_offset, node.id)

    def visit_arg(self, node: ast.arg) -> None:
        if self.variable(node.arg):
            self.put(node.lineno, node.col_offset, node.arg)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if node.name in self.fresh:
            self.tokens.append((node.lineno, node.lineno, {node.name}))
        self.generic_visit(node)

    visit_ClassDef = visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name in self.fresh:
            self.tokens.append((node.lineno, node.lineno, {node.name}))
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.tokens.append((node.lineno, node.end_lineno or node.lineno, {n for n in node.names if self.variable(n)}))

    visit_Nonlocal = visit_Global  # noqa: N815

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        root: ast.expr = node.value
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        first = isinstance(node.value, ast.Name) and node.value.id in self.bound.firsts
        imported = isinstance(root, ast.Name) and root.id in self.bound.imported
        own = first or (not imported and node.attr not in LIBRARY)
        # A configuration that comes from outside keeps its names.
        if not first and isinstance(node.value, ast.Name) and node.value.id in self.bound.given:
            own = own and node.attr in self.bound.fields
        if own and node.attr in self.fresh and node.attr in self.bound.attributes:
            self.put(node.end_lineno or 0, (node.end_col_offset or 0) - len(node.attr.encode()), node.attr)

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        func = node.func
        called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        if partial := called == "partial" and bool(node.args):
            called = getattr(node.args[0], "attr", getattr(node.args[0], "id", ""))
        root = func
        while isinstance(root, ast.Attribute):
            root = root.value
        outside = isinstance(root, ast.Name) and root.id in self.bound.imported
        if isinstance(func, ast.Attribute) and called in LIBRARY:
            outside = outside or not (isinstance(func.value, ast.Name) and func.value.id in self.bound.firsts)
        # super().__init__(…) and self(…) of a class of the file.
        if called in self.bound.own | {"__init__"} | self.bound.firsts and (not outside or partial):
            for given in node.keywords:
                if given.arg in self.fresh:
                    self.put(given.lineno, given.col_offset, given.arg)
        if called in BY_STRING:
            for arg in node.args[:2]:
                if isinstance(arg, ast.Constant) and arg.value in self.fresh and arg.value in self.bound.attributes:
                    self.strings[arg.lineno, arg.col_offset] = arg.value


def retold(text: str, fresh: dict[str, str], arguments: set[str], own: set[str]) -> str:
    """A comment or documentation, where it explains an argument: "q, k: (B, T, D)", "mask is True", `mask`.

    And all over it what is no word of a language, such as w or n_heads; own: what is documented takes these.
    """
    some = "|".join(sorted(map(re.escape, arguments), key=len, reverse=True))
    if not some:
        return text
    word = rf"(?<![\w.])(?:{some})(?!\w)"
    # A list of names up to a colon, a bracket, "=" or a verb.
    explained = (
        rf"{word}(?:(?:\s*,\s*|\s+and\s+|\s*/\s*)(?:and\s+)?{word})*(?=\s*(?:[:=(\[]|is\b|are\b|has\b|have\b|holds?\b))"
    )
    renamed = re.sub(explained, lambda found: re.sub(word, lambda w: fresh[w[0]], found[0]), text)
    codes = "|".join(re.escape(name) for name in own if re.search("[_0-9]", name) or name in "bcdefghjklmnopqrstuvwxyz")
    return re.sub(rf"(?<=`)(?:{some})(?=`)|(?<![\w.])(?:{codes or '(?!)'})(?!\w)", lambda w: fresh[w[0]], renamed)


def formatted(text: str, fresh: dict[str, str]) -> str:
    """A formatted string, whose variables are renamed inside its braces."""
    inside = re.compile(r"(?<!\{)\{[^{}]*\}")
    words = re.compile(r"(?<![.\w])[^\W\d]\w*")
    return inside.sub(lambda part: words.sub(lambda word: fresh.get(word[0], word[0]), part[0]), text)


def rename(source: str, module: ModuleType, seed: int, *, keep_arguments: bool = False) -> tuple[str, dict[str, str]]:
    """The source with other names, and what became of each.  The module is the source, loaded."""
    tree = ast.parse(source)
    kept = {part.arg for part in ast.walk(tree) if isinstance(part, ast.arg)} if keep_arguments else set()
    bound = Bound(module)
    # Twice: what is given to attributes and instances may stand before the class that it is of.
    bound.visit(tree)
    bound.visit(tree)
    fixed = bound.imported | bound.asked | TABLES | set(dir(builtins)) | kept
    given = sorted(
        name for name in bound.variables | bound.attributes | bound.own if name and not name.startswith("__")
    )
    words = new_names(seed)
    fresh = {name: next(words) for name in given if name not in fixed and not set(name) <= {"_"}}
    places = Places(bound, fresh)
    places.visit(tree)
    arguments = {part.arg for part in ast.walk(tree) if isinstance(part, ast.arg) and part.arg in fresh}
    documented = {
        (body[0].lineno, body[0].col_offset): {one.arg for one in ast.walk(part) if isinstance(one, ast.arg)}
        & arguments
        for part in ast.walk(tree)
        if isinstance(body := getattr(part, "body", None), list) and body and isinstance(body[0], ast.Expr)
        if isinstance(body[0].value, ast.Constant)
    }
    variables = {name: word for name, word in fresh.items() if name in bound.variables}
    lines = source.splitlines(keepends=True)
    changes: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line, column = token.start
        # The tree counts bytes.
        place = line, len(lines[line - 1][:column].encode()) if line <= len(lines) else column
        if token.type == tokenize.NAME:
            spot = places.at.get(place) == token.string
            if spot or any(a <= line <= b and token.string in some for a, b, some in places.tokens):
                changes.append((token.start, token.end, fresh[token.string]))
        elif token.type == tokenize.COMMENT or (token.type == tokenize.STRING and place in documented):
            own = documented.get(place, set())
            changes.append((token.start, token.end, retold(token.string, fresh, arguments, own)))
        elif token.type == tokenize.STRING and re.match(r"[rR]?[fF]", token.string):
            # Up to Python 3.11 a formatted string is one token.
            changes.append((token.start, token.end, formatted(token.string, variables)))
        elif token.type == tokenize.STRING and place in places.strings:
            changes.append((token.start, token.end, repr(fresh[places.strings[place]])))
    for (line, column), (last, end), text in reversed(changes):
        head, tail = lines[line - 1][:column], lines[last - 1][end:]
        lines[line - 1 : last] = [*(head + text + tail).splitlines(keepends=True)]
    return "".join(lines), fresh


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    # What NumPy 2 removed and a lesson uses.
    vars(np)["infty"] = np.inf
    # Dataclasses look their module up.
    sys.modules[name] = loaded
    try:
        spec.loader.exec_module(loaded)
    finally:
        del vars(np)["infty"]
    return loaded


def find(module: ModuleType, dotted: str) -> Any:
    return functools.reduce(getattr, dotted.split("."), module)


def tensors(of: object, seen: set[int] | None = None) -> list[Any]:
    """The arrays that an instance holds, in the order in which they were given to it."""
    seen = set() if seen is None else seen
    if id(of) in seen or isinstance(of, str | bytes | type | ModuleType):
        return []
    seen.add(id(of))
    if isinstance(of, torch.Tensor | np.ndarray):
        return [of]
    if isinstance(of, dict):
        return [one for part in of.values() for one in tensors(part, seen)]
    if isinstance(of, list | tuple | set):
        return [one for part in of for one in tensors(part, seen)]
    return tensors(getattr(of, "__dict__", {}), seen)


def same(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor | np.ndarray):
        if type(a) is not type(b) or a.shape != b.shape or a.dtype != b.dtype:  # type: ignore[attr-defined]
            return False
        x, y = (z.detach().numpy() if isinstance(z, torch.Tensor) else z for z in (a, b))
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"))
    if isinstance(a, dict):
        return len(a) == len(b) and all(map(same, a.values(), b.values()))  # type: ignore[arg-type, attr-defined]
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))  # type: ignore[arg-type]
    if hasattr(a, "__dict__"):
        return same(vars(a), vars(b)) if not callable(a) else True
    return bool(a == b) or a is b or a != a


def traced(x: Any) -> bool:
    """Whether an array in it is one that JAX only follows, which outside has no numbers."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(leaf, jax.core.Tracer) for _, leaf in leaves(x))


class Calls:
    """What the checker called a candidate with."""

    def __init__(self) -> None:
        # The constructor's arguments or None, the arrays held, the method or None, the arguments; those of calls that
        # were made to find out what the arguments are lie apart.
        self.made: list[tuple[Any, list[Any], str | None, tuple[Any, ...], dict[str, Any]]] = []
        self.tried: list[tuple[Any, list[Any], str | None, tuple[Any, ...], dict[str, Any]]] = []
        self.trying = False
        self.depth = 0

    @contextlib.contextmanager
    def told_apart(self) -> Iterator[None]:
        """Know of each call of the checker whether it only looks for one that works."""
        plain = Candidate._call

        def call(candidate: Candidate, thing: Any, one: dict[str, Any], *rest: Any) -> dict[str, Any]:
            self.trying = bool(one.get("guess") or one.get("search"))
            return plain(candidate, thing, one, *rest)

        Candidate._call = call  # type: ignore[method-assign]
        try:
            yield
        finally:
            Candidate._call = plain  # type: ignore[method-assign]

    def wrap(self, function: Callable[..., Any], method: str | None, built: dict[int, Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            made = []
            into = self.tried if self.trying else self.made
            if self.depth == 0 and (self.trying or len(into) < CALLS_COMPARED) and not traced((args, kwargs)):
                try:
                    how = built.get(id(args[0])) if method else None
                    held = [copy.deepcopy(x) for x in tensors(args[0])] if method else []
                    given = copy.deepcopy((args[bool(method) :], kwargs))
                    for x in tensors(given):
                        if isinstance(x, torch.Tensor):
                            # Where a gradient is asked for, a copy may belong to its graph.
                            x.detach_()
                    made.append((how, held, method, *given))
                except (RuntimeError, TypeError):
                    # What a trace follows cannot be copied.
                    pass
            self.depth += 1
            try:
                result = function(*args, **kwargs)
            finally:
                self.depth -= 1
            # What raises with all names alike says nothing.
            into += made
            # The last of what is tried are calls of what it is.
            del self.tried[:-CALLS_COMPARED]
            return result

        return recorded


@contextlib.contextmanager
def recording(module: ModuleType, name: str) -> Iterator[tuple[Any, Calls]]:
    """The candidate, and the calls that are made to it in the meantime."""
    calls, target = Calls(), find(module, name)
    if not isinstance(target, type):
        if callable(target) and hasattr(target, "__code__"):
            target = calls.wrap(target, None, {})
        yield target, calls
        return
    if is_linen(target):
        # Modules of Flax are made anew while JAX traces, of what cannot be copied.
        yield target, calls
        return
    built: dict[int, Any] = {}
    kept = dict(vars(target))

    def constructed(self: Any, *args: Any, **kwargs: Any) -> None:
        built.setdefault(id(self), (copy.deepcopy((args, kwargs)), self))
        calls.depth += 1
        try:
            target.__init__.__wrapped__(self, *args, **kwargs)  # type: ignore[misc]
        finally:
            calls.depth -= 1

    methods = [m for m in METHODS if m in kept]
    try:
        if "__init__" in kept:
            target.__init__ = functools.wraps(kept["__init__"])(constructed)  # type: ignore[misc]
        for method in methods:
            setattr(target, method, calls.wrap(kept[method], method, built))
        yield target, calls
    finally:
        for method in {*methods, "__init__"} & kept.keys():
            setattr(target, method, kept[method])


def seed(number: int) -> None:
    torch.manual_seed(number)
    np.random.seed(number)  # noqa: NPY002 (what a candidate draws from)
    random.seed(number)


def drawn(make: Callable[[], Any]) -> list[bool]:
    """Of the arrays that an instance holds, which are weights: parameters, and what another seed makes another."""
    made = []
    for number in (1, 0):
        seed(number)
        made.append(tensors(make()))
    return [isinstance(y, torch.nn.Parameter) or not same(x, y) for x, y in zip(*made, strict=True)]


def answer(target: Any, call: tuple[Any, ...], fresh: dict[str, str], *, computed: bool = False) -> Any:
    """What the target gives for a recorded call, or the type of what it raises.

    computed: what it holds and did not draw is what its constructor computes, and not what was recorded.
    """
    how, held, method, args, kwargs = copy.deepcopy(call[0] and call[0][0]), *copy.deepcopy(call[1:])
    named = {fresh.get(k, k): v for k, v in kwargs.items()}
    seed(0)
    try:
        with torch.no_grad():
            if method is None:
                return target(*args, **named)
            instance, weights = target, [True] * len(held)
            if isinstance(target, type):
                first, second = how or ((), {})
                make = functools.partial(target, *first, **{fresh.get(k, k): v for k, v in second.items()})
                instance = make()
                weights = drawn(make) if computed else weights
            if isinstance(instance, torch.nn.Module) and any(x.dtype == torch.float64 for x in held):
                instance.double()
            own = tensors(instance)
            if len(own) != len(held):
                return "another state"
            for to, value in (pair[:2] for pair in zip(own, held, weights, strict=True) if pair[2]):
                if to.shape != value.shape:
                    return "another state"
                if isinstance(to, torch.Tensor):
                    to.data = value.data.clone()
                else:
                    to[...] = value
            if isinstance(instance, torch.nn.Module):
                instance.eval()
            return getattr(instance, fresh.get(method, method))(*args, **named)
    except Exception as error:
        if isinstance(error, AttributeError | TypeError | NameError):
            return f"{type(error).__name__}"
        return type(error).__name__


def verdict(report: Report | None) -> tuple[bool | None, frozenset[str]]:
    if report is None:
        return None, frozenset()
    return report.ok, frozenset(f.id for f in report.findings if f.kind not in TOLD)


def told(session: Session, target: str, arguments: dict[str, str] | None = None) -> tuple[Report | None, str]:
    try:
        return examine(session, target, arguments=arguments), ""
    except OvertError as error:
        return None, str(error)


class TooLong(BaseException):
    """What does not end."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def calls_of(module: ModuleType, name: str) -> list[tuple[Any, ...]]:
    """What the checker calls a candidate with; of a part of attention, or where that is all, what it tries last."""
    part = False
    quiet = contextlib.redirect_stdout(io.StringIO())
    within = contextlib.suppress(OvertError, TooLong), limited(PATIENCE)
    with recording(module, name) as (target, calls), quiet, calls.told_apart(), within[0], within[1]:
        part = "kind" in overt.check(target, isolate=False).convention
    return calls.tried if part or not calls.made else calls.made


def differs(path: Path, module: ModuleType, renamed: ModuleType, name: str, fresh: dict[str, str]) -> str | None:
    """Why the renamed candidate does not compute the same, or "" where nothing could be compared."""
    if not (calls := calls_of(module, name)):
        return ""
    other = find(renamed, ".".join(fresh.get(part, part) for part in name.split(".")))
    for call in calls:
        before, after = answer(find(module, name), call, {}), answer(other, call, fresh)
        if not same(before, after):
            return f"{before!r:.60} became {after!r:.60}"
    return None


def renamed_file(
    path: Path, seed: int, into: Path, *, keep_arguments: bool = False
) -> tuple[Path, ModuleType, ModuleType, dict[str, str]]:
    """The file and its renamed copy, loaded, and the new names."""
    module = load(path, f"{path.stem}_{seed}_original")
    text, fresh = rename(path.read_text(), module, seed, keep_arguments=keep_arguments)
    copied = into / f"{next(new_names(zlib.crc32(path.stem.encode())))}.py"
    copied.write_text(text)
    return copied, module, load(copied, copied.stem), fresh


def compare(
    session: Session, path: Path, candidates: list[str], seed: int, into: Path, *, keep_arguments: bool = False
) -> Iterator[tuple[str, str, str]]:
    """For each candidate its name, what happened (same, asked, verdict, changed) and the words.

    asked: it says the same when it is told what the arguments are that it asks for.
    """
    copied, module, renamed, fresh = renamed_file(path, seed, into, keep_arguments=keep_arguments)
    for name in candidates:
        if why := differs(path, module, renamed, name, fresh):
            yield name, "changed", why
            continue
        before, _ = told(session, f"{path}:{name}")
        other = f"{copied}:{'.'.join(fresh.get(part, part) for part in name.split('.'))}"
        after, error = told(session, other)
        if verdict(before) == verdict(after):
            yield name, "same", ""
            continue
        arguments = {fresh[old]: meant for old, meant in roles(find(module, name)).items() if old in fresh}
        if after is not None:
            arguments = {name: arguments[name] for name in asked(after) & arguments.keys()}
        again, _ = told(session, other, arguments) if arguments else (after, "")
        if arguments and verdict(before) == verdict(again):
            yield name, "asked", error or ", ".join(f"{new} is {meant}" for new, meant in arguments.items())
        else:
            was, now = (" ".join(sorted(verdict(r)[1])) or "right" for r in (before, again))
            yield name, "verdict", f"{was} → {error if again is None else now}"


def asked(report: Report) -> set[str]:
    """The arguments that it would be told of."""
    entries = (entry.step for entry in report.ledger if "--argument" in entry.why)
    return {step.removeprefix("argument ") for step in entries}


def roles(target: Any) -> dict[str, str]:
    """What the names of a candidate's arguments say that they are."""
    found: dict[str, str] = {}
    for called in (target, *(getattr(target, method, None) for method in METHODS if isinstance(target, type))):
        with contextlib.suppress(TypeError, ValueError):
            means = constructor_role if isinstance(called, type) else role
            names = inspect.signature(called).parameters if called is not None else ()
            found |= {name: meant for name in names if (meant := means(name))}
    return found


def candidates() -> list[tuple[Path, str]]:
    """Every candidate of the tests but the layers of Keras, which ask for a name for everything."""
    return [(p, n) for p in sorted(CANDIDATES.glob("*.py")) if p.stem not in LEFT_OUT for n in names(p)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="files with a table EXPECTED; all of the tests' without")
    parser.add_argument("--seed", type=int, default=zlib.crc32(b"renaming"))
    parser.add_argument("--keep-arguments", action="store_true", help="rename all but arguments")
    parser.add_argument("--list", action="store_true", help="name what is not the same")
    options = parser.parse_args()
    files = options.files or sorted({path for path, _ in candidates()})
    print(f"seed {options.seed}\n")
    print(f"{'candidates':20s} {'number':>7s} {'same':>7s} {'asked':>7s} {'verdict':>7s} {'changed':>7s}")
    total: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            with Session() as session:
                found = list(
                    compare(
                        session,
                        path,
                        names(path),
                        options.seed,
                        Path(folder),
                        keep_arguments=options.keep_arguments,
                    )
                )
            count = {kind: sum(f[1] == kind for f in found) for kind in ("same", "asked", "verdict", "changed")}
            total = {kind: total.get(kind, 0) + count[kind] for kind in count}
            print(f"{path.stem:20s} {len(found):7d} {' '.join(f'{n:7d}' for n in count.values())}", flush=True)
            for name, kind, words in found if options.list else ():
                if kind != "same":
                    print(f"  {name}: {kind}: {words}")
    number = sum(total.values())
    print(f"{'all':20s} {number:7d} {' '.join(f'{n:7d}' for n in total.values())}")
    share = f"{total['same'] / (number - total['changed']):.1%}"
    print(f"\nthe same verdict of {share}; another verdict of {total['verdict']}, the others were asked about")


if __name__ == "__main__":
    main()
