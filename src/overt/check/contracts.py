"""What is agreed on beside the numbers: how packed rows lie, which axis has the samples, what is registered.

What is there is seen in a recording, or by another call; whether it should be, only the text says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.asking import Caller, Way
from overt.check.calls import Guess
from overt.check.findings import Findings


def check(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """What the facts of a call, and some calls more, come to beside what is promised."""
    face = caller.face
    lost = facts.get("unregistered", ())
    if lost:
        findings.add(
            "python_list",
            message=f"{len(lost)} parameters are not registered (such as {', '.join(lost[:3])}): "
            "the layers are in a plain list or dict, so nothing trains, moves or saves them.",
        )
    packing = facts.get("packing")
    if packing is not None:
        order, promised = packing["order"], face.promised_packing
        if promised is None or order.startswith(promised):
            findings.convention["packed projection"] = order
        else:
            # A name promises no more than that the three are there.
            named = face.told_packing is None and order.startswith("heads first")
            findings.add("qkv_order", kind="convention" if named else None, line=packing["line"])
    if "time first" in facts and face.batches_first is not False:
        findings.add("batch_first", kind=None if face.batches_first else "convention", line=facts["time first"]["line"])
    _lengths(caller, guess, facts, findings)


def _lengths(caller: Caller, guess: Guess, facts: Mapping[str, Any], findings: Findings) -> None:
    """Values that are fewer than keys, where both are given."""
    axis, given = facts.get("value axis"), caller.arrays(guess)
    # The last argument of that shape is the one of the values.
    mine = [n for n, x in given.items() if x.dtype.kind == "f" and list(x.shape) == facts.get("values")][-1:]
    if not mine or not isinstance(axis, int) or not facts.get("keys and values"):
        return
    array = given[mine[0]]
    short = np.take(array, range(array.shape[axis] - 2), axis)
    plain, other = caller.ask([Way(guess), replace(Way(guess), arrays={mine[0]: short})])
    if plain.outputs and other.outputs and not other.failed and plain.outputs[0].shape == other.outputs[0].shape:
        keys = array.shape[axis]
        findings.add("kv_len_mismatch", kind="risk", example={"input": f"{keys} keys, {keys - 2} values"})
