"""What a call is given, made where the candidate runs of what a request says of it."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import product
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from overt.check.process.arrays import leaves
from overt.check.process.describe import annotated, configs
from overt.check.process.parameters import parameters, widened
from overt.check.text.roles import keeping, role
from overt.check.text.usage import scope, source_of
from overt.errors import ArgumentError

# A number that stands by itself in a name.
_NUMBER = r"(?<![^._/])\d+(?![^._/])"
# The longest name that is learnt, and what it is made of; brackets hold one number or word.
_LONG, _WRITTEN = 120, r"([\w ./:|$@#,*+-]|[\[({<]\w*[\])}>])+"
# Numbers up to this are no sizes in a configuration, but choices.
_SMALL = 4
# What holds no numbers by names that somebody chose.
_PLAIN = (int, float, str, list, dict, type(None))


class Asked(SimpleNamespace):
    """A configuration that knows which argument it is."""

    # No attribute of the configuration.
    __slots__ = ("path",)

    def __init__(self, path: list[str], parts: dict[str, Any]) -> None:
        super().__init__(**parts)
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        """How to copy it, as a namespace does not know its path."""
        return type(self), (self.path, {**vars(self)})


def _changed(config: Any, fields: Mapping[str, Any]) -> Any:
    """The same with other values in some of its fields, and with no numbers of half a width."""
    held = config._asdict() if hasattr(config, "_asdict") else getattr(config, "__dict__", {})
    fields = widened(held) | dict(fields)
    if not fields:
        return config
    if dataclasses.is_dataclass(type(config)):
        return dataclasses.replace(config, **fields)
    return config._replace(**fields) if hasattr(config, "_replace") else SimpleNamespace(**{**vars(config), **fields})


def is_written(name: Any) -> bool:
    """Whether somebody may have written a name: in one line, and no array put into a text."""
    return isinstance(name, str) and len(name) <= _LONG and re.fullmatch(_WRITTEN, name) is not None


class LackedError(KeyError):
    """A name that a dictionary does not have."""

    def __init__(self, name: Any, path: list[str]) -> None:
        super().__init__(name)
        self.path = path


class Lacking(dict):
    """A dictionary that knows which argument it is."""

    def __init__(self, path: list[str], parts: dict[str, Any]) -> None:
        super().__init__(parts)
        self.path = path

    def __missing__(self, name: Any) -> Any:
        # Layers are alike: what one has by its number, each has.
        for other, part in self.items():
            if isinstance(name, str) and re.sub(_NUMBER, "0", name) == other:
                return part
        raise LackedError(name, self.path)


@cache
def _planted(jax: Any) -> None:
    """Make both trees to JAX, as other dictionaries are."""
    for kind, parts_of in ((Asked, vars), (Lacking, dict)):
        jax.tree_util.register_pytree_node(
            kind,
            lambda x, parts_of=parts_of: ((*parts_of(x).values(),), (tuple(x.path), tuple(parts_of(x)))),
            lambda told, parts, kind=kind: kind([*told[0]], dict(zip(told[1], parts, strict=True))),
        )


class Parted(NamedTuple):
    """An array whose parts along an axis are given to one call after the other; rows: without that axis."""

    array: Any
    axis: int
    cuts: tuple[int, ...]
    rows: bool

    def part(self, number: int) -> Any:
        """What one of the calls gets."""
        ends = (0, *self.cuts, self.array.shape[self.axis])
        where: Any = number if self.rows else slice(ends[number], ends[number + 1])
        return self.array[(*[slice(None)] * self.axis, where)]

    @property
    def calls(self) -> int:
        """How many calls share it."""
        return int(self.array.shape[self.axis]) if self.rows else len(self.cuts) + 1


def parted(given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The arguments of several calls, where some are given in parts."""
    many = max((x.calls for x in given.values() if isinstance(x, Parted)), default=1)
    return [{name: x.part(n) if isinstance(x, Parted) else x for name, x in given.items()} for n in range(many)]


class _Drawing(np.random.Generator):
    """What draws numbers by their old names too."""

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":
            return super().__getattribute__(name)
        return getattr(vars(self).setdefault("old", np.random.RandomState(0)), name)


