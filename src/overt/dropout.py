"""Dropout of attention weights from a counter-based generator: any cell's fate is known without drawing the others'."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from overt.errors import ArgumentError
from overt.grid import Cells, is_number, shown, whole

_ROUNDS = 10
_MULTIPLY = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


@dataclass(frozen=True)
class Dropout:
    """Each weight is dropped with probability ``rate``; the others are scaled by 1 / (1 − rate)."""

    rate: float
    seed: int

    def __repr__(self) -> str:
        return f"dropout({self.rate}, {self.seed})"

    def factor(self, cells: Cells) -> np.ndarray:
        """0 or 1 / (1 − rate) for each cell, float64.

        Word s mod 4 of Philox-4×32-10 with the seed as key and the counter (s div 4, t, h, b).
        Salmon et al. 2011, doi:10.1145/2063384.2063405.
        """
        words = philox((cells.s // 4, cells.t, cells.h, cells.b), self.seed)
        drawn = np.choose(np.broadcast_to(cells.s % 4, words[0].shape), words)
        return (drawn >= np.uint64(self.rate * 2**32)) / (1 - self.rate)


def philox(counter: tuple[np.ndarray, ...], seed: int) -> list[np.ndarray]:
    """Four random words below 2³² for each counter of four such words."""
    c0, c1, c2, c3 = (np.asarray(c).astype(np.uint64) for c in np.broadcast_arrays(*counter))
    k0, k1 = np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
    for _ in range(_ROUNDS):
        left, right = _MULTIPLY[0] * c0, _MULTIPLY[1] * c2
        c0, c1, c2, c3 = (right >> _HALF) ^ c1 ^ k0, right & _LOW, (left >> _HALF) ^ c3 ^ k1, left & _LOW
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return [c0, c1, c2, c3]


def dropout(rate: float, seed: int) -> Dropout:
    """Drop each attention weight with probability ``rate`` (0 ≤ rate < 1), reproducibly from ``seed`` (64 bits)."""
    if not is_number(rate) or not 0 <= rate < 1:
        raise ArgumentError(f"the dropout rate must be a number with 0 ≤ rate < 1, not {shown(rate)}")
    return Dropout(float(rate), whole("the dropout seed", seed, most=2**64 - 1))
