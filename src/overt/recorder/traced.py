"""JAX code, recorded by its jaxpr."""

from __future__ import annotations

import sysconfig
from collections.abc import Callable
from typing import Any

import numpy as np

from overt.recorder.operations import Line, Log, is_own, leaves

# Calls of functions that are as good as written out.
_CALLS = {"jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint"}


def run(function: Callable[..., Any], args: Any, kwargs: dict[str, Any], log: Log) -> Any:
    """Call a function of JAX arrays and note what it does; gives its result."""
    import jax

    flat, tree = jax.tree_util.tree_flatten((args, kwargs))
    dynamic = [i for i, x in enumerate(flat) if isinstance(x, jax.Array | np.ndarray)]

    def call(*arrays: Any) -> Any:
        filled = list(flat)
        for i, x in zip(dynamic, arrays, strict=True):
            filled[i] = x
        given, named = jax.tree_util.tree_unflatten(tree, filled)
        return function(*given, **named)

    given = [flat[i] for i in dynamic]
    closed, shape = jax.make_jaxpr(call, return_shape=True)(*given)
    # A tree of JAX has the names of a dictionary in another order than the dictionary.
    number = {id(x): i for i, x in enumerate(x for x in leaves((args, list(kwargs.values()))) if hasattr(x, "shape"))}
    results = _evaluate(closed.jaxpr, closed.consts, [(x, -1 - number.get(id(x), i)) for i, x in enumerate(given)], log)
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), [x for x, _ in results])


def _evaluate(jaxpr: Any, consts: Any, given: list[tuple[Any, int | None]], log: Log) -> list[tuple[Any, int | None]]:
    """The results of a jaxpr, each with the number of the operation that it came from."""
    known: dict[Any, tuple[Any, int | None]] = dict(zip(jaxpr.constvars, ((x, None) for x in consts), strict=True))
    known |= dict(zip(jaxpr.invars, given, strict=True))

    def read(atom: Any) -> tuple[Any, int | None]:
        return (atom.val, None) if hasattr(atom, "val") else known[atom]

    for equation in jaxpr.eqns:
        inputs = [read(atom) for atom in equation.invars]
        name = equation.primitive.name
        inner = next((equation.params[key] for key in ("jaxpr", "call_jaxpr") if key in equation.params), None)
        if name in _CALLS and inner is not None:
            body, held = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, [])
            outputs = _evaluate(body, held, inputs, log)
        else:
            made = equation.primitive.bind(*(x for x, _ in inputs), **equation.params)
            made = made if equation.primitive.multiple_results else [made]
            arrays = [(x, number) for x, number in inputs if np.ndim(x)]
            operands = tuple(np.asarray(x) for x, _ in arrays)
            # Arguments are numbered from -1 downwards.
            sources = tuple(None if number is None or number < 0 else number for _, number in arrays)
            origins = tuple("" if n is None or n >= 0 else f"argument {-1 - n}" for _, n in arrays)
            line, axes = _line(equation), _axes(equation)
            outputs = [(x, log.note(name, sources, operands, x, np.asarray(x), axes, line, origins)) for x in made]
        known |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _axes(equation: Any) -> str:
    return str(equation.params.get("dimension_numbers", ""))


def _line(equation: Any) -> Line | None:
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        path = frame.file_name
        if is_own(_module(path)):
            return Line(path, frame.line_num)
    return None


def _module(path: str) -> str:
    """The package that a file belongs to."""
    parts = path.replace("\\", "/").split("/")
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1]
    # The standard library calls what it is given, and so does this package.
    return "overt" if path == __file__ or path.startswith(sysconfig.get_path("stdlib")) else "__main__"
