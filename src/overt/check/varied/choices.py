"""What an argument chooses to be returned, scores in one call and weights in another, and what takes scores back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from overt.check.calls.call import Guess
from overt.check.calls.likely import compared
from overt.check.steps.pipeline import near
from overt.check.varied.asking import Caller, Way, differ
from overt.check.varied.beside import Made, numbers

# Numbers that choose, and calls that are made for it.
_CHOICES, _MOST = 4, 24


def chosen(caller: Caller, guess: Guess, made: Made, told: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same recordings, where scores are in the place of weights not for lack of an argument that wants weights.

    Nor are these in the wrong place which the next call is given.
    """
    if not any(fault["mistake"] == "returns_scores" for one in told for fault in one.get("faults", ())):
        return [*told]
    if not any(one["facts"].get("weights returned") for one in told) and not _taken_back(caller, guess):
        extra = {"record": caller.face.intents}
        ways = [Way(guess, values=values, extra=extra) for values in _values(caller, numbers(guess, caller.face))]
        answers = caller.ask(ways[:_MOST])
        for values in [*_values(caller, made.numbers(caller))][:_MOST] if made.of(caller) else ():
            other = made.other(caller, values)
            answers += other.ask([Way(guess, extra=extra)]) if other is not None else []
        if not any(answer.judged.get("facts", {}).get("weights returned") for answer in answers):
            return [*told]
    return [without(one, "returns_scores") for one in told]


def without(judged: Mapping[str, Any], mistake: str) -> dict[str, Any]:
    """The same recording, of which one thing is no mistake."""
    return {**judged, **{part: [x for x in judged[part] if x["mistake"] != mistake] for part in ("faults", "ledger")}}


def _taken_back(caller: Caller, guess: Guess) -> bool:
    """Whether what is returned beside the output is what an argument adds to the scores, as those of another layer."""
    (plain,) = caller.ask([Way(guess)])
    names = [a.name for a in caller.face.arguments if a.default is None and not a.required and a.role is None]
    ways = [Way(guess, {name: x}) for name in names if name not in guess.by_name for x in plain.outputs[1:]]
    both = zip(ways, caller.ask(ways), strict=True)
    return any(differ(plain, back) and any(near(x, 2 * next(iter(way.arrays.values()))) for x in back.outputs[1:])
               for way, back in both)  # fmt: skip


def _values(caller: Caller, known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Other flags, small numbers and texts that the code asks for, each in the place of what is so."""
    for name, was in known.items():
        some = [not was] if isinstance(was, bool) else range(_CHOICES) if 0 <= was < _CHOICES else ()
        yield from ({name: n} for n in some if n != was)
    for argument in caller.face.arguments:
        texts = compared(caller.face.whole) if isinstance(argument.default, str) else []
        yield from ({argument.name: text} for text in texts if text != argument.default)
