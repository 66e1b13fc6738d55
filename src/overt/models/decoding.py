"""From scores of the next token to whole sequences: beam search and sampling, for any model that goes step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overt.errors import FileError
from overt.grid import host
from overt.models.vocabulary import END, PADDING, START

# No sequence wins by more tokens than these that are yet to come.
_AHEAD = 20

Step = Callable[[Any, np.ndarray], tuple[Any, Any]]
"""From a state and tokens (B, T) to the scores after each (B, T, V) and the new state."""


@dataclass(frozen=True)
class Hypothesis:
    """Token numbers without start and end, and their log-probability, end included, over the length penalty.

    cut: it ends at the limit, where another token was likelier than the end.
    """

    tokens: tuple[int, ...]
    score: float
    cut: bool = False


def beam_search(
    step: Step,
    state: Any,
    *,
    rows: int,
    limits: Sequence[int],
    width: int = 5,
    count: int = 1,
    penalty: float = 1.0,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The ``count`` best sequences for each of ``rows`` inputs, best first; a width of 1 is greedy search.

    state: of all rows, with ``select(rows)``.  limits: the most tokens per row.  penalty: α of the length penalty
    ((5 + n) / 6)^α, Wu et al. 2016 (arXiv:1609.08144), equation 14.  prefixes: what each sequence must begin with,
    whatever its limit.
    """
    width = max(width, count)
    done: list[list[Hypothesis]] = [[] for _ in range(rows)]
    # The score of the last that is wanted, once there are so many.
    bar = np.full(rows, -np.inf)
    longest = np.maximum(limits, [len(prefix) for prefix in prefixes] if prefixes else 0) + 1
    alive = np.arange(rows)
    # Of each row that is alive and of each of its beams, of which there is one at first.
    texts: np.ndarray = np.zeros((rows, 1, 0), np.int64)
    sums: np.ndarray = np.zeros((rows, 1))
    last = np.full((rows, 1), START, np.int64)
    length = 0
    while alive.size:
        scores, state = step(state, last)
        logs = log_probabilities(host("scores", scores)[:, -1, :]).reshape(*sums.shape, -1)
        length += 1
        cut = np.zeros(sums.shape, bool)
        for i, row in enumerate(alive.tolist()):
            if prefixes and length <= len(prefixes[row]):
                _force(logs[i], prefixes[row][length - 1])
            elif length == longest[row]:
                cut[i] = logs[i].argmax(axis=-1) != END
                _force(logs[i], END)
        logs += sums[:, :, None].astype(logs.dtype)
        totals = logs.reshape(len(alive), -1)
        # Of twice as many candidates at most ``width`` end here, so that enough go on; greedy search stops at an end.
        best = largest(totals, min(2 * width, totals.shape[1]) if width > 1 else 1)
        before = np.arange(len(alive))[:, None] * sums.shape[1]
        beams, tokens = best // logs.shape[-1], best % logs.shape[-1]
        sums = np.take_along_axis(totals, best, axis=1).astype(np.float64)
        ends = tokens == END
        for i, place in np.argwhere((ends & (sums > -np.inf))[:, :width]).tolist():
            row = alive[i]
            found = done[row]
            score = sums[i, place] / _penalty(length, penalty)
            beam = beams[i, place]
            found.append(Hypothesis(tuple(texts[i, beam].tolist()), float(score), bool(cut[i, beam])))
            found.sort(key=lambda one: -one.score)
            del found[count:]
            bar[row] = found[-1].score if len(found) == count else -np.inf
        # Where fewer go on, others stand in for them, at no chance to win.
        sums[ends] = -np.inf
        going = np.argsort(ends, axis=1, kind="stable")[:, :width]
        beams, tokens, sums = (np.take_along_axis(x, going, axis=1) for x in (beams, tokens, sums))
        # What is still going can only lose, except by the penalty, which is largest at one end.
        ahead = np.minimum(longest[alive], length + _AHEAD)
        hope = sums[:, 0] / np.maximum(_penalty(length + 1, penalty), _penalty(ahead, penalty))
        onward = np.flatnonzero(bar[alive] < hope)
        alive, before, beams, tokens, sums = (x[onward] for x in (alive, before, beams, tokens, sums))
        texts = np.concatenate([texts[onward[:, None], beams], tokens[:, :, None]], axis=2)
        last = tokens.reshape(-1, 1)
        state = state.select((before + beams).reshape(-1)) if alive.size else state
    return done


