"""Samples that change places between two calls, as beams do: the keys and the values that are kept go with them.

Any other method, or an argument of the later call, may move them.  Where that attends to the keys of the samples in
their new places, its output must be as if they had been there from the start; and where it does not, its output must be
as if nothing had moved.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.steps.definitions import same
from overt.check.text.lines import function_at
from overt.check.varied.asking import Caller, Way, differ

Piece = tuple[dict[str, Any], dict[str, np.ndarray]]

_LOOSE = 1e-4
_METHODS = 6
# What arguments are that keep nothing, count no tokens before, and move nothing.
STILL = ("mask", "padding", "query_mask", "causal", "training", "deterministic", "drop", "want_weights")


def check(caller: Caller, kinds: Mapping[str, str], pieces: Sequence[Piece], findings: Findings) -> bool:
    """Of two calls of which the later goes on from the earlier, with what moves the samples between them.

    Whether something does.
    """
    told = caller.face.description
    others = [name for name in told["methods"] if name != told["method"]] if caller.handle is not None else []
    (first, before), (last, after) = pieces
    axes = {name: axis for name, kind in kinds.items() if (axis := _samples(kind)) is not None}
    apart = [name for name in before if name.split(" ", 1)[-1] in axes]
    samples = {before[name].shape[axes[name.split(" ", 1)[-1]]] for name in apart}
    given = [*last["args"], *last["kwargs"].values()]
    # Numbers that may say whose each sample goes on with, such as those of parents.
    free = [a.name for a in caller.face.arguments if a.default is None and not a.required and a.role not in STILL
            and a.kind != "position" and a.name not in last["kwargs"]][:_METHODS]  # fmt: skip
    if not (others or free) or len(samples) != 1 or samples == {1}:
        return False
    order = np.arange(samples.pop())[::-1].copy()
    turned = {name: x.take(order, axes[name.split(" ", 1)[-1]]) if name in apart else x for name, x in before.items()}
    # What keeps the keys, where the instance does not itself.
    holder = next((spec for spec in given if "kept" in spec or "result" in spec), None)
    last = last | {"record": {"causal": None, "operands": True}}
    stay, go = (_seen(caller, [first, last], some | after) for some in (before, turned))
    if stay is None or go is None or same(stay[1], go[1], _LOOSE):
        return False
    ways: list[tuple[str, list[dict[str, Any]], int | None]] = []
    for name, args, result in _calls(others[:_METHODS], holder):
        move = {"method": name, "args": args, "kwargs": {}, "guess": True, "backend": last["backend"]}
        later = last if result is None else last | {"kwargs": _handed(last["kwargs"], result)}
        ways.append((name, [first, move, later], _line(told["file"], name)))
    # Of one sentence, all samples are beams.
    ways += [(name, [first, last | {"kwargs": {**last["kwargs"], name: {"array": key}}}], None)
             for name in free for key in ("order", "beams")]  # fmt: skip
    for name, specs, line in ways:
        found = _seen(caller, specs, before | after | {"order": order, "beams": order[None]})
        if found is None or any(x.shape != y.shape for x, y in zip(found, go, strict=True)):
            continue
        if same(found[1], go[1], _LOOSE):
            findings.entered("samples that change places", f"{name} moves what was kept")
            return True
        # Those of the samples that are there now, and of those that were.
        went, stayed = ([same(found[n], some[n], _LOOSE) for n in (0, 2)] for some in (go, stay))
        if went in ([True, False], [False, True]) and stayed == went[::-1]:
            moved, left = ("keys", "values") if went[0] else ("values", "keys")
            findings.add(
                "unknown", line=line, look="" if line else _taken(name),
                message=f"{name} moves the {moved} that were kept to other samples, and leaves their {left}.",
                mend="Move all that was kept by the same order.",
            )  # fmt: skip
            return True
    return False


def given(caller: Caller, guess: Guess, findings: Findings) -> None:
    """The same of one call that is given keys and values, and an argument that says whose each sample goes on with."""
    kinds, arrays = guess.by_name, caller.arrays(guess)
    kept = {name: x for name, x in arrays.items()
            if x.dtype.kind == "f" and {"B", "S"} <= {*calls.axes_of(kinds[name])}}  # fmt: skip
    if len(kept) < 2 or guess.lengths.B < 2:
        return
    order = np.arange(guess.lengths.B)[::-1].copy()
    moved = {name: x.take(order, calls.axes_of(kinds[name]).index("B")) for name, x in kept.items()}
    free = [a.name for a in caller.face.arguments if a.default is None and not a.required and a.name not in guess.names]
    for name in free:
        by = Way(guess.given((name,), f"below {guess.lengths.B}: B"), {name: order})
        one, *others = [Way(guess, {own: x}) for own, x in moved.items()]
        plain, told, all_, *each = caller.ask([Way(guess), by, Way(guess, moved), one, *others])
        if told.failed or all_.failed or not differ(plain, told):
            continue
        if not differ(told, all_):
            findings.entered("samples that change places", f"{name} moves what was kept")
            return
        alone = next((own for own, answer in zip(moved, each, strict=True) if not differ(told, answer)), None)
        if alone is not None:
            findings.add(
                "unknown", look=_taken(name),
                message=f"{name} moves {alone} to other samples, and leaves what else was kept.",
                mend="Move all that was kept by the same order.",
            )  # fmt: skip
            return


def _taken(name: str) -> str:
    """What a line looks like that uses an argument, and does not only name it."""
    return rf"\b{re.escape(name)}\b(?! is )(?! *[:=,])(?!\.shape)(?!\.size)"


def _samples(kind: str) -> int | None:
    """The axis of the samples of a kind of argument."""
    axes = calls.axes_of(kind)
    alone = "1" in axes or kind == "tokens" or kind.endswith("(B, T)")
    return axes.index("B") if "B" in axes else 0 if alone else None


def _calls(names: Sequence[str], holder: Any) -> Iterator[tuple[str, list[Any], int | None]]:
    """Ways to call what may move samples, and which result takes the holder's place."""
    order = {"array": "order"}
    for name in names:
        if holder is None:
            yield name, [order], None
            continue
        for args in ([holder, order], [order, holder]):
            # What is kept is changed, or comes back changed.
            yield from ((name, args, result) for result in ((None, 1) if "kept" in holder else (1,)))


def _handed(kwargs: Mapping[str, Any], result: int) -> dict[str, Any]:
    """Arguments with what another call returned in the place of what the first one did."""
    changed = {name for name, spec in kwargs.items() if {"result", "kept"} & spec.keys()}
    return {name: {"result": result, "item": None} if name in changed else spec for name, spec in kwargs.items()}


def _seen(
    caller: Caller, specs: list[dict[str, Any]], arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The keys, the output and the values of the last of some calls; None where one fails."""
    reply, out = caller.session.ask({"op": "call", "handle": caller.handle, "calls": specs}, arrays)
    replies = reply.get("replies", [reply])
    operands = replies[-1].get("judged", {}).get("facts", {}).get("operands")
    if any("error" in one for one in replies) or operands is None or not replies[-1]["outputs"]:
        return None
    return np.asarray(operands["k"]), out[replies[-1]["outputs"][0]["key"]], np.asarray(operands["v"])


def _line(file: str | None, method: str) -> int | None:
    """The last line of a method, by which all of it has moved."""
    lines = linecache.getlines(file) if file else []
    return next((n for n in range(len(lines), 0, -1) if function_at(str(file), n) == method), None)
