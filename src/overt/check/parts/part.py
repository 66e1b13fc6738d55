"""What a part of attention is: how it is called, and what its definition makes of what it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from overt.check.calls.call import Lengths
from overt.check.report import Kind
from overt.check.steps.definitions import same
from overt.check.text.interface import Interface


class Reading(NamedTuple):
    """One way to read what came out: mistakes by id (with a kind that is not the catalogue's), what is mere convention,
    and pairs of what was seen and what would come out so.

    vague: so much else gives these numbers that the part must be meant.
    """

    pairs: list[tuple[np.ndarray, np.ndarray]]
    told: tuple[tuple[str, str], ...] = ()
    mistakes: tuple[tuple[str, Kind | None], ...] = ()
    vague: bool = False

    @property
    def fits(self) -> bool:
        return all(np.size(seen) and same(seen, meant) for seen, meant in self.pairs)

    @property
    def kinds(self) -> list[Kind | None]:
        """What its mistakes are."""
        return [kind for _, kind in self.mistakes]

    @property
    def key(self) -> tuple[object, ...]:
        return self.told, self.mistakes


def wrong(*names: str) -> tuple[tuple[str, Kind | None], ...]:
    """Mistakes of the kind that the catalogue says; of options those of the mistake."""
    return tuple(dict.fromkeys((name.partition(":")[0], None) for name in names if name))


@dataclass
class Given:
    """The arguments of one call by role, each with its kind; and what else may be known."""

    face: Interface
    lengths: Lengths
    values: dict[str, np.ndarray]
    kinds: dict[str, str]
    # of an instance
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    # that its text holds, and defaults: a base, a longest wavelength
    numbers: tuple[float, ...] = ()

    def __contains__(self, role: str) -> bool:
        return role in self.values

    def __getitem__(self, role: str) -> np.ndarray:
        return self.values[role]

    def number(self, role: str, default: int) -> int:
        return int(self.values[role]) if role in self.values else default

    def bases(self) -> tuple[float, ...]:
        """Bases of wavelengths that may be meant, the papers' first."""
        return tuple(dict.fromkeys((10_000.0, *(n for n in self.numbers if n > 4 and n not in (2, 10, 100_000_000)))))


class Part(NamedTuple):
    """One part.  ``takes`` has groups of calls, "role=kind role=kind", each for where those before it told nothing."""

    name: str
    words: tuple[str, ...]
    takes: tuple[tuple[str, ...], ...]
    read: Callable[[Given, list[np.ndarray]], Iterator[Reading]]
    source: str
