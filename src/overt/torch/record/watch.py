"""Which module of the model runs, in which pass, and every torch function that it calls."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import cached_property, partial
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from overt.torch.record import closed, padding, sdpa
from overt.torch.record.following import Follower
from overt.torch.record.functions import among, begins, may_begin
from overt.torch.record.origins import heeds

# A module of that name attends, or says so.
_ATTENTION = re.compile("attention|attn", re.IGNORECASE)
_FUSED = frozenset(func.__name__ for func in sdpa.FUSED)
# So many are remembered.
_MOST_FUNCTIONS = 4096
# Asked at every module.
_task: Callable[[], int] = torch._C._current_graph_task_id


class Pass:
    """One run of the outermost module: how often each module has attended, and the tokens that were read.

    row: at which query of its text the model continues, as soon as an attention with a cache has told.
    sizes: the first two axes of what was read.
    """

    def __init__(self, number: int, ids: list[Tensor], sizes: tuple[int, ...]) -> None:
        self.number, self.ids, self.sizes = number, ids, sizes
        self.row: int | None = None
        self.times: dict[str, int] = {}
        # Asked by every layer, and the same for all.
        self._tokens: dict[tuple[int, int], np.ndarray | None] = {}
        self.relations: dict[tuple[object, ...], np.ndarray] = {}

    def tokens(self, B: int, T: int) -> np.ndarray | None:
        """Tokens (B, T), if as many were read."""
        if (B, T) not in self._tokens:
            found = (ids.to("cpu", torch.int64, copy=True).numpy() for ids in self.ids if tuple(ids.shape) == (B, T))
            self._tokens[B, T] = next(found, None)
        return self._tokens[B, T]

    def name(self, module: str) -> str:
        """The second attention of a module is called ``name#2``."""
        times = self.times[module] = self.times.get(module, 0) + 1
        return module if times == 1 else f"{module}#{times}"


class Watch:
    """Hooks on every module of a model, which know what runs; in one thread, and not while gradients flow back."""

    def __init__(self, model: nn.Module) -> None:
        self.thread = threading.get_ident()
        self.names: dict[nn.Module, str] = {}
        self._scripts: dict[str, torch.jit.ScriptModule] = {}
        # What may attend, where hooks are to hang, and by which number; torch counts its own from 0.
        self._watched: list[nn.Module] = []
        self._key = id(self)
        self._name(model, "")
        self.stack: list[nn.Module] = []
        self.current: Pass | None = None
        self.elsewhere: set[str] = set()
        # How often each has run.
        self.ran: dict[nn.Module, int] = {}
        # Padded positions of encoders that run, where torch would take them out if nobody watched.
        self._padded: dict[nn.Module, Tensor] = {}
        self._finished: Callable[[Any], None] | None = None
        self._passes = 0

    def _name(self, module: nn.Module, name: str) -> None:
        """What ``named_modules`` does, in a fifth of its time."""
        names, children = self.names, module._modules
        names[module] = name
        if isinstance(module, torch.jit.ScriptModule):
            self._scripts[name] = module
        elif children or not name or not _mixes_nothing(module):
            self._watched.append(module)
        for part, child in children.items():
            if child is not None and child not in names:
                # A compiled model is a module round the one that was compiled.
                self._name(child, name if part == "_orig_mod" else f"{name}.{part}" if name else part)

    def start(self, finished: Callable[[Any], None]) -> None:
        """Hang up the hooks; ``finished`` is told when the outermost module is done, and what it gave."""
        self._finished = finished
        self.thread = threading.get_ident()
        enter, leave, key = _Hook(self._enter), _Hook(self._leave), self._key
        # ``register_forward_hook`` and the handle that it returns take three times as long.
        for module in self._watched:
            module._forward_pre_hooks[key] = enter
            module._forward_pre_hooks_with_kwargs[key] = True
            module._forward_hooks[key] = leave
            module._forward_hooks_always_called[key] = True

    def stop(self) -> None:
        """Take them down."""
        key = self._key
        for module in self._watched:
            module._forward_pre_hooks.pop(key, None)
            module._forward_pre_hooks_with_kwargs.pop(key, None)
            module._forward_hooks.pop(key, None)
            module._forward_hooks_always_called.pop(key, None)
        self.stack.clear()
        self._padded.clear()
        self.current, self._finished = None, None

    @property
    def closed(self) -> list[str]:
        """Modules in TorchScript that attend, if the model ran at all."""
        scripts = self._scripts
        whole = [
            name
            for name in scripts
            if not any(f"{name}.".startswith(f"{y}." if y else "") for y in scripts.keys() - {name})
        ]
        graphs = {name: str(scripts[name].inlined_graph) for name in whole}
        return [name for name, graph in graphs.items() if closed.attends(graph) or closed.softmax_in(graph)]

    @property
    def called_attention(self) -> list[str]:
        """Modules that ran, and have attention in the name of their class."""
        kinds = {kind for kind in {type(x) for x in self.ran} if _ATTENTION.search(kind.__name__)}
        return [name for x, name in self.names.items() if type(x) in kinds and x in self.ran]

    def idle(self, module: nn.Module) -> bool:
        """Whether nothing of a module ran that may attend, though there is some."""
        inside = set(module.modules())
        return inside.isdisjoint(self.ran) and not inside.isdisjoint(self._watched)

    @cached_property
    def _methods(self) -> set[str]:
        return {name for kind in {type(module) for module in self.names} for name in dir(kind)}

    def method(self) -> tuple[nn.Module, str] | None:
        """The module and the method that call now what is not called by ``forward``, if they are of this model."""
        if self.stack or threading.get_ident() != self.thread or backward():
            return None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            # Who is asked for its locals keeps them alive for as long as it runs: nobody is who cannot be a method.
            if code.co_argcount and code.co_name in self._methods:
                own = frame.f_locals.get(code.co_varnames[0])
                # A function that is given a module is no method of it.
                if isinstance(own, nn.Module) and hasattr(type(own), code.co_name):
                    if own in self.names:
                        return own, code.co_name
                    if own._modules:
                        # Another model, which this one has called.
                        return None
            frame = frame.f_back
        return None

    @property
    def here(self) -> bool:
        """Whether the model runs, in this thread, and forwards."""
        return bool(self.stack) and threading.get_ident() == self.thread and not backward()

    def _enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _task() != -1:
            return
        if threading.get_ident() != self.thread:
            self.elsewhere.add(self.names[module] or type(module).__name__)
            return
        if not self.stack:
            self.current = Pass(self._passes, _ids(args, kwargs), _sizes(args, kwargs))
            self._passes += 1
        self.ran[module] = self.ran.get(module, 0) + 1
        self.stack.append(module)
        if (positions := padding.padded(self.stack, args, kwargs)) is not None:
            self._padded[module] = positions

    def _leave(self, module: nn.Module, args: Any, output: Any) -> Any:
        stack = self.stack
        if threading.get_ident() != self.thread or module not in stack:
            return None
        # A module that raised may have left others behind.
        while stack.pop() is not module:
            pass
        if (own := type(module)) not in _ATTENDING:
            _PLAIN.add(own)
        positions = self._padded.pop(module, None)
        if positions is not None and isinstance(output, Tensor) and output.shape[:2] == positions.shape:
            output = padding.emptied(module, output, positions)
        if not stack and self._finished is not None:
            self._finished(output)
        return output if positions is not None else None


