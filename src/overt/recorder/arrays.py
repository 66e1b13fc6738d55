"""NumPy code, recorded by an array that notes what is done with it."""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from overt.recorder.operations import Log, einsum_equation, holds, leaves


@dataclass(eq=False)
class _Run:
    """One recording: its log, and what is given by memory."""

    log: Log
    given: dict[int, str] = field(default_factory=dict)
    # Held on to, so that no other array gets the same memory.
    kept: list[Any] = field(default_factory=list)


_run: ContextVar[_Run | None] = ContextVar("run", default=None)
# Methods that give an array without passing through a ufunc or a function.
_METHODS = (
    "reshape", "transpose", "swapaxes", "squeeze", "astype", "copy", "repeat", "take", "ravel", "flatten", "dot",
    "diagonal", "clip", "cumsum", "__getitem__",
)  # fmt: skip

_REDUCTIONS = {"add.reduce": "sum", "maximum.reduce": "max", "minimum.reduce": "min", "multiply.reduce": "prod"}
# Functions that change their first argument.
_WRITERS = {"copyto", "put", "fill_diagonal", "put_along_axis", "place", "putmask"}
# What makes an array of something else than arrays, so that NumPy asks none of them.
_MAKERS = {
    "array", "asarray", "asanyarray", "ascontiguousarray", "zeros", "ones", "empty", "full", "eye",
}  # fmt: skip


