"""What an argument chooses to be returned: scores in one call, and the weights in another, in the same place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from overt.check.calls.call import Guess
from overt.check.calls.likely import compared
from overt.check.varied.asking import Caller, Way
from overt.check.varied.beside import Made, numbers

# Numbers that choose, and calls that are made for it.
_CHOICES, _MOST = 4, 24


def chosen(caller: Caller, guess: Guess, made: Made, told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same recordings, where scores are in the place of weights not for lack of an argument that wants weights."""
    if not any(fault["mistake"] == "returns_scores" for one in told for fault in one.get("faults", ())):
        return [*told]
    if not any(one["facts"].get("weights returned") for one in told):
        extra = {"record": caller.face.intents}
        ways = [Way(guess, values=values, extra=extra) for values in _values(caller, numbers(guess, caller.face))]
        answers = caller.ask(ways[:_MOST])
        for values in [*_values(caller, made.numbers(caller))][:_MOST] if made.of(caller) else ():
            other = made.other(caller, values)
            answers += other.ask([Way(guess, extra=extra)]) if other is not None else []
        if not any(answer.judged.get("facts", {}).get("weights returned") for answer in answers):
            return [*told]
    return [
        {**one, **{part: [x for x in one[part] if x["mistake"] != "returns_scores"] for part in ("faults", "ledger")}}
        for one in told
    ]


def _values(caller: Caller, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Other flags, small numbers and texts that the code asks for, each in the place of what is so."""
    for name, was in known.items():
        some = [not was] if isinstance(was, bool) else range(_CHOICES) if 0 <= was < _CHOICES else ()
        yield from ({name: n} for n in some if n != was)
    for argument in caller.face.arguments:
        texts = compared(caller.face.whole) if isinstance(argument.default, str) else []
        yield from ({argument.name: text} for text in texts if text != argument.default)
