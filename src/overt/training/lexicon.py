"""Which words of a sentence translate which, learnt from pairs alone: a teacher for attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# How strongly words at the same relative place are preferred, and the share of words that translate nothing.
_TENSION, _NOTHING = 4.0, 0.08


def alignments(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], *, rounds: int = 6) -> list[np.ndarray]:
    """For each pair of sentences, S and T words by number, how surely each target word translates each source word.

    (T, S), rows that sum to at most 1.  IBM Model 1 with a preference for the diagonal (Dyer et al. 2013), in both
    directions: the posterior of one, weakened where the source word, asked the other way, likes another better.
    """
    there = _posteriors(pairs, rounds)
    back = _posteriors([(target, source) for source, target in pairs], rounds)
    # A word that translates several has no less to give to each of them.
    return [one * (other / other.max(axis=1, keepdims=True)).T for one, other in zip(there, back, strict=True)]


def _posteriors(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], rounds: int) -> list[np.ndarray]:
    """(T, S) for each pair: the probability that target word t comes from source word s."""
    sizes = [(len(target), len(source)) for source, target in pairs]
    # One column more for words that come from nothing, under the number 0.
    sources = [np.array([*(number + 1 for number in source), 0]) for source, _ in pairs]
    left = np.concatenate([np.tile(source, T) for source, (T, _) in zip(sources, sizes, strict=True)])
    right = np.concatenate([np.repeat(target, S + 1) for (_, target), (_, S) in zip(pairs, sizes, strict=True)])
    row = np.repeat(np.arange(sum(T for T, _ in sizes)), np.repeat([S + 1 for _, S in sizes], [T for T, _ in sizes]))
    prior = np.concatenate([_prior(T, S).ravel() for T, S in sizes])
    _, cell = np.unique(left.astype(np.int64) * (right.max() + 1) + right, return_inverse=True)
    first = np.zeros(cell.max() + 1, np.int64)
    first[cell] = left
    posterior = prior.copy()
    for _ in range(rounds):
        counts = np.bincount(cell, posterior)
        chances = counts / np.bincount(first, counts)[first]
        posterior = prior * chances[cell]
        posterior /= np.bincount(row, posterior)[row]
    ends = np.cumsum([T * (S + 1) for T, S in sizes])
    return [part.reshape(T, S + 1)[:, :S] for part, (T, S) in zip(np.split(posterior, ends[:-1]), sizes, strict=True)]


def _prior(T: int, S: int) -> np.ndarray:
    places = np.abs((np.arange(T)[:, None] + 0.5) / T - (np.arange(S) + 0.5) / S)
    near = np.exp(-_TENSION * places)
    near *= (1 - _NOTHING) / near.sum(axis=1, keepdims=True)
    return np.hstack([near, np.full((T, 1), _NOTHING)])
