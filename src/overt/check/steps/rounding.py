"""What is rounded to whole numbers, kept, and multiplied back, as keys and values of 8 bits are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from overt.check.steps.judged import FACTORS
from overt.recorder.operations import Operation
from overt.recorder.products import made_of

# How alike two numbers are that are one.
_SAME = 1e-5


def crossed(operations: Sequence[Operation]) -> Iterator[Operation]:
    """Products of what was rounded with what another thing was divided by before that was rounded."""
    found: dict[int, tuple[dict[int, np.ndarray], np.ndarray]] = {}
    for number, operation in enumerate(operations):
        if operation.name in FACTORS and len(operation.operands) == 2:
            for place, (x, source) in enumerate(zip(operation.operands, operation.sources, strict=True)):
                if source is not None and _whole(x) and (own := _divided(operations, source)):
                    found[number] = own, _factors(operation, place)
    every = {n: by for own, _ in found.values() for n, by in own.items()}
    for number, (own, by) in found.items():
        mine = np.concatenate([*own.values()])
        others = [one for n, one in every.items() if n not in own]
        theirs = np.concatenate(others) if others else np.zeros(0)
        if len(by) and _among(by, theirs).all() and not _among(by, mine).any():
            # What it was divided by may be multiplied later.
            later = (n for n in range(number + 1, len(operations)) if operations[n].name in FACTORS)
            back = (x for n in later if number in made_of(operations, n) for x in operations[n].operands)
            if not any(_among(_numbers(x), mine).any() for x in back):
                yield operations[number]


def _divided(operations: Sequence[Operation], start: int) -> dict[int, np.ndarray]:
    """The numbers that whatever was rounded here was divided by, by the operation that rounded it."""
    found: dict[int, np.ndarray] = {}
    seen, open_ = set[int](), [start]
    while open_:
        number = open_.pop()
        if number in seen:
            continue
        seen.add(number)
        operation = operations[number]
        for x, source in zip(operation.operands, operation.sources, strict=True):
            if source is None or not x.size:
                continue
            if _whole(x):
                open_.append(source)
            elif x.shape == operation.host.shape and np.abs(x - operation.host).max() <= 1:
                made = operations[source]
                if made.name in FACTORS and len(made.operands) == 2:
                    found[number] = 1 / _factors(made, 0)
    return found


def _factors(operation: Operation, place: int) -> np.ndarray:
    """What an operand is multiplied with: the other one, or 1 by it."""
    other = _numbers(operation.operands[1 - place])
    return 1 / other if "div" in operation.name and place == 0 else other


def _numbers(x: np.ndarray) -> np.ndarray:
    numbers = np.unique(x.astype(float))
    return numbers[(numbers != 0) & np.isfinite(numbers)]


def _among(some: np.ndarray, all_: np.ndarray) -> np.ndarray:
    """Which numbers are among others."""
    return np.isclose(some[:, None], all_[None], rtol=_SAME, atol=0).any(1)


def _whole(x: np.ndarray) -> bool:
    """Whether all numbers are whole, and some are more than 1."""
    if x.dtype.kind not in "iuf" or x.size < 2 or not np.isfinite(x).all():
        return False
    return bool((x == np.round(x)).all() and np.abs(x.astype(float)).max() > 1)
