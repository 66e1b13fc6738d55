"""One call again and again: an object that keeps what it was given, and weights that are remembered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.asking import Caller, Way
from overt.check.calls import Guess, is_floats
from overt.check.part import same

# Calls of which the last is looked into.
_CALLS = 4


def steps(caller: Caller, guess: Guess) -> dict[str, Any]:
    """What the recording of the last of a few calls comes to, each with other numbers, of an object that keeps them."""
    ways = []
    for number in range(_CALLS):
        drawn = np.random.default_rng(number)
        given = {n: drawn.normal(size=x.shape) for n, x in caller.arrays(guess).items() if x.dtype.kind == "f"}
        last: dict[str, Any] = {"record": {}} if number == _CALLS - 1 else {}
        ways.append(Way(guess, given, extra={"fresh": number == 0, **last}))
    return caller.ask(ways)[-1].judged


def forgets_query(caller: Caller, guess: Guess) -> bool:
    """Whether weights are remembered by the keys alone: a second query with the same keys gets what the first got."""
    names = [".".join(path) for path, kind in guess.kinds if is_floats(kind)]
    if len(names) < 2:
        return False
    given = caller.arrays(guess)
    query = given[names[0]]
    other = {names[0]: query + np.cos(np.arange(query.size)).reshape(query.shape)}
    # The same keys to the eye, and others to the memory.
    near = {name: given[name] + 1e-9 for name in names[1:]}
    ways = [Way(guess), Way(guess, other), Way(guess, {**other, **near})]
    answers = caller.ask([replace(way, extra={"fresh": number == 0}) for number, way in enumerate(ways)])
    if not all(answer.outputs for answer in answers):
        return False
    first, second, third = (answer.outputs[0] for answer in answers)
    return first.shape == third.shape and np.array_equal(first, second) and not same(second, third, 1e-3)
