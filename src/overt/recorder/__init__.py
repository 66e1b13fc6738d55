"""Operations, values and source lines of somebody's own code, as it runs: NumPy, torch, JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overt.recorder.operations import Line, Log, Operation, leaves

__all__ = ["Line", "Log", "Operation", "record_operations"]


def record_operations(
    function: Callable[..., Any], *args: Any, _limit: int | None = None, **kwargs: Any
) -> tuple[Any, list[Operation]]:
    """What a function, a module or an object with ``__call__`` returns, and every operation on arrays that it did.

    The library is that of the arguments' arrays; without any, NumPy's.  Arrays among the arguments are not changed in
    NumPy, where a copy is given; values are copies, so memory is that of all intermediates together.
    Beyond ``_limit`` operations it raises ArgumentError.
    """
    log = Log(limit=_limit)
    library = next((_library(x) for x in leaves((args, kwargs)) if _library(x) != "numpy"), "numpy")
    if library == "numpy" and _library(function) == "torch":
        library = "torch"
    if library == "torch":
        from overt.recorder.tensors import run
    elif library in ("jax", "jaxlib"):
        from overt.recorder.traced import run
    else:
        from overt.recorder.arrays import run
    return run(function, args, kwargs, log), log.operations


def _library(x: Any) -> str:
    """The library among whose classes that of x is, or is built on one."""
    names = [base.__module__.partition(".")[0] for base in type(x).__mro__]
    return next((name for name in names if name in ("torch", "jax", "jaxlib")), "numpy")
