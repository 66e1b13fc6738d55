"""What the file of a candidate itself calls it with: its own uses are run until one of them comes to the candidate.

Uses are what stands below ``if __name__ == "__main__"``, functions that need no arguments, as tests do, and examples in
documentation.  They may compute, and read: what would write a file, start a process or ask the network is refused.
"""

from __future__ import annotations

import ast
import copy
import doctest
import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import CodeType
from typing import Any

from overt.check.arrays import leaves
from overt.check.composing import MAKE, THEN
from overt.check.describe import arguments_of
from overt.check.syntax import parsed
from overt.check.usage import definition, source_of

# Seconds for all uses of a candidate.
_SECONDS = 8.0
# What reaches past the process, by the beginning of the names that Python has for it.
_OUTSIDE = (
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.truncate",
    "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.kill", "os.startfile", "shutil.",
    "subprocess.", "socket.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "builtins.input",
)  # fmt: skip
_refusing = False
_hooked = False


class HeardError(BaseException):
    """The candidate was called."""

    def __init__(self, thing: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.call = thing, args, kwargs


def overheard(target: Any, method: str | None) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """The candidate, or its instance, and the arguments of the first call that its file makes by itself."""
    own = definition(target)
    module = sys.modules.get(own.__module__ or "")
    if module is None or threading.current_thread() is not threading.main_thread():
        return None
    with _harmless(), _spied(own, method, module):
        for use in _uses(own, module):
            try:
                use()
            except HeardError as heard:
                return heard.call
            except TimeoutError:
                return None
            except (Exception, SystemExit):
                continue
    return None


@contextmanager
def _spied(own: Any, method: str | None, module: Any) -> Iterator[None]:
    """A candidate that tells what it is called with in place of what it does."""
    name = (method or own.__name__).split(THEN)[-1]
    owner, before = (own, inspect.getattr_static(own, name, None)) if inspect.isclass(own) else (module, own)
    if before is None or not callable(before) or name == MAKE:
        yield
        return

    def spy(*args: Any, **kwargs: Any) -> Any:
        thing, given = (args[0], args[1:]) if owner is own else (own, args)
        if any("Tracer" in type(x).__name__ for _, x in leaves([list(args), kwargs])):
            # What is only traced has no numbers.
            return before(*args, **kwargs)
        raise HeardError(thing, given, kwargs)

    inherited = name not in vars(owner)
    setattr(owner, name, spy)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


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
    writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+") and args[0] != "/dev/null"
    if writes or event.startswith(_OUTSIDE):
        raise PermissionError(f"{event} is not for a use that is only overheard")


def _uses(own: Any, module: Any) -> Iterator[Callable[[], Any]]:
    """What of a module needs no arguments and comes to a candidate."""
    scope = vars(module)
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
        here = {**scope, "__name__": "__main__"}
        with suppress(SyntaxError, ValueError):
            exec(compile(made, "<a use of its own>", "exec"), here)
            if _comes_to(here["use"].__code__, own, scope):
                yield here["use"]
    for function in [*scope.values()]:
        if not inspect.isfunction(function) or function.__module__ != module.__name__ or function is own:
            continue
        if not any(row["required"] for row in arguments_of(function)) and _comes_to(function.__code__, own, scope):
            yield function


def _comes_to(code: CodeType, own: Any, scope: dict[str, Any]) -> bool:
    """Whether code names a candidate, or what of its module does."""
    todo, seen = [code], set[str]()
    while todo:
        one = todo.pop()
        todo += [part for part in one.co_consts if isinstance(part, CodeType)]
        for name in {*one.co_names} - seen:
            seen.add(name)
            other = scope.get(name)
            found = [*vars(other).values()] if inspect.isclass(other) else [other]
            todo += [f.__code__ for f in map(inspect.unwrap, filter(callable, found)) if inspect.isfunction(f)]
    return own.__name__ in seen
