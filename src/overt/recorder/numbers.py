"""Numbers that a recording computed one by one, each once, and how it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from overt.recorder.operations import Line, Operation

_HIDES = {"add", "subtract", "multiply", "divide"}
# Below this a number that was put in the place of a score hides it.
_LOW = -1e8
# A name, a line, and how many numbers it was made of or what else tells it from others.
Kind = tuple[Any, ...]


def is_number(x: np.ndarray) -> bool:
    """Whether an array is a single real number."""
    return not x.ndim and x.dtype.kind == "f"


class Numbers:
    """The numbers of a recording, each once: by the operation that made it, its number here; -1 for what is hidden."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = operations
        self.of: dict[int, int] = {}
        self.sources: list[tuple[int, ...]] = []
        self.kinds: list[Kind] = []
        # by number: its operation, the last that made the same, and where in its array it was taken from
        self.first: list[int] = []
        self.last: list[int] = []
        self.places: list[int] = []
        # of a sum its terms, as the first of a list that it may share with longer ones
        self.terms: dict[int, tuple[list[int], int]] = {}
        # what it begins with, where that is none of them
        self.leads: list[int] = []
        # of what is indexed the array, by a key, and the places in it; and the arrays by key
        self.taken: dict[int, tuple[Any, np.ndarray]] = {}
        self.bases: dict[Any, tuple[np.ndarray, int | None, str]] = {}
        # who called the function of a line
        self.callers: dict[Line, set[Line | None]] = {}
        self._known: dict[Any, int] = {}
        self._counted: dict[tuple[int, ...], np.ndarray] = {}
        for number, operation in enumerate(operations):
            if "at" in operation.options and len(operation.operands) == 1:
                self._index(number, operation)
            elif is_number(operation.host):
                self._number(number, operation)
        self.values = np.array([float(operations[n].host) for n in self.first] + [np.nan])

    def computed(self, number: int | None) -> bool:
        """Whether an operation made a number of other numbers."""
        one = self.of.get(-1 if number is None else number, -1)
        return one >= 0 and bool(self.sources[one])

    def kept(self, roots: set[int]) -> list[bool]:
        """Of each operation, whether something else than numbers that are lifted needs it."""
        needed, used = set[int](), {s for op in self.operations for s in op.sources}
        found = [True] * len(self.operations)
        for number in range(len(self.operations) - 1, -1, -1):
            one = self.of.get(number)
            lost = number in self.taken and (number in used or one is not None)
            lost |= one is not None and (one < 0 or bool(self.sources[one]) or self.first[one] != number)
            found[number] = number in needed or not lost
            if found[number] and number not in roots:
                needed |= {s for s in self.operations[number].sources if s is not None}
        return found

    def _index(self, number: int, operation: Operation) -> None:
        source, x = operation.sources[0], operation.operands[0]
        if source in self.taken:
            key, places = self.taken[source]
        else:
            origin = operation.origins[0]
            key = ("made", source) if source is not None else (origin, x.shape, b"" if origin else x.tobytes())
            if x.shape not in self._counted:
                self._counted[x.shape] = np.arange(x.size).reshape(x.shape)
            places = self._counted[x.shape]
            self.bases.setdefault(key, (x, source, origin))
        self.taken[number] = key, np.asarray(places[operation.options["at"]])
        if is_number(operation.host):
            at = int(self.taken[number][1])
            self._add(number, (key, at), ("taken", key), (), at)

    def _number(self, number: int, operation: Operation) -> None:
        if operation.line is not None:
            self.callers.setdefault(operation.line, set()).add(operation.line.caller)
        given = [self.of.get(s) if s is not None else None for s in operation.sources]
        sources = tuple(s for s in given if s is not None)
        name, value, line = operation.name, float(operation.host), operation.line
        if not sources or len(sources) < len(given):
            self._add(number, ("own", number), ("own",), ())
        elif self._hidden(name, value, sources):
            self.of[number] = -1
        elif len(sources) == 1 and float(operation.operands[0]) == value and self._same(name, sources[0]):
            self.of[number] = sources[0]
        else:
            kind, terms = self._sum(name, value, line, operation.operands, sources)
            one = self._add(number, (name, line, sources, value), kind, sources)
            if terms is not None:
                self.terms[one] = terms
                if kind[0] == "begun":
                    before = next(s for s in sources if s >= 0 and self.kinds[s][:2] in (kind[:2], (name, line)))
                    self.leads[one] = self.leads[before] if before in self.terms else self.sources[before][0]

    def _same(self, name: str, source: int) -> bool:
        """Whether what was not changed is what it was: multiplied by 1, or a sum to which 0 was added."""
        return name in ("multiply", "divide") or (name == "add" and self.kind(source)[0] in ("total", "begun"))

    def _hidden(self, name: str, value: float, sources: tuple[int, ...]) -> bool:
        """Whether it is no score, or the weight of none, or what that is multiplied with."""
        if name in _HIDES and len(sources) == 1 and (value < _LOW or (value == 0 and name in ("multiply", "divide"))):
            return True
        return -1 in sources and (name == "exp" or (name in ("multiply", "divide") and value == 0))

    def _sum(
        self, name: str, value: float, line: Line | None, operands: Sequence[np.ndarray], sources: tuple[int, ...]
    ) -> tuple[Kind, tuple[list[int], int] | None]:
        """The kind of a number, and where a sum of many made it, or the beginning of one, the terms of this."""
        plain: Kind = (name, line, len(sources))
        if name != "add":
            return plain, None
        kinds = [self.kind(s) for s in sources]
        if len(sources) == 1:
            starts = float(operands[0]) == value
            return (("total", line, kinds[0]), ([*sources], 1)) if starts else (plain, None)
        if len(sources) > 2:
            return ("total", line, kinds[0]), ([*sources], len(sources))
        for (one, other), kind in zip((sources, sources[::-1]), kinds[::-1], strict=True):
            before = self.kinds[one] if one in self.terms else ("",)
            if before[1:2] == (line,) and (known := self._alike(one, other, before[2], kind)) is not None:
                return (*before[:2], known), self._more(one, other, known)
            begun = self.sources[one] if one >= 0 and self.kinds[one] == plain else ()
            if len(begun) == 2 and self.kind(begun[1]) == kind and line is not None:
                led = self.kind(begun[0]) != kind
                return ("begun" if led else "total", line, kind), ([*begun[led:], other], 3 - led)
        if kinds[0] == kinds[1] and (kinds[0][0], kinds[0][-1]) == ("multiply", 2):
            return ("total", line, kinds[0]), ([*sources], 2)
        return plain, None

    def _alike(self, one: int, other: int, before: Kind, kind: Kind) -> Kind | None:
        """The kind of the terms of a sum and one more, but for what is hidden or multiplied with 0, or None."""
        if kind == before or kind == ("hidden",):
            return before
        if before == ("hidden",):
            return kind
        held, many = self.terms[one]
        if kind[0] == before[0] == "multiply" and kind[1] == before[1]:
            if before[2] == 2 and self._is_zero(other):
                return before
            if kind[2] == 2 and all(map(self._is_zero, held[:many])):
                return kind
        return None

    def _more(self, one: int, other: int, kind: Kind) -> tuple[list[int], int]:
        """The terms of a sum and one more."""
        held, many = self.terms[one]
        if self.kind(held[0]) not in (kind, ("hidden",)):
            held = [-1] * many
        held = held if len(held) == many else held[:many]
        held.append(other if self.kind(other) == kind else -1)
        return held, many + 1

    def _is_zero(self, one: int) -> bool:
        return one < 0 or not float(self.operations[self.first[one]].host)

    def kind(self, one: int) -> Kind:
        """How a number was made, as those are that one line made in one way."""
        return self.kinds[one] if one >= 0 else ("hidden",)

    def _add(self, number: int, key: Any, kind: Kind, sources: tuple[int, ...], place: int = -1) -> int:
        one = self._known.setdefault(key, len(self.kinds))
        if one == len(self.kinds):
            self.kinds.append(kind)
            self.sources.append(sources)
            self.first.append(number)
            self.last.append(number)
            self.places.append(place)
            self.leads.append(-1)
        self.of[number], self.last[one] = one, number
        return one
