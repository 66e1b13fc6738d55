"""Operations, values and source lines of somebody's own code, as it runs: NumPy, torch, JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overt.recorder.operations import Line, Log, Operation, leaves

__all__ = ["Line", "Log", "Operation", "library_of", "record_operations"]


def record_operations(
    function: Callable[..., Any], *args: Any, _limit: int | None = None, _library: str = "numpy", **kwargs: Any
) -> tuple[Any, list[Operation]]:
    """What a function, a module or an object with ``__call__`` returns, and every operation on arrays that it did.

    The library is that of the arguments' arrays, or of the function itself; without any, ``_library``.  Arrays among
    the arguments are not changed in NumPy, where a copy is given; values are copies, so memory is that of all
    intermediates together.  Beyond ``_limit`` operations it raises ArgumentError.
    """
    log = Log(limit=_limit)
    library = library_of((args, kwargs, function), _library)
    if library == "torch":
        from overt.recorder.tensors import run
    elif library in ("jax", "jaxlib"):
        from overt.recorder.traced import run
    else:
        from overt.recorder.arrays import run
    return run(function, args, kwargs, log), log.operations


def library_of(values: Any, otherwise: str = "numpy") -> str:
    """The library of the first array, in whatever the values lie, that is no array of NumPy."""
    return next((own for x in leaves(values) if (own := _own(x)) != "numpy"), otherwise)


def _own(x: Any) -> str:
    """The library among whose classes that of x is, or is built on one."""
    names = [base.__module__.partition(".")[0] for base in type(x).__mro__]
    return next((name for name in names if name in ("torch", "jax", "jaxlib")), "numpy")
