"""How the operands of an attention lie: in which order they are packed, and what of them meets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from overt.check.steps.origins import Origin
from overt.recorder.core import Core
from overt.recorder.flow import VIEWS, constant_ratio, reach_of
from overt.recorder.operations import Line
from overt.recorder.products import made_of

# What takes rows by whole numbers, beside views; and what scores are called.
_TAKES = {"index_select", "take"}
_SCORES = ("score", "logit", "similarit", "energ")


def seen(core: Core, operands: tuple[Origin, Origin, Origin]) -> dict[str, Any]:
    """Facts of a recorded attention: how its queries, keys and values are packed.

    operands: its queries, keys and values.
    """
    facts: dict[str, Any] = {}
    # Which of one query and one key is which, nobody knows.
    one = max(core.scores.queries.shape[1], core.scores.keys.shape[1]) == 1
    packed, heads = (None, 0) if one else _packed(operands)
    line = core.operations[core.mix.number].line
    if packed is not None:
        views = operands[2 if packed in ("thirds", "heads first") else 0].views
        # What keeps all features in one axis takes nothing apart.
        axis = operands[2].along[0] if operands[2].along is not None and len(operands[2].along) == 1 else -1
        whole = operands[2].array.shape[axis]
        lines = [core.operations[view].line for view in views if whole not in core.operations[view].host.shape]
        # An equation that mixes may turn what it is given, and takes nothing apart.
        line = next((one for one in reversed(lines) if one != line), line)
        facts["packing"] = {"order": packed, "heads": heads, **place(line)}
    if (core.normal or (core.weights > 0).all()) and _turned(operands[0], operands[1]):
        facts["turned"] = place(core.operations[core.scores.number].line)
    keys, values = operands[1:]
    # Where both are arguments, and none is the other.
    given = keys.source is None and values.source is None and min(keys.array.ndim, values.array.ndim) > 1
    alike = given and np.array_equal(keys.array, values.array)
    facts["keys and values"] = given and not alike and keys.array.shape[-2] == values.array.shape[-2]
    return facts


def blank(found: Sequence[Core]) -> dict[str, Any] | None:
    """How many keys with values are zeros in every sample and have weight all the same, and where they are scored."""
    count, line = 0, None
    for core in found:
        if not core.steps or core.mix.columns == "":
            continue
        values = core.mix.form(core.mix.right, core.mix.labels[1], core.mix.columns, core.mix.summed).swapaxes(1, 2)
        keys, weights = core.scores.keys, core.steps[-1][1]
        if keys.shape[1] != values.shape[1] or weights.shape[1] != keys.shape[1]:
            continue
        none = np.asarray(~keys.any((0, 2)) & ~values.any((0, 2)) & (weights > 0).all(0))
        if not none.all() and _kept(core):
            # Before what is written into a cache stands what the caller says is there already.
            none[: none.argmin() + 1] = False
        # Of nothing but zeros nothing is seen.
        if none.any() and not none.all():
            count += int(none.sum())
            line = line or core.operations[core.scores.number].line
    return {"keys": count, **place(line)} if count else None


def _kept(core: Core) -> bool:
    """Whether the keys were written into something that is zeros, and that the candidate has."""
    made = (core.operations[n] for n in made_of(core.operations, core.scores.sources[1], to_products=True))
    return any(o.startswith("parameter") and x.ndim > 1 and not x.any()
               for one in made for o, x in zip(one.origins, one.operands, strict=True))  # fmt: skip


def place(line: Line | None) -> dict[str, Any]:
    """A line as a report has it."""
    return {"line": line.number if line else None, "file": line.file if line else ""}


def _turned(queries: Origin, keys: Origin) -> bool:
    """Whether the features of queries meet something else of the keys, which is as long."""
    last = queries.array.ndim - 1
    if last < 2 or keys.array.ndim != last + 1:
        return False
    one, two = queries.along, keys.along
    return one == [last] and two is not None and len(two) == 1 and two != one


def across(queries: Origin, keys: Origin) -> bool:
    """Whether the keys of a row are the features of one position, and what meets a query's features is its heads.

    That is what keys (B, H, S, D) come to in (B, S, H, D), where S, H and D are one number.
    """
    at = keys.places
    if at is None or queries.along is None or keys.form.shape[1] < 2 or keys.form.shape[2] < 2:
        return False
    last = keys.array.ndim - 1
    moving = [axis for axis, c in enumerate(at) if (c != c[:, :1]).any()]
    asking = [axis for axis, c in enumerate(queries.places or ()) if (c != c[:, :1]).any()]
    row = at[last][0]
    strided = row[1, 0] - row[0, 0] == 1 and row[0, 1] - row[0, 0] > 1
    return moving == keys.along == [last] and asking != queries.along == [queries.array.ndim - 1] and bool(strided)


def fetched_apart(core: Core, both: tuple[Origin, Origin], reach: Sequence[frozenset[str]], seen: np.ndarray) -> bool:
    """Whether keys and values are fetched from other places of two arrays, by what says the places of both.

    seen: which of them, (batch, keys), have weight.
    """
    keys, values = both
    given = keys.source is None and values.source is None and keys.array.shape == values.array.shape
    if not given or keys.places is None or values.places is None or np.array_equal(keys.array, values.array):
        return False
    by = [[reach_of(core.operations[n], i, reach) for n in one.views for i, x in enumerate(core.operations[n].operands)
           if i and x.dtype.kind in "iu" and x.size > 1] for one in both]  # fmt: skip
    names = [frozenset[str]().union(*some) for some in by]
    if not all(by) or not any(names) or not (names[0] <= names[1] or names[1] <= names[0]):
        # What has a table of its own lies where that says.
        return False
    along = [(a[:, :, 0], b[:, :, 0]) for a, b in zip(keys.places, values.places, strict=True) if (a != a[:, :1]).any()]
    return all(a.shape == b.shape == seen.shape for a, b in along) and any((a != b)[seen].any() for a, b in along)


def chosen(core: Core, largest: Sequence[str]) -> tuple[bool, bool, Line | None]:
    """Whether what attends, or is attended to, was taken by the smallest numbers of something, or all of it was; where.

    largest: what is said to be largest: what the code calls so where it puts it in order, or scores.
    """
    operations, scores = core.operations, core.scores.result
    made = [*core.path, *(n for s in core.scores.sources for n in made_of(operations, s, to_products=True))]
    picking = [operations[n] for n in made if operations[n].name in VIEWS | _TAKES]
    by = (s for one in picking for s, x in zip(one.sources, one.operands, strict=True) if x.dtype.kind in "iu")
    for source in by if largest else ():
        order = [operations[n] for n in sorted(made_of(operations, source)) if operations[n].host.dtype.kind in "iu"]
        both = [(one, x, s) for one in order for x, s in zip(one.operands, one.sources, strict=True)]
        for one, measure, before in both:
            text = (one.line.text if one.line else "").lower()
            sorts = r"(arg)?(top_?k|sort|partition)"
            said = any(re.search(rf"\b{re.escape(n)}\.{sorts}\(|{sorts}\(\W*{re.escape(n)}\b", text) for n in largest)
            ratio = constant_ratio(scores, measure)
            said |= ratio is not None and ratio > 0 and any(n.startswith(_SCORES) for n in largest)
            some = next((x.host for x in reversed(order) if x.host.shape[:-1] == measure.shape[:-1]), None)
            sure = said and some is not None and some.size and measure.dtype.kind == "f" and measure.ndim
            if not sure or some is None or some.max() >= measure.shape[-1]:
                continue
            taken = np.zeros(measure.shape, bool)
            np.put_along_axis(taken, some.astype(int), True, -1)
            if taken.all():
                return False, True, one.line
            # What is turned round is what it was, from its other end.
            turned = before is not None and any(np.array_equal(x, -measure) for x in operations[before].operands)
            those = -measure if turned else measure
            if (np.where(taken, those, -np.inf).max(-1) < np.where(taken, np.inf, those).min(-1)).all():
                return True, False, one.line
    return False, False, None


def _packed(operands: tuple[Origin, Origin, Origin]) -> tuple[str | None, int]:
    """The order of q, k and v along the features of what they were taken from, if any, and their heads' number.

    "qkv" and the like: all heads of one, then those of the next; "heads first": the three of each head; "thirds" where
    the values alone are seen to be of all heads, since the others are turned, and "heads first" where they are not.
    """
    values = operands[2]
    # Features come first where positions are the last, as behind a convolution.
    axis = values.along[0] if values.along is not None and len(values.along) == 1 else -1
    at, whole, width = values.places, values.array.shape[axis], values.form.shape[2]
    if operands[0].array.shape != values.array.shape and at is not None:
        first = sorted({int(n) for n in at[axis][:, 0, 0]})
        if whole != 3 * width * len(first) or len(first) < 2:
            return None, len(first)
        alone = len({3 * n // whole for n in first}) == 1
        each = all(b - a == 3 * width for a, b in pairwise(first))
        return ("thirds" if alone else "heads first" if each else None), len(first)
    arrays = [one.array for one in operands]
    if any(x.shape != arrays[0].shape or not np.array_equal(x, arrays[0]) for x in arrays[1:]):
        return None, 0
    starts = []
    for one in operands:
        at, width = one.places, one.form.shape[2]
        if at is None or (at[axis] != at[axis][:, :1, :1] + np.arange(width)).any():
            return None, 0
        starts.append(sorted({int(n) for n in at[axis][:, 0, 0]}))
    width, whole = operands[0].form.shape[2], arrays[0].shape[axis]
    if whole % (3 * width) or any(len(x) != len(starts[0]) for x in starts):
        return None, 0
    order = "".join(letter for _, letter in sorted(zip((x[0] for x in starts), "qkv", strict=True)))
    # Some heads may be taken alone.
    thirds = [{3 * start // whole for start in x} for x in starts]
    if sorted(thirds, key=min) == [{0}, {1}, {2}]:
        return order, len(starts[0])
    each = all(b - a == 3 * width for x in starts for a, b in pairwise(x))
    return f"heads first {order}" if each else None, len(starts[0])