class Watched(np.ndarray):
    """An array whose operations are noted.  ``made_by`` is the number of the operation that it came from."""

    made_by: int | None = None

    def __array_finalize__(self, parent: Any) -> None:
        # A view that no method below made is what it views.
        self.made_by = getattr(parent, "made_by", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        name = _REDUCTIONS.get(name, name)
        taken = _taken(inputs)
        if method == "at":
            ufunc.at(*map(_bare, inputs))
            _write(name, taken, inputs[0])
            return None
        targets = {} if out is None else {"out": tuple(_bare(x) for x in out)}
        masked = {key: _bare(x) for key, x in options.items()}
        result = getattr(ufunc, method)(*map(_bare, inputs), **targets, **masked)
        if out is not None:
            _write(name, taken, out[0])
            return out[0]
        return _watched(name, taken, result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        detail = einsum_equation(args) if func is np.einsum else ""
        taken = _taken((*args, *kwargs.values()))
        result = func(*_each(_bare, args), **{name: _each(_bare, x) for name, x in kwargs.items()})
        target = kwargs.get("out")
        if target is not None or func.__name__ in _WRITERS:
            _write(func.__name__, taken, args[0] if target is None else target)
            return result if target is None else target
        return _watched(func.__name__, taken, result, detail)

    def __setitem__(self, index: Any, value: Any) -> None:
        # Which cells they are is an operand too, where an array says it.
        taken = _taken((self, value, [x for x in _arrays((index,)) if x.dtype.kind == "b"]))
        _bare(self)[_each(_bare, index)] = _each(_bare, value)
        _write("setitem", taken, self)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def tolist(self) -> Any:
        """Numbers of Python; that they were taken is noted, as masks are told by it."""
        _note("tolist", _taken((self,)), _bare(self))
        return _bare(self).tolist()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(_bare(self)[()])

    @property
    def T(self) -> np.ndarray:  # type: ignore[override]
        """The transpose, noted."""
        return _watched("T", _taken((self,)), _bare(self).T)

    @property
    def mT(self) -> np.ndarray:  # type: ignore[override]
        """The transpose of the last two axes, noted."""
        return _watched("mT", _taken((self,)), _bare(self).mT)


def _method(name: str) -> Callable[..., Any]:
    own = getattr(np.ndarray, name)

    def call(self: Watched, *args: Any, **kwargs: Any) -> Any:
        taken = _taken((self, *args))
        result = own(_bare(self), *_each(_bare, args), **{key: _bare(x) for key, x in kwargs.items()})
        # Where numbers lay is needed to know them again.
        at = {"at": args[0]} if name == "__getitem__" and _plain(args[0]) else None
        return _watched({"__getitem__": "index"}.get(name, name), taken, result, options=at)

    call.__name__ = name
    return call


def _plain(index: Any) -> bool:
    """Whether an index is made of whole numbers and slices alone."""
    parts = index if type(index) is tuple else (index,)
    return all(type(x) in (int, slice, type(None), type(Ellipsis)) or isinstance(x, np.integer) for x in parts)


def _number(name: str) -> Callable[..., Any]:
    """In place, but for numbers: ``z = m; z += 1`` leaves m alone, also where both are arrays without axes here."""
    own, plain = getattr(np.ndarray, name), getattr(np.ndarray, name.replace("__i", "__", 1))

    def call(self: Watched, other: Any) -> Any:
        return own(self, other) if self.ndim else plain(self, other)

    return call


for _name in _METHODS:
    setattr(Watched, _name, _method(_name))
for _name in ("__iadd__", "__isub__", "__imul__", "__itruediv__"):
    setattr(Watched, _name, _number(_name))


# Functions of math, and what NumPy calls the same.
_MATH = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sqrt": "sqrt", "pow": "power", "tanh": "tanh", "sin": "sin", "cos": "cos", "sinh": "sinh", "cosh": "cosh",
    "fabs": "absolute", "erf": "erf", "hypot": "hypot", "fmod": "fmod", "atan2": "arctan2", "fsum": "add",
    "prod": "multiply",
}  # fmt: skip
_OF_MANY = {"fsum", "prod"}


class _Math(ModuleType):
    """The module math as somebody's module sees it: functions of watched numbers give watched ones."""

    def __init__(self) -> None:
        super().__init__("math")

    def __getattr__(self, name: str) -> Any:
        return _calculator(name) if name in _MATH else getattr(math, name)


def _calculator(name: str) -> Callable[..., Any]:
    own = getattr(math, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if args and name in _OF_MANY:
            args = (list(args[0]), *args[1:])
        watched = _run.get() is not None and any(isinstance(x, Watched) for x in leaves(args))
        result = own(*args, **kwargs)
        return _watched(_MATH[name], _taken(args), np.asarray(result)) if watched else result

    call.__name__ = name
    return call


class _Floats(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, float) or _is_number(x)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, float)


class _Float(float, metaclass=_Floats):
    """The class float as somebody's module sees it: a watched number stays one."""

    # By this NumPy knows the type of numbers that is meant.
    dtype = np.dtype(float)

    def __new__(cls, x: Any = 0.0) -> Any:
        """The number itself, where it is watched."""
        return x if _is_number(x) else float(x)


def _is_number(x: Any) -> bool:
    return isinstance(x, Watched) and not x.ndim and x.dtype.kind == "f"


def _uses(scope: Mapping[str, Any], name: str) -> bool:
    """Whether functions of a module, or methods of its classes, use a builtin by its name."""
    if name in scope:
        return False
    classes = [vars(x) for x in scope.values() if isinstance(x, type) and x.__module__ == scope.get("__name__")]
    code: list[Any] = [getattr(x, "__code__", None) for part in (scope, *classes) for x in part.values()
                       if isinstance(x, FunctionType) and x.__globals__ is scope]  # fmt: skip
    while code:
        one = code.pop()
        if isinstance(one, CodeType):
            if name in one.co_names:
                return True
            code += one.co_consts
    return False


class _Proxy(ModuleType):
    """NumPy as somebody's module sees it: what makes arrays makes watched ones."""

    def __init__(self) -> None:
        super().__init__("numpy")

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return _maker(found) if name in _MAKERS else found


def _maker(own: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        if _run.get() is None:
            return own(*args, **kwargs)
        taken = _taken((*args, *kwargs.values()))
        result = own(*_each(_bare, args), **{key: _each(_bare, x) for key, x in kwargs.items()})
        if any(source is not None for _, source, _ in taken):
            return _watched(own.__name__, taken, result)
        return result.view(Watched) if type(result) is np.ndarray else result

    make.__name__ = own.__name__
    return make


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of NumPy arrays and note what it does; gives its result as plain arrays."""
    current = _Run(log)
    things = [function, *(x for x in (*args, *kwargs.values()) if holds(x))]
    held = [place for thing in things for place in _held(thing)]
    for place in held:
        current.given[_memory(place.array)] = f"parameter {place.path}"
    watch = _each(_watch, args), {name: _each(_watch, x) for name, x in kwargs.items()}
    # What lies in objects is counted after what is given by itself.
    given = [*_arrays(watch), *(place.array for thing in things[1:] for place in _held(thing))]
    for number, x in reversed([*enumerate(given)]):
        current.given[_memory(x)] = f"argument {number}"
    token = _run.set(current)
    # An argument that the module has too is one array.
    same = {id(x): y for x, y in zip(_arrays((args, kwargs)), _arrays(watch), strict=True)}
    try:
        with _proxied(function, same), _lent(things, held):
            return _each(_bare, function(*watch[0], **watch[1]))
    finally:
        _run.reset(token)


# Things that are looked into for arrays.
_MOST_HELD = 10_000


class _Place(NamedTuple):
    """Where an array lies: the dictionary or list, its key there, and the names that lead to it."""

    inside: Any
    key: Any
    path: str
    array: np.ndarray


def _held(function: Any) -> Iterator[_Place]:
    """Arrays in what a function, or the object of a method, holds on to."""
    cells = getattr(getattr(function, "__func__", function), "__closure__", None) or ()
    waiting = [("", cell.cell_contents) for cell in cells if _filled(cell)]
    waiting.append(("", getattr(function, "__self__", function)))
    seen: set[int] = set()
    while waiting and len(seen) < _MOST_HELD:
        path, thing = waiting.pop()
        library = type(thing).__module__.startswith("overt.") and not isinstance(thing, SimpleNamespace | dict)
        if id(thing) in seen or isinstance(thing, ModuleType | type) or library:
            continue
        seen.add(id(thing))
        inside = thing if isinstance(thing, dict | list | tuple) else getattr(thing, "__dict__", None)
        if not isinstance(inside, dict | list | tuple):
            continue
        for key, x in list(inside.items() if isinstance(inside, dict) else enumerate(inside)):
            name = f"{path}.{key}" if path else str(key)
            if type(x) not in (np.ndarray, Watched):
                waiting.append((name, x))
            elif not isinstance(inside, tuple):
                yield _Place(inside, key, name, x)


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


@contextmanager
def _lent(things: Sequence[Any], held: Sequence[_Place]) -> Iterator[None]:
    """What functions and objects hold is watched meanwhile: an array that is asked by another would tell nobody."""
    same = {}
    try:
        for place in held:
            place.inside[place.key] = seen = place.array.view(Watched)
            same[id(seen)] = seen, place.array
        yield
    finally:
        # What it holds now may be other arrays.
        for place in [place for thing in things for place in _held(thing)]:
            place.inside[place.key] = same[id(place.array)][1] if id(place.array) in same else _bare(place.array)


@contextmanager
def _proxied(function: Any, same: Mapping[int, np.ndarray]) -> Iterator[None]:
    """In the module of a function, or of an object's class, NumPy makes watched arrays, and those there are watched."""
    code = function if hasattr(function, "__globals__") else getattr(function, "__func__", None)
    if code is None:
        code = type(function).__call__ if callable(function) else None
    scopes = [getattr(code, "__globals__", {})]
    # What stands for a function of another module says so.
    module = sys.modules.get(getattr(function, "__module__", None) or type(function).__module__)
    if module is not None and vars(module) is not scopes[0] and module.__name__.partition(".")[0] != "numpy":
        scopes.append(vars(module))
    made: dict[int, Any] = {id(np): _Proxy(), id(math): _Math()}
    made |= {id(own): _maker(own) for own in (getattr(np, name) for name in _MAKERS)}
    made |= {id(getattr(math, name)): _calculator(name) for name in _MATH if hasattr(math, name)}
    saved = [{name: x for name, x in scope.items() if id(x) in made or type(x) is np.ndarray} for scope in scopes]
    floats = [scope for scope in scopes if _uses(scope, "float")]
    for scope, found in zip(scopes, saved, strict=True):
        scope.update({name: made[id(x)] if id(x) in made else same.get(id(x), x.view(Watched))
                      for name, x in found.items()})  # fmt: skip
    for scope in floats:
        scope["float"] = _Float
    try:
        yield
    finally:
        for scope in floats:
            if scope.get("float") is _Float:
                del scope["float"]
        for scope, found in zip(scopes, saved, strict=True):
            scope.update(found)


def _watch(x: Any) -> Any:
    return x.copy().view(Watched) if type(x) is np.ndarray else x


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Watched) else x


def _each(change: Callable[[Any], Any], x: Any) -> Any:
    """A change of every array in tuples, lists and dicts."""
    if type(x) in (tuple, list):
        return type(x)(_each(change, y) for y in x)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*(_each(change, y) for y in x))
    if isinstance(x, dict):
        changed = copy.copy(x)
        changed.update({key: _each(change, y) for key, y in x.items()})
        return changed
    return change(x)


