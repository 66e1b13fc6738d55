"""The process that runs the candidate: load it, describe it, call it."""

from __future__ import annotations

import ast
import copy
import ctypes
import gc
import importlib
import importlib.util
import inspect
import io
import linecache
import math
import os
import random
import re
import select
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from overt.check import wire
from overt.check.arrays import backends, leaves
from overt.check.describe import _parameters, configs, describe, is_keras, parameters, widen
from overt.check.watching import watched
from overt.errors import ArgumentError


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
        self.interruptible = interruptible
        self.built: list[Any] = []
        self.file: str | None = None
        # its lines that refuse some calls
        self.guards: frozenset[int] = frozenset()
        # what calls of one request share, filled by the first
        self.kept: dict[str, Any] = {}
        # arguments that somebody gave
        self.example: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        # the arrays of a call that somebody looks for, by their identity
        self.passing: dict[int, str] = {}
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
        """Type and message of an exception, and the line of the candidate's file that raised it.

        reached: the places in that file's code, from the outermost, by which a call that came further is known; raised:
        whether the line does so itself, and guarded, on a condition; missing: what an object or a dictionary was asked
        for that it does not have, and whether to call it; arguments: those that stand in that line; unpacks: "shape" or
        "array", if it takes one apart.
        """
        line, reached = None, []
        trace = error.__traceback__
        arguments: list[str] = []
        unpacks, called = None, frozenset[str]()
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.file:
                line = trace.tb_lineno
                reached.append(trace.tb_lasti)
                names, called, unpacks = _statements(self.file).get(line, ((), frozenset(), None))
                held = [trace.tb_frame.f_locals.get(name) for name in names]
                arguments = [self.passing[id(x)] for x in held if id(x) in self.passing]
            trace = trace.tb_next
        missing: dict[str, Any] | None = None
        if isinstance(error, AttributeError) and error.name:
            missing = {"name": error.name, "owner": type(error.obj).__name__}
            missing |= {"path": error.obj.path} if isinstance(error.obj, _Asked) else {}
        elif isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
            missing = {"name": error.args[0], "owner": "dict"}
            missing |= {"path": error.path} if isinstance(error, _LackedError) else {}
        if missing is not None:
            missing["called"] = missing["name"] in called or missing["name"] == "shape"
        # What filled the memory hangs on the frames.
        traceback.clear_frames(error.__traceback__)
        return {
            "type": type(error).__name__,
            "message": str(error)[:500],
            "line": line,
            "reached": reached,
            "missing": missing,
            "arguments": arguments,
            "unpacks": unpacks,
            "guarded": line in self.guards,
            "raised": bool(self.file and line)
            and linecache.getline(self.file or "", line or 0).split()[:1] == ["raise"],
        }

    def on_load(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        self.built = []
        if message["target"] is not None:
            self.target = load(message["target"])
        with suppress(TypeError, OSError):
            thing = self.target
            self.file = inspect.getsourcefile(
                thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)
            )
        self.guards = frozenset()
        if self.file:
            linecache.checkcache(self.file)
            self.guards = _guards("".join(linecache.getlines(self.file)))
        return {"description": describe(self.target)}

    def on_method(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """The description of the target called by another of its methods."""
        cls = self.target if inspect.isclass(self.target) else type(self.target)
        told = _parameters(getattr(cls, message["name"]), skip=True)
        return {"description": {**describe(self.target), "method": message["name"], "parameters": told}}

    def on_globals(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """The arrays of the module that a function reads."""
        scope = inspect.unwrap(self.target).__globals__
        for name in message["names"]:
            value = scope[name]
            out[name] = np.array(value.detach().numpy() if hasattr(value, "detach") else value)
        return {}

    def on_build(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Make an instance of a class (or take the instance), fill its parameters with known numbers."""
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.manual_seed(0)
        thing = self.target
        if inspect.isclass(thing):
            kwargs = {name: configs(thing)[spec["own"]] if "own" in spec else _value(spec, arrays, None)
                      for name, spec in message.get("kwargs", {}).items()}  # fmt: skip
            if is_keras(thing):
                sys.modules["keras"].config.set_floatx("float64")
            thing = thing(**kwargs)
        if not is_keras(type(thing)) and hasattr(thing, "double") and hasattr(thing, "eval"):
            thing.double()
            if message.get("evaluate", True):
                thing.eval()
        if not is_keras(type(thing)):
            widen(thing)
        return self._made(thing, parameters(thing, message.get("seed"), out))

    def on_example(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Make what is called of one expression and its arguments of another, in the candidate's module."""
        module = sys.modules.get(getattr(self.target, "__module__", None) or "")
        # The user's own words, as the candidate is the user's own code.
        scope: dict[str, Any] = {name: sys.modules[name] for name in ("torch", "numpy", "jax") if name in sys.modules}
        scope |= {"np": np, **(vars(module) if module is not None else {})}
        scope.setdefault(getattr(self.target, "__name__", "it"), self.target)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        if "torch" in scope:
            sys.modules["torch"].manual_seed(0)
        thing = eval(message["make"], scope)
        if not callable(thing):
            raise ArgumentError(f"{message['make']} is a {type(thing).__name__}, and cannot be called")
        given = eval(message["call"], scope)
        self.example = ((), given) if isinstance(given, dict) else (given if isinstance(given, tuple) else (given,), {})
        plain = inspect.isroutine(thing)
        # What the module holds stays as it is.
        thing = thing if plain else copy.deepcopy(thing)
        torched = hasattr(thing, "eval") and hasattr(thing, "parameters")
        if torched:
            thing.eval()
        self.built.append(thing)
        told = {"given": len(self.built) - 1, "method": not plain}
        filled = thing if plain else copy.deepcopy(thing)
        if torched:
            filled.double()
        return told | self._made(filled, [] if plain else parameters(filled, 1, out))

    def _made(self, thing: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
        self.built.append(thing)
        held = [(name, getattr(thing, name, None)) for name in getattr(thing, "__dict__", ())]
        # Pairs of numbers are sides.
        held += [(f"{name}.{n}", x) for name, some in held if isinstance(some, tuple) for n, x in enumerate(some[:4])]
        numbers = {name: x for name, x in held if isinstance(x, int | float) and not isinstance(x, bool)}
        return {"handle": len(self.built) - 1, "parameters": rows, "numbers": numbers}

    def on_call(self, message: dict[str, Any], arrays: wire.Arrays, out: wire.Arrays) -> dict[str, Any]:
        """Run calls one after the other; an argument may be what an earlier call returned."""
        thing = self.target if message["handle"] is None else self.built[message["handle"]]
        results: list[Any] = []
        replies: list[dict[str, Any]] = []
        cache: dict[str, Any] = {}
        self.kept = {}
        told = time.monotonic()
        for number, call in enumerate(message["calls"]):
            if time.monotonic() - told > _SILENT:
                told = time.monotonic()
                self.alive(number)
            if replies and replies[-1].get("error", {}).get("type") == "MemoryError":
                # It would fill the memory again.
                replies.append(replies[-1])
                continue
            if call.get("fresh") and message["handle"] is not None:
                # What it keeps between calls is not kept by the instance.
                with suppress(Exception):
                    thing = _narrowed(copy.deepcopy(self.built[message["handle"]]), call.get("dtype"))
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
        return {"replies": replies}

    def _holder(self) -> Any:
        """Something that keeps keys: an object of the first class of the candidate's module that needs no arguments."""
        own = self.target if inspect.isclass(self.target) or inspect.isroutine(self.target) else type(self.target)
        for name, made in list(vars(sys.modules.get(own.__module__, inspect)).items()):
            if inspect.isclass(made) and made is not own and name[:1] != "_" and not hasattr(made, "parameters"):
                with suppress(Exception):
                    # What is only declared, or a container of the library, keeps nothing.
                    if any(inspect.isfunction(f) for n, f in vars(made).items() if n[:1] != "_"):
                        return made()
        raise ArgumentError("no class of the module can be made without arguments")

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

        def value(spec: dict[str, Any]) -> Any:
            for part in [*(p for name in ("dict", "config") for p in spec.get(name, {}).values()),
                         *(p for name in ("list", "tuple") for p in spec.get(name, [])),
                         *(spec[name] for name in ("matrix",) if name in spec)]:  # fmt: skip
                value(part)
            if "own" in spec:
                return configs(self.target)[spec["own"]]
            if "kept" in spec:
                if spec["kept"] not in self.kept:
                    self.kept[spec["kept"]] = self._holder() if "make" in spec else spec["value"]
                elif self.kept[spec["kept"]] in ({}, []):
                    raise ArgumentError("nothing was kept in what is empty")
                return self.kept[spec["kept"]]
            if "array" in spec and spec["array"] not in given:
                given[spec["array"]] = backend.give(arrays[spec["array"]], grad=call.get("grad", False))
                before[spec["array"]] = np.array(backend.take(given[spec["array"]]))
            return _value(spec, given, results)

        args = [value(spec) for spec in call["args"]]
        kwargs = {name: value(spec) for name, spec in call["kwargs"].items()}
        self.passing = {id(x): re.sub(r"^\d+[_ ]", "", name) for name, x in given.items()}
        if call.get("example"):
            args, kwargs = list(copy.deepcopy(self.example[0])), copy.deepcopy(self.example[1])
        # The user's own words, as the candidate is the user's own code.
        scope: dict[str, Any] = {name: value(spec) for name, spec in call.get("globals", {}).items()}
        if call.get("train") is not None:
            _train(thing, call["train"])
        thing = _narrowed(thing, call.get("dtype"))
        method = getattr(thing, call["method"]) if call.get("method") and not is_keras(type(thing)) else thing
        told: dict[str, Any] = {}
        if call.get("record") is not None:
            method = watched(method, thing, call["record"], told)
        if call.get("seed") is not None:
            np.random.seed(call["seed"])  # noqa: NPY002
            backend.seed(call["seed"])
        weight: list[int] = []
        weighed = backend.weighed(weight) if call.get("weigh") else nullcontext()
        with backend.still(call.get("still", False)), np.errstate(all="ignore"), weighed, _patched(thing, scope):
            start = time.perf_counter()
            # What is recorded is traced there, and what keeps something would keep what is only traced.
            plainly = call.get("record") is not None or not inspect.isroutine(thing) or call.get("example")
            try:
                with backend.typed():
                    if plainly:
                        result = method(*args, **kwargs)
                    else:
                        result = backend.run(method, args, kwargs, self.passing, call.get("search", False))
            except (RuntimeError, TypeError, ValueError) as error:
                if not re.search(r"Double|Float\b|float32|dtype", str(error)):
                    raise
                # It makes arrays of its own in float32, and not in the default dtype.
                result = method(*args, **kwargs)
        results.append(result)
        reply: dict[str, Any] = {"outputs": [], "form": type(result).__name__, "judged": told}
        if call.get("weigh"):
            reply |= {"bytes": max(weight), "seconds": time.perf_counter() - start, "changed": []}
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
        if call.get("grad"):
            reply["gradients"] = backend.pull(result, {key: given[key] for key in before}, out, number)
        return reply


class _Asked(SimpleNamespace):
    """A configuration that knows which argument it is."""

    # No attribute of the configuration.
    __slots__ = ("path",)

    def __init__(self, path: list[str], parts: dict[str, Any]) -> None:
        super().__init__(**parts)
        self.path = path


class _LackedError(KeyError):
    """A name that a dictionary does not have."""

    def __init__(self, name: Any, path: list[str]) -> None:
        super().__init__(name)
        self.path = path


class _Lacking(dict):
    """A dictionary that knows which argument it is, a tree to JAX as others are."""

    known_to_jax = False

    def __init__(self, path: list[str], parts: dict[str, Any]) -> None:
        super().__init__(parts)
        self.path = path
        if "jax" in sys.modules and not _Lacking.known_to_jax:
            sys.modules["jax"].tree_util.register_pytree_node(
                _Lacking,
                lambda x: (tuple(x.values()), (x.path, tuple(x))),
                lambda told, parts: _Lacking(told[0], dict(zip(told[1], parts, strict=True))),
            )
            _Lacking.known_to_jax = True

    def __missing__(self, name: Any) -> Any:
        raise _LackedError(name, self.path)


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


def _narrowed(thing: Any, dtype: str | None) -> Any:
    """A module whose parameters have a dtype: itself, or a copy."""
    if not dtype or not hasattr(thing, "half") or not hasattr(thing, "parameters") or is_keras(type(thing)):
        # Keras has a dtype of its own, and a copy of what was not called yet draws other weights.
        return thing
    wanted = getattr(sys.modules["torch"], dtype)
    floats = [x for x in thing.parameters() if x.is_floating_point()]
    return thing if floats and all(x.dtype == wanted for x in floats) else copy.deepcopy(thing).to(wanted)


def _train(thing: Any, mode: bool) -> None:
    """Into training or out of it, as modules do it or with two methods."""
    if not callable(getattr(thing, "train", None)):
        return
    try:
        thing.train(mode)
    except TypeError:
        getattr(thing, "train" if mode else "eval")()


def _value(spec: dict[str, Any], arrays: dict[str, Any], results: list[Any] | None) -> Any:
    if "array" in spec:
        return arrays[spec["array"]]
    if "config" in spec:
        return _Asked(spec["path"], {name: _value(part, arrays, results) for name, part in spec["config"].items()})
    if "function" in spec:
        return _function(spec["function"], _value(spec["matrix"], arrays, results) if "matrix" in spec else None)
    if "dict" in spec:
        parts = {name: _value(part, arrays, results) for name, part in spec["dict"].items()}
        return _Lacking(spec["path"], parts) if "path" in spec else parts
    if "list" in spec:
        return [_value(part, arrays, results) for part in spec["list"]]
    if "tuple" in spec:
        return tuple(_value(part, arrays, results) for part in spec["tuple"])
    if "result" in spec:
        assert results is not None
        found = results[spec["result"]]
        if hasattr(found, "shape"):
            raise ArgumentError("an output keeps nothing beside itself")
        return found if spec.get("item") is None else found[spec["item"]]
    return spec["value"]


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
    # A class of its own, since modules are called by their class.
    module.__class__ = type(kind.capitalize(), (torch.nn.Module,), {"forward": lambda self, *a, **k: call(*a, **k)})
    return module


@lru_cache(maxsize=4)
def _statements(file: str) -> dict[int, tuple[tuple[str, ...], frozenset[str], str | None]]:
    """Of each line the names in its statement, the methods it calls, and whether it unpacks a shape or an array."""
    try:
        nodes = list(ast.walk(ast.parse("".join(linecache.getlines(file)))))
    except (SyntaxError, ValueError):
        return {}
    found: dict[int, tuple[tuple[str, ...], frozenset[str], str | None]] = {}
    for node in nodes:
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            names = tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
            calls = [
                n.func.attr for n in ast.walk(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
            ]
            unpacks = None
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.List):
                shape = any(getattr(n, "attr", "") in ("shape", "size") for n in ast.walk(node.value))
                unpacks = "shape" if shape else "array"
            found |= dict.fromkeys(
                range(node.lineno, (node.end_lineno or node.lineno) + 1), (names, frozenset(calls), unpacks)
            )
    return found


@lru_cache(maxsize=4)
def _guards(source: str) -> frozenset[int]:
    """Lines that refuse some calls: assertions, and what raises under a condition."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return frozenset()
    guards: list[ast.stmt] = [n for n in nodes if isinstance(n, ast.Assert)]
    conditions = [n for n in nodes if isinstance(n, ast.If | ast.Match)]
    guards += [n for c in conditions for n in ast.walk(c) if isinstance(n, ast.Raise)]
    return frozenset(line for n in guards for line in range(n.lineno, (n.end_lineno or n.lineno) + 1))


# Files that this process has run.
_LOADED: dict[Path, Any] = {}


def load(target: str) -> Any:
    """The thing that ``FILE.py:name`` or ``module:name`` names."""
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        path = Path(place).resolve()
        if path in _LOADED:
            module: Any = _LOADED[path]
            return _named(module, name)
        _importable(path.parent)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
        _LOADED[path] = module
    else:
        _importable(Path.cwd())
        module = importlib.import_module(place)
    return _named(module, name)


def _importable(folder: Path) -> None:
    """Let a candidate import what lies beside it, after everything else: a json.py of its own is not everybody's."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def _named(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part)
    return module


class Limits(NamedTuple):
    """What the process may take: bytes beyond its libraries, and seconds for one candidate."""

    memory: int
    seconds: float


# Seconds between two signs of life; bytes of the largest file; and of memory and of a file while libraries are loaded.
_SILENT, _FILE, _LOADING = 0.25, 256 << 20, (4 << 30, 64 << 30)


def serve(incoming: BinaryIO, outgoing: BinaryIO, candidate: Candidate, limits: Limits) -> None:
    """Answer until the checker goes away."""
    # In a fork of a process that has used it, JAX only waits for threads that are not there.
    inherited = "jax" in sys.modules
    candidate.alive = lambda calls: wire.send(outgoing, {"calls": calls})
    # A name that NumPy 2 has dropped is found in the text; here the code shall run all the same.
    vars(np)["infty"] = np.inf
    while True:
        _make_room(candidate, limits.memory // 4)
        request = wire.receive(incoming)
        if request is None:
            return
        message, arrays = request
        if message["op"] == "load":
            _restrict(max(limits.memory, _LOADING[0]), _LOADING[1], limits.seconds)
        reply, out = candidate.answer(message, arrays)
        if message["op"] == "load":
            if "jax" in sys.modules:
                # Each call is compiled to be made once, and its failures are read by nobody.
                sys.modules["jax"].config.update("jax_disable_most_optimizations", True)
                sys.modules["jax"].config.update("jax_traceback_filtering", "off")
            # What it has imported is not what it takes.
            _restrict(limits.memory, _FILE, limits.seconds, starting=not inherited)
        try:
            wire.send(outgoing, reply, out)
        except (MemoryError, TypeError) as error:
            wire.send(outgoing, {"error": {"type": type(error).__name__, "message": str(error), "line": None}})


def _make_room(candidate: Candidate, memory: int) -> None:
    """Give up the instances that were made, where they leave less memory than that: libraries crash without any."""
    try:
        # None of it is written to.
        np.empty(memory, np.uint8)
    except MemoryError:
        candidate.built = [None] * len(candidate.built)
        candidate.kept = {}
        gc.collect()


def _restrict(memory: int, file: int, seconds: float, *, starting: bool = False) -> None:
    """So many bytes more than the process may write to now; the files that its libraries map are not counted.

    Files of so many bytes, so many seconds more of every processor, and no picture of the memory where it crashes.
    starting: libraries may start threads that they will need first.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        def restrict(kind: int, wanted: int) -> None:
            most = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (wanted if most < 0 else min(wanted, most), most))

        restrict(resource.RLIMIT_CORE, 0)
        restrict(resource.RLIMIT_FSIZE, file)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        wanted = usage.ru_utime + usage.ru_stime + seconds * (os.cpu_count() or 1)
        restrict(resource.RLIMIT_CPU, math.ceil(wanted))
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        jax = sys.modules.get("jax") if starting else None
        if jax is not None:
            # It starts its threads at its first array, and hangs where it finds no room for them.
            jax.numpy.zeros(1).block_until_ready()
        told = re.search(r"^VmData:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
        if told is not None:
            restrict(resource.RLIMIT_DATA, 1024 * int(told[1]) + memory)


# Of <linux/prctl.h>.
_PR_SET_PDEATHSIG = 1


def follow(parent: int, pipe: int) -> None:
    """End when the checker ends, however it does: Linux sees to it, elsewhere a thread that watches a pipe."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            # It had ended before that.
            os._exit(1)
        return

    def wait() -> None:
        # Nothing is waited for but the end of who writes.
        poll = select.poll()
        poll.register(pipe, 0)
        poll.poll()
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main(parent: int, reading: int, writing: int, memory: int, seconds: float) -> None:
    """Serve requests: the process that checks, pipes in and out, and limits of memory in bytes and of seconds."""
    follow(parent, reading)
    # What the candidate prints past Python goes nowhere, and what it reads is empty.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.argv = [""]
    with os.fdopen(reading, "rb") as incoming, os.fdopen(writing, "wb") as outgoing:
        serve(incoming, outgoing, Candidate(), Limits(memory, seconds))
