"""Torch code, recorded by a function mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from overt.grid import host
from overt.recorder.operations import Log, einsum_equation, holds, leaves

_NAMES = {"__getitem__": "index", "__setitem__": "setitem", "__matmul__": "matmul", "__rmatmul__": "matmul"}
# What gives a tensor and computes nothing of it.
_SILENT = {"detach", "requires_grad_", "data", "grad", "is_floating_point"}
# One call each, whose arguments say what is done inside.
_FUSED = {"scaled_dot_product_attention", "multi_head_attention_forward"}
# The arguments of the first, which has no signature to read.
_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


class _Mode(TorchFunctionMode):
    def __init__(self, log: Log, given: dict[int, str]) -> None:
        super().__init__()
        self.log = log
        self.given = given
        # Tensors are held on to, so that no other gets the same id or the same memory.
        self.made_by: dict[int, tuple[Tensor, int]] = {}
        # The same by memory and strides, for tensors that are wrapped anew, as autograd functions do.
        self.placed: dict[tuple[Any, ...], int] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        # The tensors as they are before the operation, which may change them.
        taken = [(x, self._source(x)) for x in _tensors((args, kwargs))]
        # Of single numbers those that are learned are of matter.
        taken = [(x, source) for x, source in taken if x.ndim or source is not None or _memory(x) in self.given]
        sources = tuple(source for _, source in taken)
        operands = tuple(_numbers(x) for x, _ in taken)
        result = func(*args, **kwargs)
        if name in _SILENT:
            for x in _tensors(result):
                if sources and sources[0] is not None:
                    self._made(x, sources[0])
            return result
        detail = einsum_equation(args) if name == "einsum" else ""
        if name in ("baddbmm", "addmm", "addbmm", "baddbmm_", "addmm_"):
            # beta and alpha
            detail = f"{float(kwargs.get('beta', 1))} {float(kwargs.get('alpha', 1))}"
        origins = tuple("" if s is not None else self.given.get(_memory(x), "") for x, s in taken)
        if not taken:
            # What left torch as an array of NumPy and comes back is the same where its memory is.
            back = [x for x in leaves((args, kwargs)) if isinstance(x, np.ndarray) and x.ctypes.data in self.given]
            operands, sources = tuple(np.array(x) for x in back), (None,) * len(back)
            origins = tuple(self.given[x.ctypes.data] for x in back)
        options = _options(func, name, args, kwargs) if name in _FUSED else None
        changed = _changes(name, args, kwargs)
        for x in _tensors(result if changed is None else changed):
            named = _NAMES.get(name, name)
            number = self.log.note(named, sources, operands, *_kept(x), detail, None, origins, options)
            self._made(x, number)
            if changed is not None:
                self.log.written.setdefault(_memory(x), []).append(number)
        return result

    def _made(self, x: Tensor, number: int) -> None:
        self.made_by[id(x)] = x, number
        self.placed[_place(x)] = number

    def _source(self, x: Tensor) -> int | None:
        """The operation that the numbers of a tensor came from, with all that was written into its memory since."""
        number = self.made_by[id(x)][1] if id(x) in self.made_by else self.placed.get(_place(x))
        last = self.log.latest(number, _memory(x), lambda: _kept(x))
        if last is not None and last != number:
            self._made(x, last)
        return last


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of tensors, or a module, and note what it does; gives its result."""
    # What lies in objects is counted after what is given by itself.
    lying = [*_tensors((args, kwargs)), *_inside((args, kwargs))]
    given = {_memory(x): f"argument {number}" for number, x in reversed([*enumerate(lying)])}
    modules = [
        x for x in (getattr(function, "__self__", function), *leaves((args, kwargs))) if isinstance(x, nn.Module)
    ]
    for module in modules[::-1]:
        # A buffer of one number is a setting.
        kept = [*((name, x) for name, x in module.named_buffers() if x.numel() != 1), *module.named_parameters()]
        own = {_memory(x) for x in _tensors((args, kwargs))}
        given |= {_memory(x): f"parameter {name}" for name, x in kept if _memory(x) not in own}
    # Torch lends the memory of NumPy's arrays.
    lent = [x for x in leaves((args, kwargs)) if isinstance(x, np.ndarray)]
    given |= {x.ctypes.data: f"argument {len(lying) + number}" for number, x in enumerate(lent)}
    with _Mode(log, given):
        return function(*args, **kwargs)


def _options(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a fused attention by name, tensors as arrays."""
    if name == "scaled_dot_product_attention":
        bound = dict(zip(_SDPA, args, strict=False)) | kwargs
    else:
        bound = dict(inspect.signature(func).bind(*args, **kwargs).arguments)
    return {key: _numbers(x) if isinstance(x, Tensor) else x for key, x in bound.items()}


def _changes(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """What an operation writes into, None where that is nothing."""
    if kwargs.get("out") is not None:
        return kwargs["out"]
    in_place = (name.endswith("_") and not name.endswith("__")) or name == "__setitem__"
    in_place = in_place or (name.startswith("__i") and name not in ("__invert__", "__index__", "__int__"))
    return args[0] if in_place and args and isinstance(args[0], Tensor) else None


def _memory(x: Tensor) -> int:
    with torch._C.DisableTorchFunction():
        try:
            return x.untyped_storage().data_ptr() or id(x)
        except (RuntimeError, NotImplementedError):
            return id(x)


def _place(x: Tensor) -> tuple[Any, ...]:
    with torch._C.DisableTorchFunction():
        strided = x.layout == torch.strided and x.numel()
        return (_memory(x), x.storage_offset(), x.shape, x.stride(), x.dtype) if strided else (id(x),)


def _kept(x: Tensor) -> tuple[Tensor, np.ndarray]:
    kept = x.detach().clone()
    return kept, _numbers(kept)


def _numbers(x: Tensor) -> np.ndarray:
    with torch._C.DisableTorchFunction():
        return np.array(host("a tensor", x.resolve_conj()))


def _tensors(values: Any) -> list[Tensor]:
    return [x for x in leaves(values) if isinstance(x, Tensor)]


def _inside(values: Any, depth: int = 3) -> list[Tensor]:
    """What lies in objects among values, and in those that they hold."""
    held = [vars(x) for x in leaves(values) if holds(x) and not isinstance(x, SimpleNamespace)] if depth else []
    return [x for some in held for x in (*_tensors(some), *_inside(some, depth - 1))]
