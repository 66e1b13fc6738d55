"""What the file of a candidate itself calls it with: its own uses are run until one of them comes to the candidate.

Uses are what stands below ``if __name__ == "__main__"``, functions that need no arguments, as tests do, and examples in
documentation.  They may compute, and read: what would write a file, start a process or ask the network is refused.
"""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from math import prod
from types import CodeType
from typing import Any

from overt.check.process.arrays import leaves
from overt.check.process.composing import MAKE, THEN
from overt.check.process.describe import arguments_of
from overt.check.process.watching import plain
from overt.check.text.syntax import parsed
from overt.check.text.usage import definition, scope, source_of

# Seconds for all uses of a candidate, and calls of it that are listened to: what is kept grows from one to the next.
_SECONDS, _CALLS = 8.0, 16
# What reaches past the process, by the beginning of the names that Python has for it.
_OUTSIDE = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.kill", "os.startfile", "shutil.",
    "subprocess.", "socket.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "builtins.input",
)  # fmt: skip
# How deep what is given is looked into.
_DEEP = 6
_refusing = False
_hooked = False


class HeardError(BaseException):
    """The candidate was called."""

    def __init__(self, thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.call = thing, args, kwargs


def overheard(target: Any, method: str | None) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The candidate, or its instance, and the arguments of the largest call that its file makes by itself."""
    own = definition(target)
    module = sys.modules.get(own.__module__ or "")
    if module is None or threading.current_thread() is not threading.main_thread():
        return None
    with _harmless(), spied(target, method, _CALLS) as best:
        for use in _uses(own, module):
            try:
                use()
            except TimeoutError:
                break
            except (HeardError, Exception, SystemExit):
                pass
            if best:
                break
    return best[0].call if best else None


@contextmanager
def spied(target: Any, method: str | None, most: int = 1) -> Iterator[list[HeardError]]:
    """A candidate that tells of its largest call, in place of what it does in the last of so many.

    What was told until then is in the list, also where there are no more calls.
    """
    best, calls = list[HeardError](), 0
    own = definition(target)
    module = sys.modules[own.__module__]
    name = (method or own.__name__).split(THEN)[-1]
    owner, before = (own, inspect.getattr_static(own, name, None)) if inspect.isclass(own) else (module, own)
    if before is None or not callable(before) or name == MAKE:
        yield best
        return

    def spy(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        thing, given = (args[0], args[1:]) if owner is own else (own, args)
        says = _telling([x for _, x in leaves([list(given), kwargs])])
        with suppress(Exception):
            # As it was before the call: a copy has no history.
            thing = copy.deepcopy(thing)
        heard = HeardError(thing, _apart(given), _apart(kwargs))
        result = before(*args, **kwargs)
        if says:
            calls += 1
            if not best or _size(heard.call) > _size(best[0].call):
                best[:] = [heard]
        if calls < most:
            return result
        raise best[0]

    inherited = name not in vars(owner)
    setattr(owner, name, spy)
    try:
        yield best
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _telling(given: list[Any]) -> bool:
    """Whether what is given tells one key from another: numbers, not all of whose rows are alike."""
    if any("Tracer" in type(x).__name__ for x in given):
        # What is only traced has none.
        return False
    arrays = [array for x in given if hasattr(x, "dtype") and (array := plain(x)) is not None]
    rows = [x.reshape(-1, x.shape[-1]) for x in arrays if x.ndim > 1 and x.size]
    return not rows or any((x != x[0]).any() for x in rows)


def _size(x: Any, depth: int = 0) -> int:
    """How many numbers the arrays have that something holds."""
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return prod(map(int, x.shape))
    if isinstance(x, dict | list | tuple):
        parts: Iterable[Any] = x.values() if isinstance(x, dict) else x
    else:
        parts = vars(x).values() if hasattr(x, "__dict__") and not inspect.isroutine(x) else ()
    return sum(_size(part, depth + 1) for part in parts) if depth < _DEEP else 0


def _apart(x: Any) -> Any:
    """A copy of arguments whose arrays have no history."""
    if isinstance(x, dict):
        parts = {name: _apart(part) for name, part in x.items()}
        return parts if type(x) is dict else _kept(x, parts)
    if isinstance(x, list | tuple):
        some = [_apart(part) for part in x]
        return type(x)(*some) if hasattr(x, "_fields") else type(x)(some)
    if hasattr(x, "detach") and hasattr(x, "clone"):
        return x.detach().clone()
    with suppress(Exception):
        return copy.deepcopy(x)
    return x


def _kept(x: Any, parts: dict[Any, Any]) -> Any:
    """A dictionary of a kind of its own, with other parts."""
    made = copy.copy(x)
    made.update(parts)
    return made


@contextmanager
def _harmless() -> Iterator[None]:
    """A time in which nothing is written and nobody asked, and which ends."""
    global _refusing, _hooked
    if not _hooked:
        # There is no way to take it away again.
        sys.addaudithook(_audit)
        _hooked = True
    argv = sys.argv

    def end(*_: Any) -> None:
        raise TimeoutError("a use of its own takes too long")

    handler = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    _refusing, sys.argv = True, [""]
    try:
        yield
    finally:
        _refusing, sys.argv = False, argv
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _refusing:
        return
    how, flags = (args[1] or "", args[2] or 0) if event == "open" else ("", 0)
    writes = set(how) & set("wax+") or flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    writes = writes and args[0] != os.devnull
    if writes or event.startswith(_OUTSIDE):
        raise PermissionError(f"{event} is not for a use that is only overheard")


def users(target: Any) -> list[str]:
    """The names of functions and classes of its module that come to a candidate, the smallest first."""
    own, found = definition(target), {}
    near = scope(target)
    for name, thing in near.items():
        mine = inspect.isfunction(thing) or inspect.isclass(thing)
        if mine and thing is not own and getattr(thing, "__module__", None) == own.__module__:
            codes = [
                f.__code__
                for f in (vars(thing).values() if inspect.isclass(thing) else [thing])
                if inspect.isfunction(f)
            ]
            if any(_comes_to(code, own, near) for code in codes):
                found[name] = len(source_of(thing)[0])
    return sorted(found, key=lambda name: found[name])


def _uses(own: Any, module: Any) -> Iterator[Callable[[], Any]]:
    """What of a module needs no arguments and comes to a candidate."""
    near = vars(module)
    source, _ = source_of(module)
    blocks = [n.body for n in parsed(source).body if isinstance(n, ast.If) and "__name__" in ast.unparse(n.test)]
    told = [inspect.getdoc(thing) or "" for thing in (own, module)]
    examples = "\n".join(one.source for text in told for one in doctest.DocTestParser().get_examples(text))
    for body in [*blocks, parsed(examples).body]:
        if not body:
            continue
        # Names that a function makes are found as its own.
        made = ast.parse("def use(): pass")
        made.body[0].body = copy.deepcopy(body)  # type: ignore[attr-defined]
        here = {**near, "__name__": "__main__"}
        with suppress(SyntaxError, ValueError):
            exec(compile(made, "<a use of its own>", "exec"), here)
            if _comes_to(here["use"].__code__, own, near):
                yield here["use"]
    for function in [*near.values()]:
        if not inspect.isfunction(function) or function.__module__ != module.__name__ or function is own:
            continue
        if not any(row["required"] for row in arguments_of(function)) and _comes_to(function.__code__, own, near):
            yield function


def _comes_to(code: CodeType, own: Any, near: dict[str, Any]) -> bool:
    """Whether code names a candidate, or what of its module does."""
    todo, seen = [code], set[str]()
    while todo:
        one = todo.pop()
        todo += [part for part in one.co_consts if isinstance(part, CodeType)]
        for name in {*one.co_names} - seen:
            seen.add(name)
            other = near.get(name)
            found = [*vars(other).values()] if inspect.isclass(other) else [other]
            todo += [f.__code__ for f in map(inspect.unwrap, filter(callable, found)) if inspect.isfunction(f)]
    return own.__name__ in seen