DESCRIBED: set[type[nn.Module]] = set()
"""Classes of modules that say themselves what are samples and heads, when they attend."""
# Those in which attention may begin, or cells are moved; and those that have run and are none of them.
_ATTENDING: set[type[nn.Module]] = set()
_PLAIN: set[type[nn.Module]] = set()


class _Hook(partial[Any]):
    """A hook that stays where it hangs: a copy of its module, and one in a file, has one that does nothing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (nullcontext(), "__exit__")


class Mode(TorchFunctionMode):
    """Every torch function that is called while the model runs."""

    def __init__(self, follower: Follower, watch: Watch, see: Callable[[Any, Any, Any], Any]) -> None:
        """follower: while it follows nothing, most functions cost no more than the question."""
        super().__init__()
        self._known, self._aside = follower.known, follower.aside
        self._note, self._turns, self._see = follower.origins.note, follower.origins.turns, see
        self._stack = watch.stack

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        attends, kind = _HEEDED[func]
        if attends and attends is not True:
            attends = attends(args, kwargs or {})
        if attends or self._known or (self._aside and among(args, kwargs, self._aside)):
            result = self._see(func, args, kwargs or {})
        else:
            result = func(*args, **kwargs) if kwargs else func(*args)
        if (kind or attends) and self._stack and (own := type(self._stack[-1])) not in DESCRIBED:
            if attends or kind == "move":
                _ATTENDING.add(own)
                _PLAIN.discard(own)
                if kind:
                    self._note(func, args, kwargs or {}, result)
            elif kind == "map" or own not in _PLAIN or self._turns(args):
                self._note(func, args, kwargs or {}, result)
        return result


class _Heeded(dict[Any, tuple[Any, str]]):
    """Whether a function attends, or may be where attention begins, and what it does to cells; asked at each one.

    Where its arguments tell whether it may be, what is to be asked of them.
    """

    def __missing__(self, func: Any) -> tuple[Any, str]:
        if len(self) > _MOST_FUNCTIONS:
            self.clear()
        self[func] = found = begins(func) or func.__name__ in _FUSED or may_begin(func), heeds[func]
        return found


_HEEDED = _Heeded()


def _mixes_nothing(module: nn.Module) -> bool:
    """Whether what has no children is one of torch's own, such as a linear map, or a norm: none of these attends."""
    if type(module).__module__.startswith("torch.nn.modules."):
        return True
    learned = [x for x in module._parameters.values() if x is not None]
    return bool(learned) and all(x.ndim == 1 for x in learned)


def backward() -> bool:
    """Whether gradients flow back now, and modules run a second time only to have something to flow through."""
    return _task() != -1


def _ids(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """Arguments that may be tokens: whole numbers (B, T)."""
    found = [
        x
        for name, x in [*((None, x) for x in args), *kwargs.items()]
        if isinstance(x, Tensor)
        and x.ndim == 2
        and x.dtype in (torch.int64, torch.int32)
        and (name is None or name.endswith("input_ids"))
    ]
    return [x.detach() for x in found]


def _sizes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[int, ...]:
    """The first two axes of the first argument that has them."""
    given = (x for x in (*args, *kwargs.values()) if isinstance(x, Tensor) and not x.is_nested and x.ndim > 1)
    return next((tuple(x.shape[:2]) for x in given), ())
