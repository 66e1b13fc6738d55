"""Dropout of attention weights from a counter-based generator: any cell's fate is known without drawing the others'."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overt.errors import ArgumentError
from overt.grid import Array, Cells, dtype_name, is_number, plain, shown, whole

_ROUNDS = 10
_MULTIPLY = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_LOW, _HALF = 0xFFFFFFFF, 32


@dataclass(frozen=True)
class Dropout:
    """Each weight is dropped with probability ``rate``; the others are scaled by 1 / (1 − rate)."""

    rate: float
    seed: int | Array

    def __repr__(self) -> str:
        return f"dropout({self.rate}, {self.seed})"

    def factor(self, cells: Cells) -> np.ndarray:
        """0 or 1 / (1 − rate) for each cell, float64.

        Word s mod 4 of Philox-4×32-10 with the seed as key and the counter (s div 4, t, h, b).
        Salmon et al. 2011, doi:10.1145/2063384.2063405.
        """
        counter = (np.asarray(c).astype(np.uint64) for c in (cells.s // 4, cells.t, cells.h, cells.b))
        words = philox(np.broadcast_arrays(*counter), int(self.seed))
        drawn = np.choose(np.broadcast_to(cells.s % 4, words[0].shape), words)
        return (drawn >= np.uint64(self.rate * 2**32)) / (1 - self.rate)


def philox(counter: Sequence[Array], seed: Any) -> list[Array]:
    """Four random words below 2³² for each counter of four such words.

    The counter is of 64-bit integers of any library, whether they have a sign or not: products wrap around.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = seed & _LOW, seed >> _HALF & _LOW
    for _ in range(_ROUNDS):
        left, right = c0 * _MULTIPLY[0], c2 * _MULTIPLY[1]
        c0, c1 = (right >> _HALF & _LOW) ^ c1 ^ k0, right & _LOW
        c2, c3 = (left >> _HALF & _LOW) ^ c3 ^ k1, left & _LOW
        k0, k1 = k0 + _WEYL[0] & _LOW, k1 + _WEYL[1] & _LOW
    return [c0, c1, c2, c3]


def dropout(rate: float, seed: int | Array) -> Dropout:
    """Drop each attention weight with probability ``rate`` (0 ≤ rate < 1), reproducibly from ``seed`` (64 bits).

    The seed may be a single number in an array, such as a tensor that was drawn on its device and is not to leave it.
    """
    if not is_number(rate) or not 0 <= rate < 1:
        raise ArgumentError(f"the dropout rate must be a number with 0 ≤ rate < 1, not {shown(rate)}")
    seed = plain("the dropout seed", seed)
    if not hasattr(seed, "shape") or isinstance(seed, np.generic):
        return Dropout(float(rate), whole("the dropout seed", seed, most=2**64 - 1))
    if tuple(seed.shape) != () or dtype_name(seed) not in ("int64", "uint64"):
        raise ArgumentError(
            f"the dropout seed must be one whole number of 64 bits, not {dtype_name(seed)} of shape {tuple(seed.shape)}"
        )
    return Dropout(float(rate), seed)
