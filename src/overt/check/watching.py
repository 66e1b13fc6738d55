"""A call that is recorded and judged, where the candidate runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from overt.check.arrays import leaves
from overt.check.describe import parameters
from overt.check.judging import judge
from overt.recorder import record_operations

# Operations on arrays in one call.
_MOST = 20_000


def watched(
    function: Callable[..., Any], thing: Any, asked: dict[str, Any], told: dict[str, Any]
) -> Callable[..., Any]:
    """The function, which when it is called fills ``told`` with what its recording came to: {"cores", "faults", …}."""

    def call(*args: Any, **kwargs: Any) -> Any:
        result, operations = record_operations(function, *args, _limit=_MOST, **kwargs)
        outputs = [x for x in (_plain(leaf) for _, leaf in leaves(result)) if x is not None]
        names = [name for name, _ in thing.named_parameters()] if hasattr(thing, "named_parameters") else []
        try:
            judged = judge(operations, outputs, causal=asked.get("causal"), parameters=names, intended=asked)
        except (ValueError, IndexError, TypeError, KeyError, AssertionError):
            # The recording is of a kind that was not foreseen: nothing is said of it.
            told["error"] = traceback.format_exc()
            return result
        told["cores"] = judged.cores
        told["faults"] = [asdict(fault) for fault in judged.faults]
        told["ledger"] = [asdict(entry) for entry in judged.ledger]
        told["facts"] = judged.facts
        rows = parameters(thing, None, {}) if hasattr(thing, "named_parameters") else []
        told["facts"] |= {"unregistered": [row["path"] for row in rows if not row["registered"]]}
        return result

    return call


def _plain(leaf: Any) -> np.ndarray | None:
    if hasattr(leaf, "detach"):
        leaf = leaf.detach()
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError):
        return None
    return array if array.dtype.kind == "f" else None
