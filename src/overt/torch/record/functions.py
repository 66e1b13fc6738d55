"""Torch's functions by what they do to scores and weights."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter, functional
from torch.utils._python_dispatch import TorchDispatchMode

from overt.torch.record.kernel import SILENT
from overt.torch.record.mixing import ADDED, TURNED

SOFTMAX = {
    "softmax", "_softmax", "softmax_", "_safe_softmax", "softmin", "gumbel_softmax", "_sparse_softmax",
}  # fmt: skip
# Products that give one number, and all of them.
_DOTS = {"dot", "vdot", "linalg_vecdot"}
PRODUCTS = {
    "matmul", "bmm", "einsum", "__matmul__", "__rmatmul__", "mm", "mv", "tensordot", "linalg_matmul",
    "linalg_multi_dot", "chain_matmul", "_sparse_mm", "smm", *ADDED, *TURNED, *_DOTS,
}  # fmt: skip
# What a softmax that is spelled out takes of scores; how its weights go on from there is not followed.
SPELLED = {"exp", "exp_", "exp2", "exp2_", "expm1", "expm1_", "logsumexp"}
# Which are ``exp`` where the exponent is a tensor.
_POWERS = {"pow", "__pow__", "__rpow__", "float_power"}
# What is divided by a sum in itself, before or after ``exp``.
LOGS = {"logsumexp", "log_softmax", "_log_softmax"}
# By which numbers leave torch, for where nobody follows them.
LEAVES = {"numpy", "tolist", "__array__", "__dlpack__", "data_ptr"}
# Linear maps are many, and mix by parameters, all but a few.
_BEGINNINGS = (SOFTMAX | PRODUCTS | SPELLED | LOGS | LEAVES | {"__rpow__"}) - {"linear"}
# Products with parameters and everything else after which scores are no scores any more.
# The cosine of a product is that of a position.
ENDS = {
    "linear", "conv1d", "conv2d", "conv3d", "layer_norm", "group_norm", "batch_norm", "rms_norm", "embedding", "cos",
    "sin", "lstm", "gru", "rnn_tanh", "rnn_relu",
}  # fmt: skip
CASTS = {"to", "type", "type_as", "float", "half", "bfloat16", "double", "contiguous", "clone", "detach", "cpu"}
VIEWS = {
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten", "transpose", "permute", "swapaxes", "movedim",
    "expand", "expand_as", "view_as", "reshape_as", "__getitem__", "repeat_interleave", "narrow", "__get__",
}  # fmt: skip
# What puts tensors together; padded ones are viewed as bands later.
JOINS = {
    "cat", "concat", "concatenate", "stack", "hstack", "vstack", "repeat", "tile", "block_diag", "__setitem__",
}  # fmt: skip
CHANGES = {
    "masked_fill", "masked_fill_", "mul", "mul_", "__mul__", "__rmul__", "__imul__", "where", "nan_to_num", "div",
    "div_", "__truediv__", "__itruediv__", "tril", "triu", "clamp", "clamp_", "normalize",
}  # fmt: skip
# Where what ``exp`` gave ends as something else than weights.
PLAIN = ENDS | {"sum", "add", "add_", "__add__", "__radd__", "__iadd__", "sub", "sub_", "__sub__", "__rsub__", "rsub"}
# What keeps a sum from being zero.
SHIFTS, SLIGHT = {"add", "add_", "__add__", "__radd__", "__iadd__"}, 1e-4
SHAPED = {
    "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "new_zeros", "new_ones",
    "new_empty", "new_full",
}  # fmt: skip
LINEAR = functional.linear
_OPERATORS = torch._ops.OpOverload, torch._ops.OpOverloadPacket
# All names that are told here.
_TOLD = _BEGINNINGS | ENDS | CASTS | VIEWS | JOINS | CHANGES | PLAIN | SHIFTS | SHAPED | _POWERS
_MOST = 4096
# Of functions, such as a loop.
_ORDERED = (torch._ops.HigherOrderOperator,)


def begins(func: Callable[..., Any]) -> bool:
    """Whether scores or weights may begin with a function: a softmax, a product, an operator by its own name."""
    return name_of(func) in _BEGINNINGS or isinstance(func, _OPERATORS + _ORDERED)


def may_begin(func: Callable[..., Any]) -> Callable[[Any, Any], bool] | None:
    """Of a function with whose arguments alone scores or weights may begin: with which."""
    return multiplies if func is LINEAR else _raises if name_of(func) in _POWERS else None


def among(args: Any, kwargs: Any, known: Mapping[int, object]) -> bool:
    """Whether some of what is known by its number is among arguments, or in a list of these."""
    return any(
        id(x) in known or (type(x) in (list, tuple) and any(id(y) in known for y in x))
        for x in ((*args, *kwargs.values()) if kwargs else args)
    )


def multiplies(args: Any, kwargs: Any) -> bool:
    """Whether a linear map is one by what is no parameter, which is a product of two activations."""
    return len(args) < 2 or type(args[1]) is not Parameter


def spells(name: str, args: Any, kwargs: Any) -> bool:
    """Whether a function may be the first half of a softmax."""
    return name in SPELLED or (name in _POWERS and _raises(args[::-1] if name == "__rpow__" else args, kwargs))


def _raises(args: Any, kwargs: Any) -> bool:
    """Whether a power has several exponents, and no more bases."""
    base, exponent = (*args, *kwargs.values())[:2]
    if not isinstance(exponent, Tensor) or exponent.numel() < 2:
        return False
    return not isinstance(base, Tensor) or base.numel() <= exponent.numel()


def name_of(func: Callable[..., Any]) -> str:
    """The name of a function, of an operator without that of its overload; of an alias that of what it runs."""
    return _NAMES[func]


class _Names(dict[Any, str]):
    """Names of functions, asked at each one."""

    def __missing__(self, func: Any) -> str:
        if len(self) > _MOST:
            self.clear()
        name = func.__name__.partition(".")[0].removeprefix("special_")
        self[func] = found = name if name in _TOLD else pointwise(func)[1] or name
        return found


_NAMES = _Names()


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Which operators run, and how many arguments each gets."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ran: list[tuple[Any, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ran.append((func, len(args)))
        return func(*args, **(kwargs or {}))


@cache
def pointwise(func: Callable[..., Any]) -> tuple[bool, str | None]:
    """Whether a function of torch runs pointwise operators alone, and the name of the one that it is another name of.

    It is run on one tensor, or two, that have no numbers.
    """
    if not makes(func):
        return False, None
    for n in (1, 2):
        some = [torch.empty(2, 3, device="meta") for _ in range(n)]
        try:
            with warnings.catch_warnings(action="ignore"), SILENT(), torch.no_grad(), _Operators() as heard:
                func(*some)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError):
            continue
        ran = heard.ran
        every = bool(ran) and all(torch.Tag.pointwise in op.tags for op, _ in ran)
        return every, name_of(ran[0][0]) if every and len(ran) == 1 and ran[0][1] == n else None
    return False, None


def makes(func: Callable[..., Any]) -> bool:
    """Whether a function of torch makes a tensor, of others."""
    schemas = _schemas(func)
    if not schemas:
        return getattr(functional, func.__name__, None) is func
    return any(all(x and str(x[0].type) == "Tensor" for x in (some.returns, some.arguments)) for some in schemas)


def axis_of(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The axis along which a function of torch is to run, if that is one of its arguments."""
    places = {i for some in _schemas(func) for i, x in enumerate(some.arguments) if x.name == "dim"}
    given = (args[i] for i in places if i < len(args))
    return kwargs.get("dim", kwargs.get("axis", next(given, None)))


