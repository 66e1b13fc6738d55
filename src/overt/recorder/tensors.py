"""Torch code, recorded by a function mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from overt.grid import host
from overt.recorder.operations import Log, einsum_equation

_NAMES = {"__getitem__": "index", "__setitem__": "setitem", "__matmul__": "matmul", "__rmatmul__": "matmul"}
# What gives a tensor and computes nothing of it.
_SILENT = {"detach", "requires_grad_", "data", "grad", "is_floating_point"}


class _Mode(TorchFunctionMode):
    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log
        # Tensors are held on to, so that no other gets the same id.
        self.made_by: dict[int, tuple[Tensor, int]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        # The tensors as they are before the operation, which may change them.
        taken = [x for x in _tensors((*args, *kwargs.values())) if x.ndim]
        sources = tuple(self.made_by[id(x)][1] if id(x) in self.made_by else None for x in taken)
        operands = tuple(_numbers(x) for x in taken)
        result = func(*args, **kwargs)
        name = func.__name__
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        if name in _SILENT:
            for x in _tensors((result,)):
                if sources and sources[0] is not None:
                    self.made_by[id(x)] = x, sources[0]
            return result
        detail = einsum_equation(args) if name == "einsum" else ""
        for x in _tensors((args[0] if name == "__setitem__" else result,)):
            kept = x.detach().clone()
            number = self.log.note(_NAMES.get(name, name), sources, operands, kept, _numbers(kept), detail)
            self.made_by[id(x)] = x, number
        return result


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of tensors, or a module, and note what it does; gives its result."""
    with _Mode(log):
        return function(*args, **kwargs)


def _numbers(x: Tensor) -> np.ndarray:
    with torch._C.DisableTorchFunction():
        return np.array(host("a tensor", x))


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for x in values:
        if isinstance(x, Tensor):
            found.append(x)
        elif isinstance(x, tuple | list):
            found += _tensors(x)
    return found
