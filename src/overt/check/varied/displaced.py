"""Positions that a number moves inside, as windows that begin later do: what is given back must lie where it lay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from overt.check.calls.call import Guess
from overt.check.findings import Findings
from overt.check.varied.asking import Caller, Way, sees
from overt.check.varied.beside import Made


def check(caller: Caller, guess: Guess, made: Made, numbers: Mapping[str, int], findings: Findings) -> None:
    """Whether what is given back for each position still is of that one, where a number moves positions inside."""
    lines = [*enumerate(caller.face.description["source"].splitlines(), caller.face.description["line"])]
    rolled = next((n for n, text in lines[::-1] if "roll(" in text), None)
    # By default it moves nothing, or something where that is seen.
    moving = {name: was for name, was in numbers.items() if type(was) is int and (was == 0 or rolled)}
    letter = next((letter for letter in "Tw" if letter in guess.first), None)
    if letter is None or not moving:
        return
    # No other axis is as long.
    others = {guess.lengths.axis(axis) for axis in guess.first if axis != letter}
    longer = (times * guess.lengths.axis(letter) for times in range(2, 9))
    n = next(length for length in longer if length not in others)
    long = Way(replace(guess, lengths=guess.lengths.resized(letter, n).resized("S", n)))
    own = sees(caller, long, letter)
    if own is None:
        return
    alike = (own == own.T).all()
    for name, was in moving.items():
        other = made.other(caller, {name: int(not was)}) if was or alike else None
        cells = sees(other, long, letter) if other is not None else None
        if cells is None:
            continue
        plain, cells = (cells, own) if was else (own, cells)
        moved = not _mutual(cells, 0) and any(_mutual(cells, step) for step in range(1, n))
        if moved and (plain == plain.T).all():
            findings.add(
                "unknown", line=rolled,
                message=f"With {name}={was or 1} what is given back for a position is that of another one.",
                mend="Move the positions back by as much, the other way.",
            )  # fmt: skip
            return


def _mutual(cells: np.ndarray, step: int) -> bool:
    """Whether of two positions each sees the other or neither does, were the rows so many further down.

    That a position sees itself may be by what goes past the attention.
    """
    known = ~np.eye(len(cells), dtype=bool)
    cells, known = np.roll(cells, step, 0), np.roll(known, step, 0)
    return bool((cells == cells.T)[known & known.T].all())
