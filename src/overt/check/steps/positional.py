"""Positions inside a recording: tables added to the input, and embeddings; and what is told of any of these.

What does not depend on the data is measured: the frequencies of a table's columns; in turning the cosines and sines
that each feature of a query is turned by, in distances the slopes of a bias.  A mistake is told where the numbers are
those of a known one and not those of the definition; what is neither is somebody's own encoding, and nothing is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from overt.check.steps.definitions import sinusoids, waves
from overt.check.steps.judged import FACTORS, UNKNOWN
from overt.recorder.core import Core
from overt.recorder.flow import VIEWS, moving
from overt.recorder.operations import Line, Operation
from overt.recorder.products import contracted, made_of

_SUMS = {"add", "iadd", "radd"}
# Places that a window has at least, of which three lie on a parabola anyway.
_PLACES = 4


class Told(NamedTuple):
    """What is told of a step: the mistake, "" where it held and None where it could not be judged."""

    step: str
    mistake: str | None
    line: Line | None
    says: str
    expected: Any = None
    actual: Any = None


def windows(operations: Sequence[Operation], data: Sequence[bool]) -> list[tuple[str, str, Line | None, str]]:
    """Steps that mix values by sums of Gaussians of their places, which need not sum to 1 (Graves 2013).

    Each with its mistake, "" where it held, its line and what is said of it.
    """
    found: dict[int, tuple[str, str, Line | None, str]] = {}
    for number in range(len(operations)):
        one = contracted(operations, number)
        for mix in () if one is None else (one, one.turned()):
            source, axes = mix.sources[0], [mix.labels[0].index(a) for a in mix.summed]
            if source is None or not data[source] or len(axes) != 1 or (mix.left < 0).any():
                continue
            length = mix.left.shape[axes[0]]
            for n in made_of(operations, source) if length >= _PLACES else ():
                x = operations[n].operands[0] if operations[n].name == "exp" else np.zeros(0)
                for axis in (a for a, many in enumerate(x.shape) if many == length and np.isfinite(x).all()):
                    bends = np.diff(x, 2, axis=axis)
                    first, line = bends.take([0], axis), operations[n].line
                    if not first.all() or not np.allclose(bends, first, 1e-6, 1e-9 * np.abs(x).max()):
                        continue
                    if (first < 0).all():
                        found[n] = "weights", "", line, "Gaussians of the places of what is mixed (Graves 2013)"
                    elif (first > 0).all() and any(operations[m].name == "exp" for m in made_of(operations, n) - {n}):
                        # A power of e is positive, whatever was given.
                        says = "What is farther from the middle of a window has more weight."
                        found[n] = "weights", UNKNOWN, line, says
    return list(dict.fromkeys(found.values()))


# Tables added to the input.


def tables(core: Core, data: Sequence[bool]) -> Iterator[Told]:
    """Sines and cosines that are added to what queries, keys and values are made of."""
    for number in range(core.scores.number):
        operation = core.operations[number]
        if operation.name not in _SUMS or len(operation.operands) != 2 or operation.host.ndim < 2:
            continue
        moves = moving(operation, data)
        if sorted(moves) != [False, True]:
            continue
        table = operation.operands[moves.index(False)]
        rows = table.reshape([n for n in table.shape if n != 1])
        W = operation.host.shape[-1]
        if rows.ndim != 2 or rows.shape[1] != W or W % 2 or W < 4 or rows.dtype.kind != "f" or not np.ptp(rows):
            continue
        made = made_at(core.operations[:number], partial(_holds, rows), operation.line)
        yield from _sines(rows.astype(float), operation, made)


def _holds(rows: np.ndarray, x: np.ndarray) -> bool:
    """Whether these are rows of x."""
    wide = x.reshape([n for n in x.shape if n != 1])
    return (
        wide.ndim == 2
        and wide.shape[1] == rows.shape[1]
        and len(wide) >= len(rows)
        and bool(np.array_equal(wide[: len(rows)], rows))
    )


def made_at(operations: Sequence[Operation], fits: Callable[[np.ndarray], bool], line: Line | None) -> Line | None:
    """Where numbers were first computed in a recording; None where they were kept from before, ``line`` where lost."""
    for operation in operations:
        for x, origin in zip(operation.operands, operation.origins, strict=True):
            if origin.startswith("parameter") and fits(x):
                return None
        if fits(operation.host):
            return operation.line
    return line


def _sines(rows: np.ndarray, operation: Operation, line: Line | None) -> Iterator[Told]:
    """A table (positions, width) against Vaswani et al. 2017, 3.5, whose frequency of pair i is 10000^(−2i/width)."""
    step, W = "positions", rows.shape[1]
    at = np.arange(len(rows))
    for how, meant in sinusoids(at, W, (10_000.0,)):
        if np.allclose(rows, meant, atol=2e-4):
            yield Told(step, "", operation.line, f"sines and cosines, {how}")
            return
    if len(rows) < 5:
        yield Told(step, None, operation.line, "a table of so few positions tells nothing")
        return
    if not waves(rows):
        return
    # From position 0, a column is a sine or a cosine, and position 1 has its frequency.
    cosine = rows[0] > 0.5
    w = np.where(cosine, np.arccos(np.clip(rows[1], -1, 1)), np.arcsin(np.clip(rows[1], -1, 1)))
    half = W // 2
    for a, b in ((slice(None, None, 2), slice(1, None, 2)), (slice(None, half), slice(half, None))):
        if not ((cosine[a].all() and not cosine[b].any()) or (cosine[b].all() and not cosine[a].any())):
            continue
        sines, cosines = (w[b], w[a]) if cosine[a].all() else (w[a], w[b])
        known = sines > 0.01
        ratios = sines[1:][known[1:]] / sines[:-1][known[1:]]
        if abs(sines[0] - 1) > 1e-3 or not len(ratios) or np.ptp(ratios) > 1e-3:
            continue
        base = ratios[0] ** -half
        if not np.allclose(sines, cosines, atol=2e-3):
            says = "The sine and the cosine of a pair have different frequencies."
            yield Told(step, "pe_exponent", line, says, sines, cosines)
        elif any(abs(base / b - 1) < 0.02 for b in (1e8, 1e2)):
            meant = 10_000.0 ** (-np.arange(half) / half)
            says = f"The base is {base:.3g}: in the exponents of 10000 an index counts twice, or half."
            yield Told(step, "pe_exponent", line, says, meant, sines)
        else:
            yield Told(step, "", operation.line, f"sines and cosines of the base {base:.4g}")
        return


def counted(core: Core) -> Iterator[Told]:
    """Sines of positions that are counted in what is given, as rows and columns of a padded image are, and then added.

    Their angles are positions times rates: those of pair i, of n, are base^(−i/n).
    """
    operations = core.operations[: core.scores.number]
    for number, operation in enumerate(operations):
        x = operation.operands[0] if operation.name == "sin" else np.zeros(0)
        if x.ndim < 2 or x.shape[-1] < 3:
            continue
        rows = x.reshape(-1, x.shape[-1]).astype(float)
        rows = rows[rows[:, 0] != 0]
        at = np.unique(rows[:, 0])
        if len(at) < 2 or np.array_equal(rows[:, 0], np.arange(1, len(rows) + 1)):
            # Those of a table are told from that.
            continue
        rates = rows / rows[:, :1]
        if not rates[0].all():
            continue
        ratios = rates[0, 1:] / rates[0, :-1]
        if not all(np.allclose(y, y[:1], rtol=1e-3, atol=0) for y in (rates, ratios)):
            continue
        sums = (one for one in operations[number:] if one.name in _SUMS)
        added = any(np.isin(operation.host, y).all() for one in sums for y in one.operands)
        base = ratios[0] ** -x.shape[-1]
        if added and abs(base / 1e8 - 1) < 0.02:
            source = operation.sources[0]
            says = f"The base is {base:.3g}: in the exponents of 10000 an index counts twice."
            meant = 10_000.0 ** (-np.arange(x.shape[-1]) / x.shape[-1])
            line = operation.line if source is None else operations[source].line
            yield Told("positions", "pe_exponent", line, says, meant, rates[0])
        elif added:
            yield Told("positions", "", operation.line, f"sines and cosines of the base {base:.4g}")


def embedded(core: Core, intended: Mapping[str, Any]) -> Iterator[Told]:
    """Embeddings, multiplied by √width where that is said; divided by it nowhere."""
    operations = core.operations
    for number in range(core.scores.number):
        first = operations[number]
        if first.name != "embedding" or not any(o.startswith("parameter") for o in first.origins):
            continue
        W, gain, line, last = first.host.shape[-1], 1.0, first.line, number
        for later in range(number + 1, core.scores.number):
            operation = operations[later]
            x, y = operations[last].host, operation.host
            if last not in operation.sources or x.size != y.size:
                continue
            if operation.name in FACTORS and np.abs(x).max():
                factor = float(np.abs(y).max() / np.abs(x).max())
                if not np.allclose(x.ravel() * factor, y.ravel(), rtol=1e-4):
                    break
                gain, line, last = gain * factor, operation.line, later
            elif operation.name in VIEWS:
                last = later
            else:
                break
        # Where more is added to it only, it is the embedding of tokens.
        wanted = bool(intended.get("embeddings times √d"))
        if abs(gain * W**0.5 - 1) < 1e-3 and W > 1:
            yield Told("embedding", "embed_scale", line, "Embeddings are divided by √d.", W**0.5, gain)
        elif wanted and abs(gain / W**0.5 - 1) > 1e-3 and _widest(operations, core, first):
            yield Told("embedding", "embed_scale", line, f"Embeddings are multiplied by {gain:.4g}.", W**0.5, gain)
        elif abs(gain / W**0.5 - 1) < 1e-3:
            yield Told("embedding", "", line, "embeddings times √d")


def _widest(operations: Sequence[Operation], core: Core, first: Operation) -> bool:
    """Whether no other embedding has a larger table: that of positions is none of tokens."""
    tables = [max(x.shape[0] for x in op.operands if x.dtype.kind == "f") for op in operations[: core.scores.number]
              if op.name == "embedding"]  # fmt: skip
    mine = max(x.shape[0] for x in first.operands if x.dtype.kind == "f")
    return len(tables) == 1 or (mine == max(tables) and tables.count(mine) == 1)
