"""The candidate in its process: load it, describe it, make it, call it."""

from __future__ import annotations

import ast
import copy
import inspect
import io
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np

from overt.check.process import wire
from overt.check.process.arrays import alike, backends, copied, leaves, seed_all
from overt.check.process.composing import (
    STANDS_FOR,
    THEN,
    applied,
    born,
    closing,
    composed,
    described,
    grown,
    living,
    makes,
    several,
    train,
)
from overt.check.process.describe import is_keras
from overt.check.process.failing import failure, read_anew
from overt.check.process.giving import Giver
from overt.check.process.held import Held, held, restored
from overt.check.process.linen import applied as linen
from overt.check.process.linen import is_linen
from overt.check.process.loading import load
from overt.check.process.overhearing import HeardError, overheard, spied, users
from overt.check.process.parameters import defaults, parameters, widen
from overt.check.process.parameters import own as own_arrays
from overt.check.process.watching import watched
from overt.check.text.edits import rewritten
from overt.check.text.usage import definition, scope
from overt.errors import ArgumentError
from overt.recorder.lists import arrays as arrays_of
from overt.recorder.lists import on_lists
from overt.recorder.operations import drained

# Seconds between two signs of life.
_SILENT = 0.25


class _Counter(io.TextIOBase):
    """Stands for stdout while the candidate runs, and counts what it prints."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, text: str) -> int:
        self.count += len(text)
        return len(text)

    def writable(self) -> bool:
        return True


class Candidate:
    """Answers the checker's requests about one thing at a time."""

    def __init__(self, target: Any = None, *, interruptible: bool = False) -> None:
        """``interruptible``: Ctrl-C is for the checker, and no answer of the candidate."""
        self.target = target
        # the class whose instances a function makes that stands for it
        self.whole: Any = None
        # the method that somebody named
        self.named: str | None = None
        self.interruptible = interruptible
        self.built: list[Any] = []
        self.file: str | None = None
        # what calls of one request share, filled by the first
        self.kept: dict[str, Any] = {}
        # the instance that is called
        self.handle: int | None = None
        # what functions and classes of its module have made, by dtypes
        self.made: dict[str, dict[str, Any]] = {}
        # what a module of Flax keeps from call to call
        self.state: dict[str, Any] = {}
        # arguments that somebody gave
        self.example: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        # the arrays of a call that somebody looks for, by their identity
        self.passing: dict[int, str] = {}
        # classes of JAX whose instances are changed by a call
        self.keeping: set[type] = set()
        # the last copy of an instance, of which and how wide, and what it held
        self.clean: tuple[Any, Any, Held | None] = (None, None, None)
        # what the target, and what was made of it, was before an edit
        self.unedited: Any = None
        # what another candidate of the file, which is searched for a call, calls this one with, and who listens
        self.heard: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None
        self.listening = ExitStack()
        # told how many calls of a request have come back
        self.alive: Callable[[int], None] = lambda calls: None

    def answer(self, message: dict[str, Any], arrays: wire.Arrays) -> tuple[dict[str, Any], wire.Arrays]:
        """Do one request; whatever the candidate's code raises comes back as text."""
        out: wire.Arrays = {}
        counter = _Counter()
        stdout, stderr = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = counter
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reply: dict[str, Any] = getattr(self, "on_" + message["op"])(message, arrays, out)
        except BaseException as error:
            if self.interruptible and isinstance(error, KeyboardInterrupt):
                raise
            reply = {"error": self.failure(error)}
        finally:
            sys.stdout, sys.stderr = stdout, stderr
        return {**reply, "printed": counter.count}, out

    def failure(self, error: BaseException) -> dict[str, Any]:
        """What is told of an exception."""
        if isinstance(error, HeardError):
            self.heard = self.heard or error.call
        found = failure(error, self.file, self.passing)
        # What filled the memory hangs on the frames.
        traceback.clear_frames(error.__traceback__)
        return found

    def on_load(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        self.built, self.made, self.clean, self.unedited = [], {}, (None, None, None), None
        self.target, self.whole = self.whole or self.target, None
        self.listening.close()
        if message["target"] is not None:
            self.target, self.named = load(message["target"])
        if "user" in message:
            self.heard = None
            self.listening.enter_context(spied(self.target, message["method"]))
            self.target, self.named = scope(self.target)[message["user"]], None
        self.target = closing(applied(self.target))
        if not (callable(self.target) or any(map(inspect.isfunction, vars(type(self.target)).values()))):
            raise ArgumentError(f"it is a {type(self.target).__name__}, and no function, class or instance of one")
        with suppress(TypeError, OSError):
            self.file = inspect.getsourcefile(definition(inspect.unwrap(self.target)))
        if self.file:
            read_anew(self.file)
        return {"description": described(self.target, named=self.named)}

    def on_edit(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Take the target as another text defines it, or where there is none as it was."""
        before, self.unedited = self.unedited, None
        if before is not None:
            self.target, self.built, self.made, self.clean = before
        if message["text"] is None:
            return {}
        self.unedited = self.target, self.built, self.made, self.clean
        self.target = rewritten(self.target, message["text"])
        self.built, self.made, self.clean = [], {}, (None, None, None)
        return {}

    def on_method(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """The description of the target called by another of its methods, or by several; the first may make it."""
        self.target, self.whole = self.whole or self.target, None
        told = described(self.target, message["name"], self.named)
        if inspect.isclass(self.target) and makes(self.target, message["name"].split(THEN)[0]):
            self.whole, self.target = self.target, composed(self.target, message["name"], None)
        return {"description": told}

    def on_globals(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """The arrays of the module that a function reads."""
        scope = inspect.unwrap(self.target).__globals__
        for name in message["names"]:
            value = scope[name]
            out[name] = np.array(value.detach().numpy() if hasattr(value, "detach") else value)
        return {}

    def on_build(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Make an instance of a class (or take the instance), fill its parameters with known numbers."""
        seed_all()
        thing, narrow, own = self.target, dict[str, Any](), bool(message.get("own_width"))
        if inspect.isclass(thing):
            library = backends(message.get("backend", "numpy"), "float64")
            kwargs = Giver(thing, message.get("backend", "numpy"), lambda name: library.give(arrays[name])).each(
                message.get("kwargs", {})
            )
            # What it is half as wide as, unless it is told.
            narrow = defaults(thing)
            thing = thing(**({} if own else narrow) | kwargs)
        if not is_keras(type(thing)) and hasattr(thing, "double") and hasattr(thing, "eval"):
            if not own:
                thing.double()
            if message.get("evaluate", True):
                thing.eval()
        if not is_keras(type(thing)) and not own:
            widen(thing)
        numbers = out if message.get("numbers") else None
        rows = parameters(thing, message.get("seed"), numbers, state=grown(type(thing)))
        return self._made(thing, rows) | {"narrow": bool(narrow)}

    def on_example(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Make what is called of one expression and its arguments of another, in the candidate's module."""
        module = sys.modules.get(getattr(self.target, "__module__", None) or "")
        # The user's own words, as the candidate is the user's own code.
        scope: dict[str, Any] = {name: sys.modules[name] for name in ("torch", "numpy", "jax") if name in sys.modules}
        scope |= {"np": np, **(vars(module) if module is not None else {})}
        scope.setdefault(getattr(self.target, "__name__", "it"), self.target)
        seed_all()
        thing = eval(message["make"], scope)
        if not callable(thing):
            raise ArgumentError(f"{message['make']} is a {type(thing).__name__}, and cannot be called")
        other = inspect.ismethod(thing) and self.named not in (None, thing.__name__)
        if other or not _of(self.whole or self.target, thing, message["make"], scope):
            raise ArgumentError(
                f"{message['make']} is not {getattr(self.target, '__name__', 'the target')}, nor made of it"
            )
        given = eval(message["call"], scope)
        if not isinstance(given, tuple | dict):
            raise ArgumentError(f"{message['call']} is no tuple of arguments, such as (x,), and no dictionary of them")
        self.example = ((), given) if isinstance(given, dict) else (given, {})
        return self._exemplary(thing)

    def on_overhear(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """The same, of what its own file calls it with, or did when another candidate of it was called."""
        seed_all()
        found = self.heard if message["heard"] else overheard(self.whole or self.target, message["method"])
        if found is None:
            raise ArgumentError("its file does not call it")
        thing, args, kwargs = found
        self.example = args, kwargs
        return self._exemplary(thing)

    def on_users(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """The names of what of its module comes to the target."""
        return {"names": users(self.whole or self.target)}

    def _exemplary(self, thing: Any) -> dict[str, Any]:
        """What is called, of an example."""
        plain = inspect.isroutine(thing)
        # What the module holds stays as it is.
        thing = thing if plain else copy.deepcopy(thing)
        torched = hasattr(thing, "eval") and hasattr(thing, "parameters")
        if torched:
            thing.eval()
        self.built.append(thing)
        arrays = [x for _, x in leaves(list(self.example))] + (list(thing.parameters()) if torched else [])
        kinds = [str(x.dtype).rpartition(".")[2] for x in arrays if hasattr(x, "dtype")]
        dtype = next((kind for kind in kinds if "float" in kind), "float32")
        told = {"given": len(self.built) - 1, "method": not plain, "dtype": dtype}
        filled = thing if plain else copy.deepcopy(thing)
        if torched:
            filled.double()
        return told | self._made(filled, [] if plain else parameters(filled, 1))

    def _made(self, thing: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
        self.built.append(thing)
        held = [(name, getattr(thing, name, None)) for name in getattr(thing, "__dict__", ())]
        # Pairs of numbers are sides.
        held += [(f"{name}.{n}", x) for name, some in held if isinstance(some, tuple) for n, x in enumerate(some[:4])]
        held += [(f"{name}.{key}", x) for name, some in held if isinstance(some, dict) for key, x in some.items()]
        numbers = {name: x for name, x in held if isinstance(x, int | float) and not isinstance(x, bool)}
        return {"handle": len(self.built) - 1, "shapes": [row["shape"] for row in rows], "numbers": numbers}

    def on_call(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Run calls one after the other; an argument may be what an earlier call returned."""
        thing = self.target if message["handle"] is None else self.built[message["handle"]]
        results: list[Any] = []
        replies: list[dict[str, Any]] = []
        cache: dict[str, Any] = {}
        self.kept, self.handle = {}, message.get("handle")
        living.clear()
        born.clear()
        told = time.monotonic()
        for number, call in enumerate(message["calls"]):
            if time.monotonic() - told > _SILENT:
                told = time.monotonic()
                self.alive(number)
            if replies and replies[-1].get("error", {}).get("type") == "MemoryError":
                # It would fill the memory again.
                replies.append(replies[-1])
                continue
            if call.get("fresh") is False and "error" in (replies or [{}])[-1]:
                # It would go on with what is not there.
                replies.append(replies[-1])
                results.append(None)
                continue
            if call.get("fresh"):
                living.clear()
                born.clear()
            if call.get("fresh") and message["handle"] is not None:
                # What it keeps between calls is not kept by the instance.
                with suppress(Exception):
                    thing = self._fresh(message["handle"], call)
            bare = _unbuilt(thing) if call.get("search") and message["handle"] is not None else None
            try:
                replies.append(
                    self._call(thing, call, arrays, out, number, results, cache if message.get("same") else None)
                )
            except (MemoryError, RuntimeError) as error:
                if isinstance(error, MemoryError) or "allocate memory" in str(error):
                    replies.append({"error": {**self.failure(error), "type": "MemoryError"}})
                else:
                    replies.append({"error": self.failure(error)})
                results.append(None)
            except BaseException as error:
                if self.interruptible and isinstance(error, KeyboardInterrupt):
                    raise
                replies.append({"error": self.failure(error)})
                results.append(None)
            if bare is not None and "error" in replies[-1]:
                # A call that failed may have made its weights, of widths that are none of its.
                thing = self.built[message["handle"]] = bare
        return {"replies": replies}

    def _fresh(self, handle: int, call: dict[str, Any]) -> Any:
        """A copy of an instance that no call has changed: the last one if that is so, or can be made so."""
        # What draws its weights when it is first called draws the same in every copy.
        seed_all()
        self.state.clear()
        key = handle, call.get("dtype")
        last, thing, known = self.clean
        if last == key and known is not None and restored(known):
            return thing
        thing = _narrowed(copy.deepcopy(self.built[handle]), call.get("dtype"), copied=True)
        self.clean = key, thing, held(thing)
        return thing

    def _call(
        self,
        thing: Any,
        call: dict[str, Any],
        arrays: wire.Arrays,
        out: wire.Arrays,
        number: int,
        results: list[Any],
        shared: dict[str, Any] | None,
    ) -> dict[str, Any]:
        backend = backends(call["backend"], call.get("dtype", "float64"))
        given: dict[str, Any] = {} if shared is None else shared
        before: dict[str, np.ndarray] = {}

        def handed(name: str) -> Any:
            if name not in given:
                given[name] = backend.give(arrays[name], grad=call.get("grad", False))
                before[name] = np.array(backend.take(given[name]))
            return given[name]

        made = self.made.setdefault(str(call.get("dtype")), {})
        giver = Giver(self.target, call["backend"], handed, results, self.kept, made, backend.run, (self.handle, thing))
        with backend.typed():
            args, kwargs = [giver.make(spec) for spec in call["args"]], giver.each(call["kwargs"])
        # Layers that are made for it are nobody's but its own.
        args = [_narrowed(x, call.get("dtype"), copied=True) for x in args]
        kwargs = {name: _narrowed(x, call.get("dtype"), copied=True) for name, x in kwargs.items()}
        lying = [leaf for _, leaf in leaves([args, kwargs]) if hasattr(leaf, "shape")]
        self.passing = {id(copied(x, lying)): re.sub(r"^\d+[_ ]", "", name) for name, x in given.items()}
        if call.get("example"):
            args, kwargs = list(copy.deepcopy(self.example[0])), copy.deepcopy(self.example[1])
            if call["backend"] == "python":
                # Numbers in lists are followed as those of arrays.
                args, kwargs = [*map(arrays_of, args)], {name: arrays_of(x) for name, x in kwargs.items()}
        # The user's own words, as the candidate is the user's own code.
        scope = giver.each(call.get("globals", {}))
        if call.get("train") is not None:
            train(thing, call["train"])
        thing = _narrowed(thing, call.get("dtype"))
        # A class that stands for functions holds nothing but what they close over.
        pure = inspect.isroutine(thing) or is_linen(type(thing)) or hasattr(type(thing), STANDS_FOR)
        # What is recorded is traced there.
        plainly = call.get("record") is not None or bool(call.get("example"))
        own = thing
        if call["backend"] == "jax" and not (pure or plainly or type(thing) in self.keeping):
            # What keeps something would keep what is only traced: a copy of it is called, and keeps nothing.
            thing, pure = copy.deepcopy(thing), True
        method = _method(thing, call.get("method"))
        if is_linen(type(thing)):
            weights = self.made.setdefault("", {})
            method, keeps = linen(thing, call["method"], args, kwargs, backend, weights, self.state)
            pure = not keeps
        told: dict[str, Any] = {}
        method = drained(method)
        if call["backend"] == "python":
            method = on_lists(method)
        if call.get("record") is not None:
            method = watched(method, thing, call["record"], told, self.passing, giver.rows)
        if call.get("seed") is not None:
            seed_all(call["seed"])
            backend.seed(call["seed"])
        mine = own_arrays(thing) if call.get("own") else {}
        weight: list[int] = []
        weighed = backend.weighed(weight) if call.get("weigh") else nullcontext()
        attached = backend.attached() if call.get("attached") else nullcontext()
        still = backend.still() if call.get("still") else nullcontext()
        with still, backend.normal(), attached, np.errstate(all="ignore"), weighed, _patched(thing, scope):
            start = time.process_time()
            try:
                with backend.typed():
                    if plainly or not pure:
                        result = method(*args, **kwargs)
                    else:
                        result = backend.run(method, args, kwargs, self.passing, call.get("search", False))
            except (RuntimeError, TypeError, ValueError) as error:
                if not re.search(r"Double|Float\b|float32|dtype", str(error)):
                    raise
                # It makes arrays of its own in float32, and not in the default dtype.
                result = method(*args, **kwargs)
            if thing is not own and not call.get("search") and not alike(own, thing):
                self.keeping.add(type(own))
                result = drained(_method(own, call.get("method")))(*args, **kwargs)
        results.append(result)
        reply: dict[str, Any] = {"outputs": [], "form": type(result).__name__, "judged": told}
        if call.get("weigh"):
            reply |= {"bytes": max(weight), "seconds": time.process_time() - start, "changed": []}
            return reply
        for path, leaf in leaves(result):
            array, kind = backend.seen(leaf)
            if array is not None and len(reply["outputs"]) < 32 and array.nbytes < wire.LARGEST // 8:
                key = f"{number}.{len(reply['outputs'])}"
                out[key] = array
                reply["outputs"].append({"key": key, "path": path, "dtype": kind, "shape": array.shape})
        reply["changed"] = [
            key
            for key, old in before.items()
            if not np.array_equal(old, backend.take(given[key]), equal_nan=old.dtype.kind == "f")
        ]
        now = own_arrays(thing) if mine else {}
        reply["changed"] += [f"own {name}" for name, x in mine.items()
                             if name in now and not np.array_equal(now[name], x, equal_nan=True)]  # fmt: skip
        if call.get("grad"):
            reply["gradients"] = backend.pull(result, {key: given[key] for key in before}, out, number)
        return reply


def _of(target: Any, made: Any, text: str, scope: dict[str, Any]) -> bool:
    """Whether what an expression makes is a target, an instance of it or a method of one, or is made by its name."""
    owner = getattr(made, "__self__", made)
    kind = target if inspect.isclass(target) else type(target)
    if made is target or (not inspect.isroutine(target) and (isinstance(owner, kind) or owner is target)):
        return True
    nodes = list(ast.walk(ast.parse(text.strip(), mode="eval")))
    names = {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    return getattr(target, "__name__", None) in names or any(scope.get(name) is target for name in names)


def _method(thing: Any, name: str | None) -> Any:
    """What is called of a thing: itself, or its method, or several one after the other."""
    if not name or is_keras(type(thing)):
        return thing
    if several(name):
        return composed(type(thing), name, thing)
    # What was told something before goes on with that.
    return getattr(living[id(thing)][2] if id(thing) in living else thing, name)


@contextmanager
def _patched(function: Any, scope: dict[str, Any]) -> Iterator[None]:
    """Other values for what a function reads from its module."""
    before = {name: function.__globals__[name] for name in scope}
    if scope:
        function.__globals__.update(scope)
    try:
        yield
    finally:
        if scope:
            function.__globals__.update(before)


def _unbuilt(thing: Any) -> Any:
    """A copy of a layer of Keras whose weights no call has made yet; None of anything else."""
    if not is_keras(type(thing)) or thing.weights:
        return None
    # Keras makes a copy of what it reads, and finds the class of a layer by its name.
    named = {type(layer).__name__: type(layer) for layer in thing._flatten_layers()}
    with sys.modules["keras"].saving.custom_object_scope(named), suppress(Exception):
        return copy.deepcopy(thing)
    return None


def _narrowed(thing: Any, dtype: str | None, *, copied: bool = False) -> Any:
    """A module whose parameters have a dtype: itself, or a copy where it is none."""
    if not dtype or not hasattr(thing, "half") or not hasattr(thing, "parameters") or is_keras(type(thing)):
        # Keras has a dtype of its own, and a copy of what was not called yet draws other weights.
        return thing
    wanted = getattr(sys.modules["torch"], dtype)
    floats = [x for x in list(thing.parameters()) or thing.buffers() if x.is_floating_point()]
    if all(x.dtype == wanted for x in floats):
        return thing
    return (thing if copied else copy.deepcopy(thing)).to(wanted)
