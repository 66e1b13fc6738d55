"""A call that is recorded and judged, where the candidate runs."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from overt.check.process.arrays import leaves
from overt.check.process.describe import is_keras
from overt.check.process.parameters import parameters
from overt.check.steps.judging import judge
from overt.recorder import record_operations
from overt.recorder.flow import masklike
from overt.recorder.operations import Operation

# Operations on arrays, or on numbers, in one call.
_MOST = 60_000


def watched(
    function: Callable[..., Any],
    thing: Any,
    asked: dict[str, Any],
    told: dict[str, Any],
    passing: Iterable[int],
    parts: Mapping[int, int],
) -> Callable[..., Any]:
    """The function, which when it is called fills ``told`` with what its recording came to: {"cores", "faults", …}.

    passing: the identities of the arrays that a request names, by which arguments are numbered; others are parameters.
    parts: those of rows of these, each with that of its array.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_keras(type(thing)) and not all(layer.built for layer in thing._flatten_layers()):
            # Its weights are made by a call, which Keras may make twice for that.
            function(*args, **kwargs)
        result, operations = record_operations(function, *args, _limit=_MOST, **kwargs)
        returned = [(path, x) for path, leaf in leaves(result) if (x := plain(leaf)) is not None]
        outputs = [x for _, x in returned]
        rows = [] if inspect.isroutine(thing) else parameters(thing, None, {})
        given = {f"parameter {row['path']}": row["shape"] for row in rows if row["registered"]}
        order = {identity: f"argument {n}" for n, identity in enumerate(passing)}
        order |= {one: f"argument row {n} of {order[of].split()[-1]}" for n, (one, of) in enumerate(parts.items())}
        lying = [leaf for _, leaf in leaves((args, list(kwargs.values()))) if hasattr(leaf, "shape")]
        names = {f"argument {n}": order.get(id(x), f"parameter made {n}") if order else f"argument {n}"
                 for n, x in enumerate(lying)}  # fmt: skip
        operations = [_renamed(one, names) for one in operations]
        arrays = [plain(leaf) for leaf in lying]
        given |= {name: x.shape for name, x in zip(names.values(), arrays, strict=True)
                  if x is not None and not masklike(x)}  # fmt: skip
        try:
            said = asked | {"returned": [path for path, _ in returned]}
            judged = judge(operations, outputs, causal=asked.get("causal"), given=given, intended=said)
        except MemoryError:
            raise
        except Exception:
            # The recording is of a kind that was not foreseen: nothing is said of it.
            told["error"] = traceback.format_exc()
            return result
        told["cores"] = judged.cores
        told["faults"] = [asdict(fault) for fault in judged.faults]
        told["ledger"] = [asdict(entry) for entry in judged.ledger]
        told["facts"] = judged.facts
        read = {o.split()[-1] for operation in operations for o in operation.origins if o.startswith("argument")}
        many = len(order) - len(parts) if order else len(arrays)
        told["facts"]["unread"] = [n for n in range(many) if str(n) not in read]
        told["facts"] |= {"unregistered": [row["path"] for row in rows if not row["registered"]]}
        return result

    return call


def _renamed(operation: Operation, names: Mapping[str, str]) -> Operation:
    origins = tuple(names.get(origin, origin) for origin in operation.origins)
    return operation if origins == operation.origins else replace(operation, origins=origins)


def plain(leaf: Any) -> np.ndarray | None:
    """The numbers of an array of any library; None of anything else."""
    if hasattr(leaf, "detach"):
        leaf = leaf.detach()
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError):
        return None
    return array if array.dtype.kind == "f" else None
