"""One scale of colours for all views: perceptually even, safe for the colour-blind, dark ink on light paper."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

import numpy as np

# Anchors from paper to ink; their CIELAB lightness falls evenly from 98 to 13, so that they also print in grey.
STOPS = ((250, 250, 247), (198, 211, 224), (142, 175, 202), (90, 137, 182), (56, 98, 160), (42, 60, 125), (32, 24, 80))
# From dark paper to light ink, as the page has them in the dark.
DARK = ((17, 20, 28), (25, 38, 70), (36, 68, 124), (58, 110, 176), (104, 160, 206), (170, 210, 230), (245, 251, 253))

# Weights below this look like none on a scale that ends at 1.
_FAINT = 0.04


def shades(x: np.ndarray, ramp: tuple[tuple[int, int, int], ...] = STOPS) -> np.ndarray:
    """Red, green and blue (…, 3), uint8, of numbers 0…1."""
    stops = np.array(ramp, np.float64)
    place = np.clip(x, 0, 1) * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    part = (place - low)[..., None]
    return np.rint(stops[low] * (1 - part) + stops[low + 1] * part).astype(np.uint8)


@dataclass(frozen=True)
class Scale:
    """How weights become shades, as on the page: linear from 0 to 1, or decades where these are asked for.

    Where nothing would show on the linear one, it ends at the next round number above the largest weight (``faint``).
    """

    low: float
    high: float
    log: bool

    @staticmethod
    def of(largest: float, length: int, *, log: bool = False) -> Scale:
        """largest: the largest weight that is seen; length: keys that an even share is of."""
        if log:
            return Scale(10.0 ** -(ceil(log10(max(length, 2))) + 2), 1.0, True)
        if not 0 < largest < _FAINT:
            return Scale(0.0, 1.0, False)
        exponent = floor(log10(largest))
        return Scale(
            0.0, next(x for x in (float(f"{n}e{exponent}") for n in (1, 2, 5, 10)) if x * (1 + 1e-6) >= largest), False
        )

    @property
    def faint(self) -> bool:
        return self.high < 1

    def level(self, weights: np.ndarray) -> np.ndarray:
        """0…1 for ``shades``; the faintest weight of a logarithmic scale differs from none."""
        if not self.log:
            return np.clip(weights / self.high, 0, 1)
        decades = np.log(np.where(weights > 0, weights, 1) / self.low) / np.log(self.high / self.low)
        return np.where(weights > 0, np.clip(decades, 0.03, 1), 0)

    @property
    def name(self) -> str:
        """How it goes."""
        end = f", all of it faint: the shades end at {self.high:g}, not at 1" if self.faint else ""
        return ("logarithmic" if self.log else "linear") + end

    def hint(self, weights: np.ndarray) -> str:
        """What to do where so many weights are so far below its end that they look like none, or nothing."""
        some = weights[weights > 0]
        if self.log or self.faint or (some < _FAINT).sum() <= 0.9 * some.size:
            return ""
        return f"most weights here are below {_FAINT}: log=True (--log) shows them"