_Taken = list[tuple[np.ndarray, int | None, str]]


def _taken(inputs: Any) -> _Taken:
    """The arrays among arguments as they are now, with the operations that they came from, or what else they are."""
    current = _run.get()
    if current is None:
        return []
    found: _Taken = []
    for x in _arrays(inputs):
        source = _source(x, current)
        given = "" if source is not None else current.given.get(_memory(x), "")
        # A number that is given picks something where it is a whole one.
        if x.ndim or source is not None or (given and x.dtype.kind in "iu"):
            found.append((np.array(_bare(x)), source, given))
    return found


def _source(x: np.ndarray, current: _Run) -> int | None:
    number = current.log.latest(getattr(x, "made_by", None), _memory(x), lambda: (np.array(_bare(x)),) * 2)
    if isinstance(x, Watched):
        x.made_by = number
    return number


def _memory(x: np.ndarray) -> int:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return int(x.__array_interface__["data"][0])


def _watched(name: str, taken: _Taken, result: Any, detail: str = "", options: Mapping[str, Any] | None = None) -> Any:
    if isinstance(result, tuple | list):
        return _sequence(name, taken, result, detail)
    if isinstance(result, np.floating):
        # Numbers too, or what loops compute could not be followed.
        result = np.asarray(result)
    if type(result) is not np.ndarray:
        return result
    number = _note(name, taken, result, detail, options)
    seen = result.view(Watched)
    seen.made_by = number
    return seen


def _sequence(name: str, taken: _Taken, result: Any, detail: str) -> Any:
    parts = [_watched(name, taken, x, detail) for x in result]
    return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)


def _write(name: str, taken: _Taken, target: Any) -> None:
    """Note that an operation left its result in an array that was there."""
    current = _run.get()
    if current is None or not isinstance(target, np.ndarray):
        return
    number = _note(name, taken, _bare(target), "")
    if number is not None:
        current.log.written.setdefault(_memory(target), []).append(number)
        if isinstance(target, Watched):
            target.made_by = number


def _note(
    name: str, taken: _Taken, result: np.ndarray, detail: str = "", options: Mapping[str, Any] | None = None
) -> int | None:
    current = _run.get()
    if current is None:
        return None
    current.kept.append(result)
    kept = np.array(result)
    operands, sources, origins = tuple(zip(*taken, strict=True)) if taken else ((), (), ())
    return current.log.note(name, sources, operands, kept, kept, detail, None, origins, options)


def _arrays(values: Any) -> list[np.ndarray]:
    return [x for x in leaves(values) if isinstance(x, np.ndarray)]