def sample(
    step: Step,
    state: Any,
    *,
    rows: int,
    limits: Sequence[int],
    temperature: float,
    rngs: Sequence[np.random.Generator],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """One sequence for each row, every token drawn by its probability; low temperatures prefer the likely ones.

    rngs: one for each row, so that what a row draws does not depend on the others.
    Algorithm 15 of Phuong & Hutter 2022.
    """
    texts: list[list[int]] = [[] for _ in range(rows)]
    sums = np.zeros(rows)
    cut = [False] * rows
    going = np.ones(rows, bool)
    last = np.full((rows, 1), START, np.int64)
    length = 0
    while going.any():
        scores, state = step(state, last)
        logs = log_probabilities(host("scores", scores)[:, -1, :])
        length += 1
        last = np.full((rows, 1), PADDING, np.int64)
        for row in np.flatnonzero(going).tolist():
            if prefixes and length <= len(prefixes[row]):
                token = prefixes[row][length - 1]
            elif length > limits[row]:
                token = END
                cut[row] = bool(logs[row].argmax() != END)
            else:
                with np.errstate(over="ignore"):
                    cooled = (logs[row] - logs[row].max()).astype(np.float64) / temperature
                chances = np.exp(log_probabilities(cooled))
                token = int(rngs[row].choice(len(chances), p=chances / chances.sum()))
            sums[row] += logs[row, token]
            last[row] = token
            if token == END:
                going[row] = False
            else:
                texts[row].append(token)
    return [[Hypothesis(tuple(text), float(total), one)] for text, total, one in zip(texts, sums, cut, strict=True)]


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Natural logarithms of the softmax (…, V); nothing but ``END`` ends, and nothing starts again."""
    logs = scores.astype(np.result_type(scores, np.float32))
    logs[..., [PADDING, START]] = -np.inf
    logs -= logs.max(axis=-1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=-1, keepdims=True))
    # One number that is none makes all of its row so.
    if np.isnan(logs[..., END]).any():
        raise FileError("the model's scores are no numbers: its parameters are NaN or infinite")
    return logs


def largest(x: np.ndarray, count: int) -> np.ndarray:
    """Places of the ``count`` largest of each row of x (B, N), the largest first: (B, count)."""
    if count == 1:
        return x.argmax(axis=1)[:, None]
    B, N = x.shape
    folds = min(8, N // count)
    columns = N // folds
    # The largest lie in the columns of the largest maxima, or in the rest that is left over.
    maxima = x[:, : folds * columns].reshape(B, folds, columns).max(axis=1)
    heads = np.argpartition(maxima, -count, axis=1)[:, -count:]
    places = (np.arange(folds)[:, None] * columns + heads[:, None, :]).reshape(B, -1)
    rest = np.arange(folds * columns, N)
    places = np.concatenate([places, np.broadcast_to(rest, (B, len(rest)))], axis=1)
    found = np.take_along_axis(x, places, axis=1)
    best = np.argpartition(found, -count, axis=1)[:, -count:]
    order = np.argsort(-np.take_along_axis(found, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, np.take_along_axis(best, order, axis=1), axis=1)


def _force(logs: np.ndarray, token: int) -> None:
    """Leave one token, at what it costs."""
    cost = logs[:, token].copy()
    logs[:] = -np.inf
    logs[:, token] = cost


def _penalty(length: Any, alpha: float) -> Any:
    return ((5 + length) / 6) ** alpha
