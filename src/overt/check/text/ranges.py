"""In what range a documentation says that the numbers of an argument lie, and numbers that are put there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_NUMBER = r"(-?\d+(?:\.\d+)?)"
# What is said right behind an argument and its shape: that it has a least number, two ends, or sums to 1.
_LEAST = rf"(?:>=?|≥|⩾)\s*{_NUMBER}|(?:strictly )?(positive|non-?negative)\b"
_ENDS = rf"(?:in|within|between|from|∈)\s*[(\[\]]?\s*{_NUMBER}\s*(?:,|and|to|\.\.+|…)\s*{_NUMBER}"
_SHARES = r"(?:is |are )?(?:an? |prob\w+ )*(?:distributions?|simplex)\b|(?:[^\W\d]+ ){0,3}sum(?:s|ming)? to (?:1|one)\b"


class Range(NamedTuple):
    """The least number and the largest, None where there is none, and whether the numbers of a row sum to 1."""

    low: float | None = None
    high: float | None = None
    shares: bool = False

    def holds(self, number: float) -> bool:
        """Whether a number may lie there."""
        return self.low is not None and self.low < number and (self.high is None or number < self.high)

    def put(self, x: np.ndarray) -> np.ndarray:
        """Random numbers of mean 0, moved to where they may lie."""
        if self.shares:
            return np.asarray(np.exp(x) / np.exp(x).sum(-1, keepdims=True))
        if self.low is None:
            return x
        if self.high is None:
            return self.low + np.abs(x) + 1e-2
        return self.low + (self.high - self.low) / (1 + np.exp(-x))


def ranges(text: str, names: Sequence[str]) -> dict[str, Range]:
    """The ranges that are told of arguments.

    As in ``gate (B,) in (0, 1)``, ``beta (B,) > 0``, ``w (B, N) sums to 1``, and of a number ``gamma >= 1``.
    """
    found: dict[str, Range] = {}
    known = "|".join(map(re.escape, names)) or "(?!)"
    for one in re.finditer(rf"(?<![\w.])({known})\s*:?\s*(?:[(\[][^()\[\]]*[)\]])?[ \t]*(?:float\w*)?[:,]?\s*", text):
        rest = text[one.end() :]
        if re.match(_SHARES, rest):
            found.setdefault(one[1], Range(0.0, 1.0, shares=True))
        elif ends := re.match(_ENDS, rest):
            found.setdefault(one[1], Range(float(ends[1]), float(ends[2])))
        elif least := re.match(_LEAST, rest):
            found.setdefault(one[1], Range(float(least[1] or 0)))
    return found
