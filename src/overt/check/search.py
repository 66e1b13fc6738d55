"""Finding the variants of the reference that give a candidate's numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import NamedTuple

from overt.check.attention import Attention, Form, Outcome
from overt.check.mistakes import rank
from overt.check.steps import Case, options, relevant

# Errors relative to the largest number: the same in float64, the same in float32.
TIGHT, LOOSE = 1e-9, 3e-5


class Trial(NamedTuple):
    """A case and what the candidate made of it."""

    case: Case
    outcome: Outcome


class Match(NamedTuple):
    """A way to call and the mistakes, step by step, that give the same numbers."""

    form: Form
    choice: dict[str, str]
    error: float

    @property
    def cost(self) -> int:
        return len(self.choice)


def choices(trials: Sequence[Trial], steps: Iterable[str] | None, count: int) -> list[dict[str, str]]:
    """Every choice of ``count`` mistakes in different steps of these problems."""
    if count == 0:
        return [{}]
    present = set().union(*(relevant(t.case) for t in trials))
    open_steps = sorted(present if steps is None else present & set(steps))
    table = {step: list(dict.fromkeys(o for t in trials for o in options(t.case, step))) for step in open_steps}
    found = []
    for group in combinations(open_steps, count):
        found += [dict(zip(group, picked, strict=True)) for picked in product(*(table[step] for step in group))]
    return found


def explain(
    attention: Attention,
    form: Form,
    trials: Sequence[Trial],
    start: Sequence[dict[str, str]] = ({},),
    steps: Iterable[str] | None = None,
    most: int = 2,
) -> list[Match]:
    """The choices of fewest mistakes, added to one of ``start``, that reproduce every trial; commonest first."""
    trials = [t for t in trials if t.outcome.error is None]
    if not trials:
        return []
    for count in range(most + 1):
        found = []
        for base in start:
            for extra in choices(trials, steps, count):
                if not set(extra) & set(base):
                    match = fit(attention, form, trials, {**base, **extra})
                    if match is not None:
                        found.append(match)
        if found:
            best = min(m.error for m in found)
            # A fill that is only nearly -inf is right to five digits, and its own variant to nine.
            if count == 0 and best > TIGHT:
                closer = [
                    m
                    for base in start
                    for extra in choices(trials, steps, 1)
                    if not set(extra) & set(base)
                    and (m := fit(attention, form, trials, {**base, **extra})) is not None
                    and m.error < min(TIGHT, best / 100)
                ]
                found = closer or found
            if best < TIGHT:
                found = [m for m in found if m.error < 100 * TIGHT]
            return sorted(found, key=lambda m: (rank(m.choice), m.error > TIGHT))
    return []


def fit(attention: Attention, form: Form, trials: Sequence[Trial], choice: dict[str, str]) -> Match | None:
    """The match of one choice, None where any number differs."""
    worst = 0.0
    for case, outcome in trials:
        try:
            parts = attention.predict(form, case, choice)
        except ValueError:
            # This mistake cannot be made with arrays of these shapes.
            return None
        error = attention.error(form, parts, outcome)
        if error is None or error > LOOSE:
            return None
        worst = max(worst, error)
    return Match(form, choice, worst)
