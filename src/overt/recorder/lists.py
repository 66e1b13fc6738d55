"""Code without any library of arrays: it is given lists of numbers, and gives such."""

from __future__ import annotations

import ast
import functools
import textwrap
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from overt.recorder.operations import leaves

# What arrays can be asked for, and nothing else that holds numbers.
_OF_ARRAYS = {*dir(np.ndarray), "mT"} - {*dir(list), *dir(dict), *dir(str), *dir(float)}


def takes_lists(source: str) -> bool:
    """Whether code, whose module has no arrays, does nothing that only arrays can."""
    with suppress(SyntaxError, ValueError):
        nodes = [*ast.walk(ast.parse(textwrap.dedent(source)))]
        # Of code that is not there nothing is known.
        return len(nodes) > 1 and not any(
            isinstance(x, ast.MatMult) or (isinstance(x, ast.Attribute) and x.attr in _OF_ARRAYS)
            or (isinstance(x, ast.Subscript) and isinstance(x.slice, ast.Tuple))
            for x in nodes
        )  # fmt: skip
    return False


def on_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is given lists in place of arrays, and whose lists are given back as arrays.

    Numbers of an array that is recorded stay parts of it.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return arrays(function(*lists(args), **lists(kwargs)))

    return call


def lists(x: Any) -> Any:
    """Nested lists in place of arrays, in whatever these lie."""
    if isinstance(x, np.ndarray):
        if type(x) is np.ndarray or x.dtype.kind != "f":
            return x.tolist()
        return [lists(row) for row in x] if x.ndim else x
    if isinstance(x, dict):
        return {key: lists(y) for key, y in x.items()}
    return type(x)(lists(y) for y in x) if type(x) in (list, tuple) else x


def arrays(x: Any) -> Any:
    """An array in place of each list of numbers that are not all whole, as large as can be."""
    if isinstance(x, dict):
        return {key: arrays(y) for key, y in x.items()}
    if type(x) not in (list, tuple) or not x:
        return x
    if _shape(x) is not None and not all(isinstance(y, int) for y in leaves(x)):
        return np.array(x)
    return type(x)(arrays(y) for y in x)


def _shape(x: Any) -> tuple[int, ...] | None:
    """Of numbers in lists of one length; None of anything else."""
    if isinstance(x, int | float | np.number) and not isinstance(x, bool):
        return ()
    if isinstance(x, np.ndarray) and not x.ndim:
        return ()
    if not isinstance(x, list) or not x:
        return None
    shapes = {_shape(y) for y in x}
    first = shapes.pop()
    return None if shapes or first is None else (len(x), *first)
