"""One call again and again: an object that keeps what it was given, and weights that are remembered."""

from __future__ import annotations

from typing import Any

import numpy as np

from overt.check import calls
from overt.check.calls import Guess
from overt.check.interface import Interface
from overt.check.part import same
from overt.check.session import Here, Session

# Calls of which the last is looked into.
_CALLS = 4


def steps(session: Session | Here, face: Interface, handle: int, guess: Guess) -> dict[str, Any]:
    """What the recording of the last of a few calls comes to, each with other numbers, of an object that keeps them."""
    specs: list[dict[str, Any]] = []
    given: dict[str, np.ndarray] = {}
    for number in range(_CALLS):
        args, kwargs, mine = calls.specs(guess, face, f"{number} ")
        random = np.random.default_rng(number)
        given |= {name: random.normal(size=x.shape) if x.dtype.kind == "f" else x for name, x in mine.items()}
        specs.append({"args": args, "kwargs": kwargs, "backend": face.description["backend"], "still": True,
                      "train": False, "dtype": guess.dtype, "fresh": number == 0,
                      "method": face.description["method"]})  # fmt: skip
    specs[-1]["record"] = {}
    reply, _ = session.ask({"op": "call", "handle": handle, "calls": specs}, given)
    return dict(reply["replies"][-1].get("judged", {})) if "replies" in reply else {}


def forgets_query(session: Session | Here, face: Interface, handle: int | None, guess: Guess) -> bool:
    """Whether weights are remembered by the keys alone: a second query with the same keys gets what the first got."""
    kinds = [(".".join(path), kind) for path, kind in guess.kinds]
    arrays = [name for name, kind in kinds if calls.is_floats(kind)]
    if len(arrays) < 2:
        return False
    specs: list[dict[str, Any]] = []
    given: dict[str, np.ndarray] = {}
    for number in range(3):
        args, kwargs, mine = calls.specs(guess, face, f"{number} ")
        query = mine[f"{number} {arrays[0]}"]
        mine[f"{number} {arrays[0]}"] = query + (0.0 if number == 0 else 1.0) * np.cos(np.arange(query.size)).reshape(
            query.shape
        )
        if number == 2:
            # The same keys to the eye, and others to the memory.
            mine |= {f"2 {name}": mine[f"2 {name}"] + 1e-9 for name in arrays[1:]}
        given |= mine
        specs.append({"args": args, "kwargs": kwargs, "backend": face.description["backend"], "still": True,
                      "train": False, "dtype": guess.dtype, "fresh": number == 0})  # fmt: skip
        if handle is not None:
            specs[-1]["method"] = face.description["method"]
    reply, out = session.ask({"op": "call", "handle": handle, "calls": specs}, given)
    replies = reply.get("replies", [])
    if len(replies) < 3 or not all(r.get("outputs") for r in replies):
        return False
    first, second, third = (out[r["outputs"][0]["key"]] for r in replies)
    return first.shape == third.shape and np.array_equal(first, second) and not same(second, third, 1e-3)
