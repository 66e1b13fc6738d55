"""One call after the other, where an instance keeps something: one token each, or samples that are moved between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.calls import call as calls
from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.varied import reordering
from overt.check.varied.asking import Caller, Way, remembers

# A seed that no other call has.
_SEED = 20
# Calls that may attend together, and how far apart numbers are that are the same.
_TIMES, _ALIKE = 12, 1e-5


def stepped(caller: Caller, guess: Guess, findings: Findings) -> None:
    """Whether what moves the samples between two steps of a token each moves all that was kept, or came back."""
    if not _moved(caller, guess, findings, {}):
        any(_moved(caller, guess, findings, back) for back in returned(caller, guess))


def _moved(caller: Caller, guess: Guess, findings: Findings, back: Mapping[str, int]) -> bool:
    """The same of what is kept, or of arguments that are given what came back; whether it was told."""
    steps = []
    for number in range(2):
        kwargs, arrays = calls.named(guess, caller.face, f"{number} ")
        kwargs = calls.keeping(kwargs)
        kwargs |= {name: {"result": 0, "item": item} for name, item in back.items() if number}
        args, kwargs = calls.placed(kwargs, caller.face)
        drawn = np.random.default_rng(_SEED + number)
        moving = {f"{number} {name}" for name, kind in guess.by_name.items() if calls.is_floats(kind)}
        arrays |= {name: drawn.normal(size=x.shape) for name, x in arrays.items() if name in moving}
        steps.append((caller.spec(args, kwargs, dtype=guess.dtype, fresh=number == 0), arrays))
    kinds = guess.by_name
    if not any("B" in calls.axes_of(kind) for kind in kinds.values()):
        # What was taken for positions, and attends to one key each, are samples.
        kinds = {name: kind.replace("T", "B") if calls.is_floats(kind) else kind for name, kind in kinds.items()}
    return reordering.check(caller, kinds, steps, findings)


def repeated(caller: Caller, guess: Guess, findings: Findings) -> bool:
    """Whether calls attend together that do not each: one token at a time, or weights that were remembered."""
    if remembers(caller, guess) == "cache_key":
        findings.add("cache_key")
        return True
    told = again(caller, guess)
    tried = (entry["step"] for entry in told.get("ledger", ()) if entry["outcome"] != "not tried")
    if not told.get("faults") and all(step.endswith("scores") for step in tried):
        return False
    findings.convention["called with"] = f"{guess}, again and again"
    findings.conclude([told])
    return True


def again(caller: Caller, guess: Guess) -> dict[str, Any]:
    """What the last of several calls comes to that attend together: by what is kept, or else by what comes back."""
    told = _last(caller, guess, {})
    for back in () if _together(told) else returned(caller, guess):
        if _together(other := _last(caller, guess, back)):
            return other
    return told


def _together(told: Mapping[str, Any]) -> bool:
    """Whether a call attends to more than one key."""
    return bool(told.get("cores")) and "one key" not in told["facts"]


def returned(caller: Caller, guess: Guess) -> list[dict[str, int]]:
    """Arguments that may be given what the call before returned, each with the place of that in it."""
    kinds = dict(guess.kinds)
    free = {a.name for a in caller.face.arguments if a.default is None and not a.required and a.name not in guess.names
            and a.role not in reordering.STILL}  # fmt: skip
    names = [a.name for a in caller.face.arguments if a.name in free or kinds.get((a.name,), "")[:3] == "by "]
    each = [{name: item} for name in names for item in (1, -1)]
    return [*each, *([{name: n for n, name in enumerate(names, 1)}] if len(names) > 1 else [])]


def _last(caller: Caller, guess: Guess, back: Mapping[str, int], times: int = _TIMES) -> dict[str, Any]:
    """What the last of several calls comes to, where an instance, or what is made for them, may keep something.

    back: arguments that are given what came back; times: how many calls, or fewer where there is no room for so many.
    """
    keeps = any("kept" in spec for spec in calls.keeping(calls.named(guess, caller.face)[0]).values())
    # What is told its place by a number is told the next one each time, and other words.
    kinds, words = dict(guess.kinds), [name for name, kind in guess.by_name.items() if kind == calls.WORD]
    places = [
        a.name for a in caller.face.arguments if a.role in ("positions", "offset") and kinds.get((a.name,)) == "0"
    ]
    guess = replace(guess, kinds=tuple((p, k) for p, k in guess.kinds if p[0] not in places))
    # What hides is no other number each time.
    hides = {name for name, kind in guess.by_name.items() if calls.is_mask(kind)}
    ways = []
    for number in range(times if keeps or back or caller.handle is not None else 0):
        drawn = np.random.default_rng(number)
        # What is multiplied with stays as it is.
        inputs = {a.name for a in caller.face.arguments}
        given = {n: drawn.normal(size=x.shape) for n, x in caller.arrays(guess).items()
                 if x.dtype.kind == "f" and n not in hides and (n in inputs or not keeps)}  # fmt: skip
        intents = {**(caller.face.intents if keeps else {}), "operands": True}
        last: dict[str, Any] = {"record": intents} if number > times - 3 else {}
        given |= {name: np.array(2 + number % 4) for name in words}
        extra = {"fresh": number == 0, **last}
        ways.append(Way(guess, given, dict.fromkeys(places, number), extra=extra, keeps=keeps and not back, back=back))
    answers = caller.ask(ways)
    ran = sum(not answer.failed for answer in answers)
    if 1 < ran < len(ways):
        return _last(caller, guess, back, ran)
    told = answers[-1].judged if ways else {}
    twice = _twice(told, [x for way in ways for x in way.arrays.values() if x.dtype.kind == "f"])
    if twice:
        says = f"Keys were given one by one, and of {twice[1]} that are asked {twice[0]} are asked a second time."
        told = _wrong(caller, told, "unknown", says, told["facts"].get("mixed at"))
    if ways and _scaled_again(answers[-2].judged, told):
        says = "What was kept is multiplied by the scale once more at each step."
        line = next((entry["line"] for entry in told["ledger"] if entry["step"].endswith("scale")), None)
        told = _wrong(caller, told, "inplace", says, line)
    return told


def _wrong(caller: Caller, told: dict[str, Any], mistake: str, says: str, line: int | None) -> dict[str, Any]:
    """What a recording comes to, with a mistake in what was kept."""
    fault: dict[str, Any] = {"step": "keys", "mistake": mistake, "says": says, "kind": None, "line": line}
    fault |= {"expected": "", "actual": "", "file": caller.face.description["file"]}
    return {**told, "faults": [*told["faults"], fault]}


def _scaled_again(before: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """Whether all keys of the call before are those of this one times what the scores are multiplied by."""
    one, two = (np.asarray(some["facts"]["operands"]["k"]) if some.get("facts", {}).get("operands") else np.zeros(0)
                for some in (before, told))  # fmt: skip
    scale = told.get("facts", {}).get("scale") or 1.0
    if one.ndim != 3 or two.ndim != 3 or len(one) != len(two) or not one.size or abs(scale - 1) < 1e-3:
        return False
    kept = two[:, : one.shape[1]]
    return kept.shape == one.shape and np.allclose(kept, scale * one, rtol=1e-6, atol=1e-12)


def _twice(told: Mapping[str, Any], given: Sequence[np.ndarray]) -> tuple[int, int] | None:
    """How many keys of how many are asked twice, of those that are asked as they were given one after the other."""
    operands = told.get("facts", {}).get("operands")
    keys: np.ndarray = np.asarray(operands["k"]) if operands else np.zeros(0)
    if keys.ndim != 3 or keys.shape[1] < 2:
        return None
    width = keys.shape[2]
    rows = np.concatenate([np.zeros((0, width)), *(x.reshape(-1, width) for x in given if x.shape[-1:] == (width,))])
    for some in keys:
        own = [np.flatnonzero((np.abs(rows - key) < _ALIKE).all(1))[:1].tolist() for key in some]
        known = [one[0] for one in own if one]
        if 2 * len(known) > len(some) and len({*known}) < len(known):
            return len(known) - len({*known}), len(some)
    return None
