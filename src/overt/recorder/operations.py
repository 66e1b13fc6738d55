"""What somebody's code computed: its operations in order, with their values and the lines that made them."""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np

from overt.errors import ArgumentError
from overt.grid import Array

# Lines of these libraries are nobody's own code.
_LIBRARIES = {"overt", "numpy", "torch", "jax", "jaxlib", "keras", "einops", "contextlib", "functools", "threading"}


@dataclass(frozen=True)
class Line:
    """A line of source code."""

    file: str
    number: int
    # where its function was called; None where it is not known
    caller: Line | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The code itself, where it can be found."""
        return linecache.getline(self.file, self.number).strip()


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation: its name, the numbers of the operations whose results it took, its result and its line.

    ``sources`` has an entry for each array among the arguments, in their order: None where nobody computed it, as with
    arguments and parameters, and then ``origins`` says which it is: "argument 0", "parameter weight", or "" for a
    constant.  ``operands`` are their values, and ``detail`` what else tells operations apart, such as the equation of
    an einsum; ``options`` are the arguments of a fused attention by name.
    """

    name: str
    sources: tuple[int | None, ...]
    operands: tuple[np.ndarray, ...]
    array: Array
    host: np.ndarray
    line: Line | None
    detail: str = ""
    origins: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Log:
    """Operations in order, while they are noted; no more than ``limit``, where there is one."""

    operations: list[Operation] = field(default_factory=list)
    limit: int | None = None
    # what was written into memory that other arrays may view, by its place
    written: dict[int, list[int]] = field(default_factory=dict)

    def note(
        self,
        name: str,
        sources: tuple[int | None, ...],
        operands: tuple[np.ndarray, ...],
        array: Array,
        host: np.ndarray,
        detail: str = "",
        line: Line | None = None,
        origins: tuple[str, ...] = (),
        options: Mapping[str, Any] | None = None,
    ) -> int:
        """Add an operation; gives its number.  Raises ArgumentError beyond the limit."""
        if self.limit is not None and len(self.operations) >= self.limit:
            raise ArgumentError(f"the code does more than {self.limit} operations on arrays: give it smaller ones")
        where = line or current_line()
        origins = origins or ("",) * len(sources)
        made = Operation(name.strip("_"), sources, operands, array, host, where, detail, origins, options or {})
        self.operations.append(made)
        return len(self.operations) - 1

    def latest(self, number: int | None, memory: int, keep: Callable[[], tuple[Array, np.ndarray]]) -> int | None:
        """The operation that numbers came from, with all that was written into their memory since."""
        since = [n for n in self.written.get(memory, ()) if number is None or n > number]
        if not since:
            return number
        parts = [n for n in (number, *since) if n is not None]
        return self.note("written", tuple(parts), tuple(self.operations[n].host for n in parts), *keep())


def current_line() -> Line | None:
    """The innermost line that is no library's, and the one that called its function, which may tell two apart."""
    frame = _own_frame(sys._getframe(1))
    if frame is None:
        return None
    outer = _own_frame(frame.f_back)
    while outer is not None and _function(outer) == _function(frame):
        outer = _own_frame(outer.f_back)
    caller = None if outer is None else Line(outer.f_code.co_filename, outer.f_lineno)
    return Line(frame.f_code.co_filename, frame.f_lineno, caller)


def _own_frame(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_own(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _function(frame: FrameType) -> str:
    """The function of a frame, or the one in which its comprehension stands."""
    return frame.f_code.co_qualname.partition(".<locals>.<")[0]


def is_own(module: str) -> bool:
    """Whether a module is somebody's own code."""
    return module.partition(".")[0] not in _LIBRARIES


def einsum_equation(args: tuple[Any, ...]) -> str:
    """The equation of an einsum, if it is written as one."""
    return args[0].replace(" ", "") if args and isinstance(args[0], str) else ""


def leaves(x: Any) -> list[Any]:
    """What lies in tuples, lists, dicts, dataclasses and namespaces, by whose order arguments are numbered."""
    if isinstance(x, SimpleNamespace):
        x = list(vars(x).values())
    elif isinstance(x, dict):
        x = list(x.values())
    elif is_dataclass(x) and not isinstance(x, type):
        held = [leaf for part in fields(x) for leaf in leaves(getattr(x, part.name))]
        return [*held, x] if _makes_more(x) else held
    return [leaf for y in x for leaf in leaves(y)] if isinstance(x, tuple | list) else [x]


def _makes_more(x: Any) -> bool:
    """Whether an object of fields holds more than these, which it made itself."""
    return bool(vars(x).keys() - {part.name for part in fields(x)}) if hasattr(x, "__dict__") else False


def holds(x: Any) -> bool:
    """Whether something is an object of somebody's own class, or of none, that is only there to hold others."""
    own = isinstance(x, SimpleNamespace) or is_own(type(x).__module__)
    plain = own and hasattr(x, "__dict__") and not (callable(x) or hasattr(x, "shape"))
    plain = plain and (not is_dataclass(x) or _makes_more(x))
    return plain and type(x).__module__ not in sys.builtin_module_names


def drained(function: Callable[..., Any]) -> Callable[..., Any]:
    """What yields its results one by one gives all of them, and what is awaited is run to its end."""
    given: Any = function
    own = given if inspect.isroutine(given) else getattr(given, "forward", given.__call__)

    def all_of(*args: Any, **kwargs: Any) -> Any:
        return list(function(*args, **kwargs))

    def awaited(*args: Any, **kwargs: Any) -> Any:
        import asyncio

        # The loop of a notebook, or of who is awaited and asks, waits meanwhile.
        waiting = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return asyncio.run(function(*args, **kwargs))
        finally:
            asyncio._set_running_loop(waiting)

    return all_of if inspect.isgeneratorfunction(own) else awaited if inspect.iscoroutinefunction(own) else function
