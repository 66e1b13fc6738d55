"""From scores of the next token to whole sequences: beam search and sampling, for any model that goes step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from overt.errors import FileError
from overt.grid import host
from overt.models.vocabulary import END, PADDING, START

Step = Callable[[Any, np.ndarray], tuple[Any, Any]]
"""From a state and tokens (B, T) to the scores after each (B, T, V) and the new state."""


@dataclass(frozen=True)
class Hypothesis:
    """Token numbers without start and end, and their log-probability, end included, over the length penalty."""

    tokens: tuple[int, ...]
    score: float


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
    ((5 + n) / 6)^α, Wu et al. 2016 (arXiv:1609.08144), equation 14.  prefixes: what each sequence must begin with.
    """
    width = max(width, count)
    done: list[list[Hypothesis]] = [[] for _ in range(rows)]
    alive = np.arange(rows)
    texts: list[list[tuple[int, ...]]] = [[() for _ in range(width)] for _ in range(rows)]
    sums = np.full((rows, width), -np.inf)
    sums[:, 0] = 0
    state = state.select(np.repeat(alive, width))
    last = np.full((rows * width, 1), START, np.int64)
    length = 0
    while alive.size:
        scores, state = step(state, last)
        logs = log_probabilities(host("scores", scores)[:, -1, :])
        vocabulary = logs.shape[-1]
        length += 1
        for i, row in enumerate(alive.tolist()):
            if prefixes and length <= len(prefixes[row]):
                _force(logs[i * width : (i + 1) * width], prefixes[row][length - 1])
            elif length > limits[row]:
                _force(logs[i * width : (i + 1) * width], END)
        totals = (sums[:, :, None] + logs.reshape(len(alive), width, vocabulary)).reshape(len(alive), -1)
        # Of twice as many candidates at most ``width`` end here, so that enough go on.
        some = min(2 * width, totals.shape[1] - 1)
        best = np.argpartition(-totals, some, axis=1)[:, :some]
        order = np.argsort(-np.take_along_axis(totals, best, axis=1), axis=1, kind="stable")
        best = np.take_along_axis(best, order, axis=1)
        scale = _penalty(length, penalty)
        onward: list[int] = []
        tokens, kept, new_texts, new_sums = [], [], [], []
        for i, row in enumerate(alive.tolist()):
            going: list[tuple[float, int, int]] = []
            for place, cell in enumerate(best[i]):
                total = float(totals[i, cell])
                beam, token = divmod(int(cell), vocabulary)
                if total == -np.inf:
                    continue
                if token == END:
                    if place < width:
                        done[row].append(Hypothesis(texts[i][beam], total / scale))
                elif len(going) < width:
                    going.append((total, beam, token))
            done[row] = sorted(done[row], key=lambda found: -found.score)[:width]
            # What is still going can only lose, except by the penalty, which is largest at the limit.
            hope = going[0][0] / _penalty(max(limits[row] + 1, length), penalty) if going else -np.inf
            if not going or (len(done[row]) >= width and done[row][-1].score >= hope):
                continue
            onward.append(i)
            # Beams that are still empty repeat the first, at no chance to win.
            going += [(-np.inf, *going[0][1:])] * (width - len(going))
            tokens += [token for _, _, token in going]
            kept += [i * width + beam for _, beam, _ in going]
            new_texts.append([(*texts[i][beam], token) for _, beam, token in going])
            new_sums.append([total for total, _, _ in going])
        alive = alive[onward]
        texts, sums = new_texts, np.array(new_sums).reshape(-1, width)
        last = np.array(tokens, np.int64).reshape(-1, 1)
        state = state.select(np.array(kept, np.int64)) if alive.size else state
    return [found[:count] for found in done]


def sample(
    step: Step,
    state: Any,
    *,
    rows: int,
    limits: Sequence[int],
    temperature: float,
    rng: np.random.Generator,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """One sequence for each row, every token drawn by its probability; low temperatures prefer the likely ones.

    Algorithm 15 of Phuong & Hutter 2022.
    """
    texts: list[list[int]] = [[] for _ in range(rows)]
    sums = np.zeros(rows)
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
            else:
                chances = np.exp(log_probabilities(logs[row] / temperature))
                token = int(rng.choice(len(chances), p=chances / chances.sum()))
            sums[row] += logs[row, token]
            last[row] = token
            if token == END:
                going[row] = False
            else:
                texts[row].append(token)
    return [[Hypothesis(tuple(text), float(total))] for text, total in zip(texts, sums, strict=True)]


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Natural logarithms of the softmax in float64; nothing but ``END`` ends, and nothing starts again."""
    scores = scores.astype(np.float64)
    if scores.ndim > 1:
        scores[:, [PADDING, START]] = -np.inf
    top = scores - scores.max(axis=-1, keepdims=True)
    if np.isnan(top).any():
        raise FileError("the model's scores are no numbers: its parameters are NaN or infinite")
    return top - np.log(np.exp(top).sum(axis=-1, keepdims=True))


def _force(logs: np.ndarray, token: int) -> None:
    """Leave one token, at what it costs."""
    cost = logs[:, token].copy()
    logs[:] = -np.inf
    logs[:, token] = cost


def _penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha
