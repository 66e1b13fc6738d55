"""How the operands of an attention lie: in which order they are packed, and along which axis it attends."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from overt.check.positional import Operand
from overt.recorder.core import Core
from overt.recorder.flow import VIEWS
from overt.recorder.operations import Line


def seen(core: Core, operands: tuple[Operand, Operand, Operand]) -> dict[str, Any]:
    """Facts of a recorded attention: how its queries, keys and values are packed, and whether it attends along axis 0.

    operands: its queries, keys and values.
    """
    facts: dict[str, Any] = {}
    packed = _packed(operands)
    line = core.operations[core.mix.number].line
    if packed is not None:
        views = operands[0].views
        line = core.operations[views[-1]].line if views else line
        facts["packing"] = {"order": packed, **_place(line)}
    if (core.normal or (core.weights > 0).all()) and _turned(operands[0], operands[1]):
        facts["turned"] = _place(core.operations[core.scores.number].line)
    keys, values = operands[1:]
    # Where both are arguments, and none is the other.
    given = keys.source is None and values.source is None and min(keys.array.ndim, values.array.ndim) > 1
    alike = given and np.array_equal(keys.array, values.array)
    facts["keys and values"] = given and not alike and keys.array.shape[-2] == values.array.shape[-2]
    if _along_samples(core, operands[2]):
        scores = core.operations[core.scores.number]
        facts["time first"] = {**_place(scores.line), "fused": scores.detail == "fused"}
    return facts


def _place(line: Line | None) -> dict[str, Any]:
    return {"line": line.number if line else None, "file": line.file if line else ""}


def _turned(queries: Operand, keys: Operand) -> bool:
    """Whether the features of queries meet something else of the keys, which is as long."""
    last = queries.array.ndim - 1
    if last < 2 or keys.array.ndim != last + 1:
        return False
    one, two = queries.along(), keys.along()
    return one == [last] and two is not None and len(two) == 1 and two != one


def _packed(operands: tuple[Operand, Operand, Operand]) -> str | None:
    """The order of q, k and v in the last axis of the one array that they were taken from, None where there is none.

    "qkv" and the like: all heads of one, then those of the next; "heads first": the three of each head.
    """
    arrays = [one.array for one in operands]
    if any(x.shape != arrays[0].shape or not np.array_equal(x, arrays[0]) for x in arrays[1:]):
        return None
    starts = []
    for one in operands:
        at, width = one.places(), one.form.shape[2]
        if at is None or (at[-1] != at[-1][:, :1, :1] + np.arange(width)).any():
            return None
        starts.append(sorted({int(n) for n in at[-1][:, 0, 0]}))
    width, whole = operands[0].form.shape[2], arrays[0].shape[-1]
    if whole % (3 * width) or any(len(x) != len(starts[0]) for x in starts):
        return None
    order = "".join(letter for _, letter in sorted(zip((x[0] for x in starts), "qkv", strict=True)))
    # Some heads may be taken alone.
    thirds = [{3 * start // whole for start in x} for x in starts]
    if sorted(thirds, key=min) == [{0}, {1}, {2}]:
        return order
    each = all(b - a == 3 * width for x in starts for a, b in pairwise(x))
    return f"heads first {order}" if each else None


def _along_samples(core: Core, values: Operand) -> bool:
    """Whether keys lie along the first axis of what was given, and samples along the second."""
    at, array = values.places(), values.array
    if at is None or array.ndim < 3 or array.shape[0] == array.shape[1] or min(array.shape[:2]) < 2:
        return False
    keys, samples = list[int](), list[int]()
    for axis in (0, 1):
        c = at[axis]
        if (c == c[:1, :, :1]).all() and len(np.unique(c)) == array.shape[axis]:
            keys.append(axis)
        elif (c == c[:, :1, :1]).all() and len(np.unique(c)) == array.shape[axis]:
            samples.append(axis)
    if len(keys) != 1 or len(samples) != 1:
        return False
    # Which of the two axes that is of what was given.
    waiting = [(keys[0], values.source, "argument", array.shape[:2])]
    while waiting:
        axis, number, origin, shape = waiting.pop()
        if number is None:
            if axis == 0 and origin.startswith("argument"):
                return True
            continue
        operation = core.operations[number]
        given = [one for one in zip(operation.sources, operation.origins, operation.operands, strict=True)
                 if (one[0] is not None or one[1].startswith("argument")) and one[2].ndim >= 2]  # fmt: skip
        before = [one for one in given if set(one[2].shape[:2]) == set(shape)]
        # What lies behind one another in the second axis keeps the first.
        before = before or [one for one in given if axis == 0 and one[2].shape[0] == shape[0]]
        for source, origin, x in before:
            turned = x.shape[:2] == shape[::-1] != shape
            if not turned or operation.name in VIEWS:
                waiting.append((1 - axis if turned else axis, source, origin, x.shape[:2]))
    return False