@cache
def _schemas(func: Callable[..., Any]) -> list[Any]:
    # Of properties, such as a real part, it is their own name.
    name = getattr(func, "__self__", func).__name__ if func.__name__ == "__get__" else func.__name__
    ops = (getattr(torch.ops.aten, x, None) for x in (name, name.strip("_")))
    op = next((x for x in ops if isinstance(x, torch._ops.OpOverloadPacket)), None)
    return [] if op is None else [getattr(op, one)._schema for one in op.overloads()]  # type: ignore[no-untyped-call]


def softens(func: Callable[..., Any]) -> bool:
    """Whether it is a softmax."""
    return name_of(func) in SOFTMAX


def operator(func: Callable[..., Any]) -> str | None:
    """The whole name of an operator, such as aten::softmax, or higher_order::map; None for what is none."""
    if isinstance(func, _ORDERED):
        return f"higher_order::{func.__name__}"
    if isinstance(func, torch._ops.OpOverload):
        return f"{func.namespace}::{name_of(func)}"
    return func._qualified_op_name if isinstance(func, torch._ops.OpOverloadPacket) else None


def tensors(args: Any) -> Iterator[Tensor]:
    """Tensors among arguments, and in lists of these."""
    for x in args:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, list | tuple):
            yield from (y for y in x if isinstance(y, Tensor))


def parts(x: Any, depth: int = 3) -> Iterator[Tensor]:
    """Tensors in tuples, lists and mappings, a few levels deep."""
    if isinstance(x, Tensor):
        yield x
    elif depth and isinstance(x, list | tuple | Mapping):
        for y in x.values() if isinstance(x, Mapping) else x:
            yield from parts(y, depth - 1)
