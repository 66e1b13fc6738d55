"""What a mask may mean, and which cells it hides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def readings_of(mask: np.ndarray, T: int, S: int) -> Iterator[np.ndarray]:
    """What may be seen by a mask, (masks, queries, keys), as its axes may be meant."""
    seen = (mask > -1e3) if (mask.astype(float) < -1e3).any() else mask.astype(bool)
    if seen.ndim == 2 and seen.shape[0] == S != seen.shape[1]:
        # Samples may come last.
        seen = seen.T
    while seen.ndim > 2 and seen.shape[-1] < S:
        # Keys may be the cells of a grid.
        seen = seen.reshape(*seen.shape[:-2], -1)
    if seen.shape[-1] != S or seen.all() or not seen.any():
        return
    pairs = seen.ndim > 1 and seen.shape[-2] == T
    if pairs:
        yield seen.reshape(-1, T, S)
    if not pairs or seen.ndim == 2:
        # A mask of keys alone, of samples that may be as many as queries.
        yield np.repeat(seen.reshape(-1, 1, S), T, 1)


def hiding(seen: np.ndarray, cells: np.ndarray, beside: Sequence[np.ndarray]) -> Iterator[tuple[str, int, list[int]]]:
    """How masks hide just these cells: keeping or dropping, beside which other one, and which each row of cells has."""
    for polarity, hides in (("keep", ~seen), ("drop", seen)):
        for number, more in enumerate(beside):
            ways = [[b for b, one in enumerate(hides) if np.array_equal(one | more, own)] for own in cells]
            samples = [some[0] for some in ways if len(some) == 1]
            # One sample's mask for all of them is none: what it hides is hidden anyway.
            if len(samples) == len(cells) and (len(seen) == 1 or len(set(samples)) > 1):
                yield polarity, number, samples
                break


def hides_rows(mask: np.ndarray, rows: np.ndarray) -> bool:
    """Whether a mask (…, positions) says which queries are hidden, (batch, queries), those of all heads alike."""
    n, length = mask.size // mask.shape[-1], rows.shape[1]
    if mask.shape[-1] != length or len(rows) % n:
        return False
    return np.array_equal(np.repeat(mask.reshape(n, length) == 0, len(rows) // n, axis=0), rows)


def offset_of(hidden: np.ndarray, ahead: np.ndarray) -> int | None:
    """The number that the keys that are hidden are farther ahead than, if these are all of them and no others."""
    offset = int(ahead[hidden].min()) - 1 if hidden.any() else int(ahead.max())
    return offset if np.array_equal(hidden, ahead > offset) else None
