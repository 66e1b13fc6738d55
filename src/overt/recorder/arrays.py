"""NumPy code, recorded by an array that notes what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np

from overt.recorder.operations import Log, einsum_equation

_log: ContextVar[Log | None] = ContextVar("log", default=None)
# Methods that give an array without passing through a ufunc or a function.
_METHODS = (
    "reshape", "transpose", "swapaxes", "squeeze", "astype", "copy", "repeat", "take", "ravel", "flatten", "dot",
    "diagonal", "clip", "cumsum", "__getitem__",
)  # fmt: skip

_REDUCTIONS = {"add.reduce": "sum", "maximum.reduce": "max", "minimum.reduce": "min", "multiply.reduce": "prod"}


class Watched(np.ndarray):
    """An array whose operations are noted.  ``made_by`` is the number of the operation that it came from."""

    made_by: int | None = None

    def __array_finalize__(self, parent: Any) -> None:
        # A view that no method below made is what it views.
        self.made_by = getattr(parent, "made_by", None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        name = _REDUCTIONS.get(name, name)
        targets = {} if out is None else {"out": tuple(_bare(x) for x in out)}
        masked = {key: _bare(x) for key, x in options.items()}
        result = getattr(ufunc, method)(*map(_bare, inputs), **targets, **masked)
        if out is not None and isinstance(out[0], Watched):
            # In place: the array is now what this operation made of it.
            out[0].made_by = _note(name, inputs, result)
            return out[0]
        return _watched(name, inputs, result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        detail = einsum_equation(args) if func is np.einsum else ""
        result = func(*_each(_bare, args), **{name: _each(_bare, x) for name, x in kwargs.items()})
        return _watched(func.__name__, (*args, *kwargs.values()), result, detail)

    def __setitem__(self, index: Any, value: Any) -> None:
        bare = _bare(self)
        bare[_each(_bare, index)] = _bare(value)
        self.made_by = _note("setitem", (self, value), bare)

    @property
    def T(self) -> np.ndarray:  # type: ignore[override]
        """The transpose, noted."""
        return _watched("T", (self,), _bare(self).T)

    @property
    def mT(self) -> np.ndarray:  # type: ignore[override]
        """The transpose of the last two axes, noted."""
        return _watched("mT", (self,), _bare(self).mT)


def _method(name: str) -> Callable[..., Any]:
    own = getattr(np.ndarray, name)

    def call(self: Watched, *args: Any, **kwargs: Any) -> Any:
        result = own(_bare(self), *_each(_bare, args), **{key: _bare(x) for key, x in kwargs.items()})
        return _watched({"__getitem__": "index"}.get(name, name), (self, *args), result)

    call.__name__ = name
    return call


for _name in _METHODS:
    setattr(Watched, _name, _method(_name))


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of NumPy arrays and note what it does; gives its result as plain arrays."""
    token = _log.set(log)
    try:
        watch = _each(_watch, args), {name: _each(_watch, x) for name, x in kwargs.items()}
        return _each(_bare, function(*watch[0], **watch[1]))
    finally:
        _log.reset(token)


def _watch(x: Any) -> Any:
    return x.copy().view(Watched) if type(x) is np.ndarray else x


def _bare(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Watched) else x


def _each(change: Callable[[Any], Any], x: Any) -> Any:
    """A change of every array in tuples, lists and dicts."""
    if type(x) in (tuple, list):
        return type(x)(_each(change, y) for y in x)
    return {key: _each(change, y) for key, y in x.items()} if type(x) is dict else change(x)


def _watched(name: str, inputs: Any, result: Any, detail: str = "") -> Any:
    if type(result) in (tuple, list):
        return type(result)(_watched(name, inputs, x, detail) for x in result)
    if type(result) is not np.ndarray:
        return result
    number = _note(name, inputs, result, detail)
    seen = result.view(Watched)
    seen.made_by = number
    return seen


def _note(name: str, inputs: Any, result: Any, detail: str = "") -> int | None:
    log = _log.get()
    if log is None or not isinstance(result, np.ndarray):
        return None
    found = [x for x in _arrays(inputs) if x.ndim]
    kept = np.array(result)
    operands = tuple(np.array(_bare(x)) for x in found)
    return log.note(name, tuple(getattr(x, "made_by", None) for x in found), operands, kept, kept, detail)


def _arrays(values: Any) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    for x in values:
        if isinstance(x, np.ndarray):
            found.append(x)
        elif type(x) in (tuple, list):
            found += _arrays(x)
    return found
