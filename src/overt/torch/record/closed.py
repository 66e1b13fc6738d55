"""What function modes do not see: functions and methods of TorchScript, and code under ``DisableTorchFunction``."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from overt.torch.record.functions import SPELLED, name_of, operator, softens
from overt.torch.record.kernel import SILENT
from overt.torch.record.sdpa import closed

# Of a graph of TorchScript: what attends at once, a softmax, what spells it out, and products.
_FUSED = re.compile(r"aten::_?(scaled_dot_product|\w*multi_head)_attention")
_SOFTENS = re.compile(r"aten::_?(safe_)?softmax\b")
_SPELLED = re.compile(rf"aten::({'|'.join(sorted(SPELLED))})\b")
_PRODUCTS = re.compile(r"aten::(matmul|bmm|baddbmm|einsum|mm|addbmm)\b")
_MULTIPLY = {"bmm", "mm", "baddbmm", "matmul", "einsum"}
_KERNELS = ("flex_attention", "scaled_dot_product_attention")

_SCRIPT: tuple[type, ...] = torch._C.ScriptFunction, torch._C.ScriptMethod
_calls: dict[type, Callable[..., Any]] = {}


class Listener(Protocol):
    """One recording, as what is closed knows it."""

    @property
    def listens(self) -> bool:
        """Whether its model runs now, and nothing of the recording's own."""
        ...

    def scripted(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Take note of a call of TorchScript."""
        ...

    def silent(self, kernel: str) -> None:
        """Take note of a softmax, or a kernel of attention, where torch's functions are hidden."""
        ...


_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Tell a recording of everything of this kind, until it leaves."""
    if not _listeners:
        for kind in _SCRIPT:
            _calls[kind] = kind.__call__
            kind.__call__ = _scripted(kind)  # type: ignore[method-assign]
        torch._C.DisableTorchFunction = _Silent  # type: ignore[assignment]
    _listeners.append(listener)


def leave(listener: Listener) -> None:
    """Undo ``listen``; the last one to leave puts everything back."""
    if listener not in _listeners:
        return
    _listeners.remove(listener)
    if not _listeners:
        for kind in _SCRIPT:
            kind.__call__ = _calls[kind]  # type: ignore[method-assign]
        torch._C.DisableTorchFunction = SILENT


def attends(graph: str) -> bool:
    """Whether a graph of TorchScript holds a whole attention, by a kernel, or by a softmax of products."""
    if _FUSED.search(graph):
        return True
    products = len(_PRODUCTS.findall(graph))
    return bool((products and _SOFTENS.search(graph)) or (products > 1 and _SPELLED.search(graph)))


def softmax_in(graph: str) -> bool:
    """Whether it holds a softmax."""
    return _SOFTENS.search(graph) is not None


def _scripted(kind: type) -> Callable[..., Any]:
    run = _calls[kind]

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        found = [x for x in _listeners if x.listens]
        result = run(self, *args, **kwargs)
        for listener in found:
            listener.scripted(self, args, kwargs, result)
        return result

    return __call__


class _Silent:
    """``torch._C.DisableTorchFunction``, under which operators are looked at instead, where a model runs."""

    def __init__(self) -> None:
        self._context = ExitStack()

    def __enter__(self) -> Self:
        self._context.enter_context(SILENT())
        found = [x for x in _listeners if x.listens]
        if found:
            self._context.enter_context(_Looks(found))
        return self

    def __exit__(self, *error: object) -> None:
        self._context.close()


class _Looks(TorchDispatchMode):  # type: ignore[no-untyped-call]
    supports_higher_order_operators = True

    def __init__(self, listeners: list[Listener]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._listeners, self._multiplied = listeners, False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kernel, name = operator(func) or name_of(func), name_of(func)
        self._multiplied |= name in _MULTIPLY
        softmax = softens(func) and args[0].ndim > 1
        if softmax or closed(kernel) or name in _KERNELS or (name in SPELLED and self._multiplied):
            for listener in self._listeners:
                listener.silent(kernel)
        return func(*args, **(kwargs or {}))