class Giver:
    """Makes arguments of what a request says: arrays by their names, values, and what holds others."""

    def __init__(
        self,
        target: Any,
        library: str,
        array: Callable[[str], Any],
        results: list[Any] | None = None,
        kept: dict[str, Any] | None = None,
        made: dict[str, Any] | None = None,
        run: Callable[..., Any] | None = None,
        thing: tuple[int | None, Any] = (None, None),
    ) -> None:
        """kept: what calls of one request share, filled by the first; made: what the module made, by its request.

        run: calls a function as the library does; thing: what is called, and the number of what it is a copy of.
        """
        self.target, self.library, self.array = target, library, array
        self.results = [] if results is None else results
        self.kept: dict[str, Any] = {} if kept is None else kept
        self.made: dict[str, Any] = {} if made is None else made
        self.run, (self.handle, self.thing) = run, thing
        # of what is a row of an array, by their identities
        self.rows: dict[int, int] = {}

    def each(self, specs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by their names."""
        return {name: self.make(spec) for name, spec in specs.items()}

    def make(self, spec: Mapping[str, Any]) -> Any:
        """One argument."""
        if "jax" in sys.modules:
            _planted(sys.modules["jax"])
        if "parts" in spec:
            return Parted(self.array(spec["array"]), spec["axis"], tuple(spec["parts"]), spec["rows"])
        if "array" in spec:
            return self.array(spec["array"])
        if "own" in spec:
            return _changed(configs(self.target)[spec["own"]], self.each(spec.get("fields", {})))
        if "kept" in spec:
            return self._kept(spec)
        if "by" in spec:
            return self._made(spec)
        if "random" in spec:
            return self._random(spec["random"])
        if "config" in spec:
            return self._configured(spec["path"], self.each(spec["config"]))
        if "function" in spec:
            return _function(spec["function"], self.make(spec["matrix"]) if "matrix" in spec else None)
        if "dict" in spec:
            return Lacking(spec["path"], self.each(spec["dict"])) if "path" in spec else self.each(spec["dict"])
        if "rows" in spec:
            whole: Any = self.make(spec["rows"])
            parts: dict[Any, Any] = whole if isinstance(whole, dict) else dict(enumerate(whole))
            many = max((len(x) for x in parts.values() if hasattr(x, "shape")), default=1)
            rows = [{name: x[n] if hasattr(x, "shape") else x for name, x in parts.items()} for n in range(many)]
            self.rows |= {id(row[name]): id(x) for row in rows for name, x in parts.items() if hasattr(x, "shape")}
            return [Lacking(whole.path, row) if isinstance(whole, Lacking) else (*row.values(),) for row in rows]
        if "sizes" in spec:
            # Those of one map are a tuple, and so are those of each of several.
            each = [tuple(some) if isinstance(some, list) else some for some in spec["sizes"]]
            return each if isinstance(each[0], tuple) else tuple(each)
        if "list" in spec:
            return [self.make(part) for part in spec["list"]]
        if "result" in spec:
            found = self.results[spec["result"]]
            if hasattr(found, "shape"):
                raise ArgumentError("an output keeps nothing beside itself")
            return found if spec.get("item") is None else _item(found, spec["item"])
        return spec["value"]

    def _configured(self, path: list[str], parts: dict[str, Any]) -> Any:
        """A configuration: of the class of its argument, or what lies in that, which knows all but the sizes."""
        name = path[0]
        if name not in self.made:
            self.made[name] = annotated(self.target, name)
        own = self.made[name]
        for field in path[1:]:
            own = getattr(own, field, None)
        if not parts or isinstance(own, _PLAIN):
            # What is private is no size.
            return Asked(path, {field: None if field[:1] == "_" else value for field, value in parts.items()})
        own = _changed(copy.deepcopy(own), {})
        for field, value in parts.items():
            known = getattr(own, field, _SMALL + 1)
            inner = isinstance(value, type(known)) and not isinstance(known, (*_PLAIN, tuple))
            if inner or (type(known) is int and known > _SMALL):
                if hasattr(own, "_replace"):
                    # A named tuple.
                    own = own._replace(**{field: value})
                else:
                    # What is frozen is so for those who use it.
                    object.__setattr__(own, field, value)
        return own

    def _made(self, spec: Mapping[str, Any]) -> Any:
        """What something of the module makes, where it was made before a copy of that."""
        method = spec["by"][0] == "."
        if method and not spec["given"]:
            return getattr(self.thing, spec["by"][1:])()
        own = json.dumps(spec) + f" {self.handle}" * method
        if own not in self.made:
            make = getattr(self.thing, spec["by"][1:]) if method else self._maker(spec["by"])
            given = self.each(spec["given"])
            made = self.run(make, [], given, {}, False) if self.run is not None else make(**given)
            made = made if "blank" in spec else drawn(made, np.random.default_rng(0))
            if hasattr(made, "named_parameters") and callable(getattr(made, "eval", None)):
                # A layer is what was learned, and drops nothing.
                made.eval()
                parameters(made, 1)
                _prepared(made, (*spec.get("asked", ()), *spec.get("called", ())))
            made = _part(made, spec.get("asked", ()))
            if "filled" in spec and hasattr(made, "__dict__"):
                vars(made).update(drawn(vars(made), np.random.default_rng(0)))
            if "lengths" in spec:
                made = _kept_by(made, spec["lengths"])
            elif "empty" in spec:
                _appended(made)
            if '"array"' in own:
                return made
            self.made[own] = made
        # What nobody can write to is no copy.
        fixed = {id(x): x for _, x in leaves(self.made[own]) if hasattr(x, "addressable_shards")}
        return copy.deepcopy(self.made[own], fixed)

    def _maker(self, name: str) -> Any:
        """A function or a class of the module or of a library, or what a class makes one of its own by."""
        owner, _, own = name.partition(".")
        return attrgetter(own)(scope(self.target)[owner]) if own else scope(self.target)[owner]

    def _random(self, kind: str) -> Any:
        """What draws numbers."""
        if kind != "random":
            return sys.modules["flax.nnx"].Rngs(0)
        if self.library == "jax":
            return sys.modules["jax"].random.PRNGKey(0)
        return sys.modules["torch"].Generator() if self.library == "torch" else _Drawing(np.random.PCG64(0))

    def _kept(self, spec: Mapping[str, Any]) -> Any:
        name = spec["kept"]
        if name not in self.kept:
            self.kept[name] = self._holder() if "make" in spec else self._made(spec) if "by" in spec else spec["value"]
        elif self.kept[name] in ({}, []):
            raise ArgumentError("nothing was kept in what is empty")
        return self.kept[name]

    def _holder(self) -> Any:
        """Something that keeps keys: an object of the first class of the candidate's module that needs no arguments."""
        own = self.target if inspect.isclass(self.target) else type(self.target)
        classes = [(name, made) for name, made in scope(self.target).items() if inspect.isclass(made)]
        # Those of libraries that it names are no first choice.
        for name, made in sorted(classes, key=lambda pair: pair[1].__module__ != self.target.__module__):
            if made is not own and name[:1] != "_" and not hasattr(made, "parameters"):
                with suppress(Exception):
                    # What is only declared, or a container of the library, keeps nothing.
                    if any(inspect.isfunction(f) for n, f in vars(made).items() if n[:1] != "_"):
                        return made()
        raise ArgumentError("no class of the module can be made without arguments")


def _part(made: Any, asked: Sequence[str]) -> Any:
    """The first thing in what was made, or that itself, that has all that is asked for; itself where nothing has."""
    todo = deque([made])
    while todo:
        one = todo.popleft()
        held = one if isinstance(one, dict) else getattr(one, "_asdict", lambda one=one: getattr(one, "__dict__", {}))()
        if all(name in held or (not isinstance(one, dict) and hasattr(one, name)) for name in asked):
            return one
        todo += held.values() if held else one if isinstance(one, list | tuple) else ()
    return made


def _prepared(made: Any, asked: Sequence[str]) -> None:
    """Give what was made all that is asked for, where its own methods, which need nothing for that, set it."""
    functions = inspect.getmembers(type(made), inspect.isfunction)
    functions = [(name, f) for name, f in functions if f.__module__ == type(made).__module__]
    own = [(name, source_of(f)[0], inspect.signature(f)) for name, f in functions]
    for wanted in asked:
        for name, source, signature in own:
            free = all(p.default is not p.empty for p in [*signature.parameters.values()][1:])
            if free and not hasattr(made, wanted) and re.search(rf"\bself\.{wanted}\s*(:[^=\n]*)?=[^=]", source):
                with suppress(Exception):
                    getattr(made, name)()


def _arrays(made: Any) -> list[Any]:
    return [x for x in vars(made).values() if getattr(x, "ndim", 0) > 1] if hasattr(made, "__dict__") else []


def _appended(made: Any) -> None:
    """Give what keeps keys and values some of each, by its own method that takes them: all at once, or one by one."""
    stored = _arrays(made)
    for name, method in inspect.getmembers(type(made), inspect.isfunction) if stored else ():
        told = [*inspect.signature(method).parameters][1:]
        if name[:1] == "_" or [role(n, ("k", "v")) for n in told] != ["k", "v"]:
            continue
        random, first = np.random.default_rng(0), stored[0]
        both = first, next((x for x in stored[1:] if x.ndim == first.ndim), first)
        for axis in (None, 1, 0):
            shapes = [x.shape if axis is None else (*x.shape[:axis], *x.shape[axis + 1 :]) for x in both]
            with suppress(Exception):
                # Where there is room for one more, not all of it is full.
                for _ in range(1 if axis is None else max(first.shape[axis] - 1, 1)):
                    getattr(made, name)(*(_random(first, shape, random) for shape in shapes))
                return


def _kept_by(made: Any, lengths: Sequence[int]) -> Any:
    """The same with so many keys and values of each number, by its own method, after what begins one where need be."""
    methods = {name: [*inspect.signature(method).parameters][1:]
               for name, method in inspect.getmembers(type(made), inspect.isfunction)}  # fmt: skip
    stored = _arrays(made)
    for name in [name for name, told in methods.items() if keeping(told) and stored]:
        begins = [None, *(one for one, told in methods.items() if told == methods[name][:1])]
        for begin, axes in product(begins, (2, 1)):
            filled, random = copy.deepcopy(made), np.random.default_rng(0)
            with suppress(Exception):
                for number, length in enumerate(lengths):
                    if begin is not None:
                        getattr(filled, begin)(number)
                    shape = (length, *stored[0].shape[axes:])
                    getattr(filled, name)(number, *(_random(stored[0], shape, random) for _ in "kv"))
                return filled
    return made


def _random(like: Any, shape: Sequence[int], random: np.random.Generator) -> Any:
    """Random numbers of a shape, as another array has them."""
    numbers = random.normal(size=shape).astype(str(like.dtype).rpartition(".")[2])
    return sys.modules["torch"].from_numpy(numbers) if hasattr(like, "detach") else numbers


def _item(found: Any, item: int | str) -> Any:
    """An item of what was returned, by its name or its number, however it holds them."""
    if dataclasses.is_dataclass(found):
        found = {field.name: getattr(found, field.name) for field in dataclasses.fields(found)}
    if isinstance(found, Mapping) and isinstance(item, int) and item not in found:
        return [*found.values()][item]
    return found[item]


def drawn(x: Any, random: np.random.Generator) -> Any:
    """The same with arrays that are one number everywhere, as biases are before they are learned, made unlike it."""
    if isinstance(x, dict):
        return type(x)((name, drawn(part, random)) for name, part in x.items())
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(drawn(part, random) for part in x))
    if isinstance(x, tuple | list):
        return type(x)(drawn(part, random) for part in x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        with suppress(Exception):
            return dataclasses.replace(x, **{n: drawn(part, random) for n, part in vars(x).items()})
    if hasattr(x, "shape") and hasattr(x, "dtype") and len(x.shape) and not hasattr(x, "parameters"):
        with suppress(Exception):
            host = np.asarray(x.detach() if hasattr(x, "detach") else x)
            if host.dtype.kind == "f" and host.size > 1 and np.isfinite(host).all() and np.ptp(host) == 0:
                noise = random.normal(size=host.shape).astype(host.dtype) * 0.3
                return x + (sys.modules["torch"].from_numpy(noise) if hasattr(x, "detach") else noise)
    return x


def _function(kind: str, matrix: Any) -> Any:
    """What a candidate may call: a module where torch is, whose containers take nothing else."""

    def call(x: Any, *more: Any, **named: Any) -> Any:
        if kind == "causal pairs":
            return more[-2] >= more[-1]
        return x if matrix is None else x @ matrix

    torch = sys.modules.get("torch")
    if torch is None or kind == "causal pairs":
        return call
    module = torch.nn.Module()
    if hasattr(matrix, "detach"):
        matrix = module.weight = torch.nn.Parameter(matrix.detach().clone())
    # A class of its own, since modules are called by their class.
    module.__class__ = type(kind.capitalize(), (torch.nn.Module,), {"forward": lambda self, *a, **k: call(*a, **k)})
    return module
