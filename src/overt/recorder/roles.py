"""What each operation of a recorded attention is: its queries, keys, scores, mask, weights, values and output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from overt.recorder.core import Core, attentions
from overt.recorder.flow import constant_ratio, sums_to_one
from overt.recorder.operations import Operation


def roles(operations: Sequence[Operation]) -> dict[int, dict[str, int | None]]:
    """The attentions among operations: for each, by the number of the one that gives its output, the numbers by role.

    A role that no operation has, because it was an argument, is None.
    """
    written, chosen, before = attentions(operations)
    found: dict[int, dict[str, int | None]] = {}

    def old(number: int | None) -> int | None:
        return None if number is None else before[number]

    for core in chosen:
        output = before[core.mix.number]
        parts: dict[str, int | None] = {}
        if written[core.mix.number].detail == "fused":
            found[output] = _fused(operations, output) | {"output": output}
            continue
        if core.two:
            parts |= {"queries": old(core.scores.sources[0]), "keys": old(core.scores.sources[1])}
        parts["scores"] = old(core.scores.number)
        parts |= {name: old(number) for name, number in _named(core).items()}
        parts |= {"values": old(core.mix.sources[1]), "output": output}
        found[output] = parts
    return found


def _fused(operations: Sequence[Operation], number: int) -> dict[str, int | None]:
    """What a fused attention is given; of one that makes its queries of that itself, the weights that it gives too."""
    fused = operations[number]
    if fused.name != "multi_head_attention_forward":
        return dict(zip(("queries", "keys", "values"), fused.sources, strict=False))
    beside = operations[number + 1] if number + 1 < len(operations) else None
    given = beside is not None and (beside.name, beside.line) == (fused.name, fused.line)
    return {"weights": number + 1} if given else {}


def _named(core: Core) -> dict[str, int]:
    """The steps of a core that scale, that hide and that give the weights."""
    found: dict[str, int] = {}
    values = core.steps
    raw = values[0][1] if values else None
    low = 0.0 if raw is None or not raw.size else float(np.nanmin(raw))
    for (_, x), (number, y) in pairwise(values):
        if number is None or np.array_equal(x, y, equal_nan=True):
            continue
        ratio = constant_ratio(x, y) if "scaled" not in found and "masked" not in found else None
        if ratio is not None and abs(ratio - 1) > 1e-4:
            found["scaled"] = number
        if "masked" not in found and np.isfinite(x).all() and np.nanmin(y) <= -1e4 < low:
            found["masked"] = number
    source = core.mix.sources[0]
    axes = set(core.normal)
    made = [i for i in (*core.path, source) if i is not None and axes and sums_to_one(core.operations[i].host)]
    weights = made[0] if made else source
    return found | ({} if weights is None else {"weights": weights})
