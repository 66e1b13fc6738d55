"""Positions inside a recording: tables added to the input, rotations of queries and keys, biases added to scores.

What does not depend on the data is measured: the cosines and sines that each feature of a query is turned by, the
frequencies of a table's columns, the slopes of a bias.  A mistake is told where the numbers are those of a known one
and not those of the definition; what is neither is somebody's own encoding, and nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from overt.check.definitions import slopes_of
from overt.check.pipeline import classify
from overt.check.positions import every_second, sinusoids, waves
from overt.recorder.core import Core
from overt.recorder.flow import VIEWS
from overt.recorder.operations import Line, Operation

_PRODUCTS = {"mm", "addmm", "bmm", "matmul", "einsum", "dot", "linear", "baddbmm", "dot_general", "tensordot"}
_SUMS = {"add", "iadd", "radd"}
_FACTORS = {"mul", "imul", "rmul", "multiply", "div", "idiv", "true_divide", "divide", "truediv", "itruediv"}
# Slopes that are not those of the paper, as forms of its formula.
_WRONG = ("from 0", "formula", "from 0 formula")
# Operations between what is turned and what was turned.
_FAR = 80
_CLOSE = 1e-4


class Operand(Protocol):
    """Queries, keys or values as they are multiplied, (n, positions, width), and what made them before views."""

    @property
    def form(self) -> np.ndarray: ...
    @property
    def array(self) -> np.ndarray: ...
    @property
    def factor(self) -> float: ...
    @property
    def source(self) -> int | None: ...
    @property
    def views(self) -> list[int]: ...
    def places(self) -> list[np.ndarray] | None:
        """Coordinates in the array of every number of the form."""

    def along(self) -> list[int] | None:
        """The axes of the array along which the width runs."""


class Told(NamedTuple):
    """What is told of a step: the mistake, "" where it held and None where it could not be judged."""

    step: str
    mistake: str | None
    line: Line | None
    says: str
    expected: Any = None
    actual: Any = None


class Turn(NamedTuple):
    """How features are turned: their layout, by which tables (T, width) of cosines and sines, and over which axis.

    before: the operation that made what is turned, None where it was given.
    """

    layout: str
    cosines: np.ndarray
    sines: np.ndarray
    along: bool
    line: Line | None
    before: int | None = None

    @property
    def turns(self) -> np.ndarray:
        """One complex number for each position and pair, (T, width / 2)."""
        both = self.cosines + 1j * self.sines
        return both[:, : both.shape[1] // 2] if self.layout == "halves" else both[:, ::2]


def told(
    core: Core,
    data: Sequence[bool],
    operands: tuple[Operand, Operand, Operand],
    intended: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Iterator[Told]:
    """What the positions of one attention come to.  operands: its queries, keys and values."""
    yield from _tables(core, data)
    yield from _embedded(core, intended)
    yield from _turned(core, data, operands, intended, facts)
    yield from _biases(core, data, intended, facts)


# Rotations of queries and keys.


def _turned(
    core: Core,
    data: Sequence[bool],
    operands: tuple[Operand, Operand, Operand],
    intended: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> Iterator[Told]:
    q, k, v = (turn(core.operations, data, one) for one in operands)
    step = "rotation"
    for name, one in (("queries", q), ("keys", k)):
        if one is None:
            continue
        if not one.along:
            yield Told(step, "unknown", one.line, f"The {name} are turned by another axis than that of the positions.")
            return
        if not _paired(one, one.layout):
            if _paired(one, "halves" if one.layout == "neighbours" else "neighbours"):
                says = f"Features are paired as {one.layout}, and their angles are not."
                yield Told(step, "rope_layout", one.line, says)
            else:
                yield Told(step, None, one.line, "features are turned in a way of their own")
            return
    if v is not None and intended.get("rotates q and k") and q is not None:
        yield Told(step, "unknown", v.line, "The values are turned too, where queries and keys are said to be.")
    if q is None or k is None:
        one, other = (q, operands[1]) if q is not None else (k, operands[0])
        made = None if other.source is None else core.operations[other.source]
        if one is not None and made is not None and made.name in _PRODUCTS and _steady(one) is not None:
            which = (
                "queries are turned by their positions, and keys" if q is not None else "keys are turned, and queries"
            )
            yield Told(step, "unknown", one.line, f"The {which} are not, so a score depends on no distance.")
        return
    a, b = _steady(q), _steady(k)
    if a is None or b is None or a.shape != b.shape:
        yield Told(step, None, q.line, "angles that do not grow with the position by equal steps")
        return
    if not np.allclose(a, b, atol=_CLOSE):
        if np.allclose(a, b.conj(), atol=_CLOSE):
            says = "Queries and keys are turned in opposite directions, so a score depends on no distance."
            yield Told(step, "unknown", k.line, says)
        else:
            yield Told(step, None, k.line, "queries and keys are turned by different angles")
        return
    T, S = len(q.turns), len(k.turns)
    line = _made_at(core.operations, lambda x: np.array_equal(x.ravel(), np.arange(T)), None)
    line = line or _taken_at(core.operations, data, operands[0].source) or q.line
    first = q.turns[0] * k.turns[0].conj()
    if S > T and facts.get("causal") == S - T and np.allclose(first / np.abs(first), 1, atol=_CLOSE):
        says = f"The queries are the last {T} of {S} positions, and are turned as the first."
        yield Told(step, "rope_offset", line, says)
    else:
        yield Told(step, "", line, f"queries and keys are turned by their positions, paired as {q.layout}")


def _paired(one: Turn, layout: str) -> bool:
    """Whether the features of a pair, by a layout, have one cosine and one sine."""
    half = one.cosines.shape[1] // 2
    pairs = [(x[:, :half], x[:, half:]) if layout == "halves" else (x[:, ::2], x[:, 1::2])
             for x in (one.cosines, one.sines)]  # fmt: skip
    return all(np.allclose(x, y, atol=_CLOSE) for x, y in pairs)


def _steady(one: Turn) -> np.ndarray | None:
    """By what each position is turned more than the one before, where that is the same everywhere, and not nothing."""
    turns = one.turns
    with np.errstate(all="ignore"):
        steps = turns[1:] / turns[:-1]
        steps = steps / np.abs(steps)
    if not len(steps) or not np.isfinite(steps).all() or not np.allclose(steps, steps[0], atol=_CLOSE):
        return None
    return np.asarray(steps[0]) if (np.abs(steps[0] - 1) > _CLOSE).any() else None


def turn(operations: Sequence[Operation], data: Sequence[bool], one: Operand) -> Turn | None:
    """The rotation that an operand of scores came from, None where it came from none."""
    if one.source is None or operations[one.source].name in _PRODUCTS or not one.factor:
        return None
    after = [operations[one.source].host, *(operations[i].host for i in reversed(one.views))]
    for number, before in _bottlenecks(operations, data, one.source):
        same = [y for y in after if y.shape == before.shape]
        if not same or before.dtype.kind != "f" or before.shape[-1] % 2 or before.shape[-1] != one.form.shape[-1]:
            continue
        x, y = before, same[0]
        axis = _positions(one.form / one.factor, y)
        if axis is None or axis == y.ndim - 1:
            return None
        line = operations[one.source].line
        # Along the positions, or else along another axis by mistake.
        for along in (axis, *(a for a in range(y.ndim - 1) if a != axis and y.shape[a] > 2)):
            found = _fit(np.moveaxis(x, along, 0), np.moveaxis(y, along, 0))
            if found is not None and (along == axis or _steady(Turn(*found, True, line)) is not None):
                return Turn(*found, along == axis, line, number)
    return None


def _bottlenecks(
    operations: Sequence[Operation], data: Sequence[bool], number: int
) -> Iterator[tuple[int | None, np.ndarray]]:
    """Operations that everything of an operation's data passed through, with their results, the latest first."""
    open_, leaves = {number}, dict[str, np.ndarray]()
    for _ in range(_FAR):
        if not open_:
            break
        last = max(open_)
        open_.remove(last)
        operation = operations[last]
        if not open_ and not leaves and last != number:
            yield last, operation.host
            if operation.name in _PRODUCTS:
                return
        for source, origin, x in zip(operation.sources, operation.origins, operation.operands, strict=True):
            if source is not None and data[source]:
                open_.add(source)
            elif source is None and origin.startswith("argument") and x.dtype.kind == "f":
                leaves[origin] = x
    if not open_ and len(leaves) == 1:
        yield None, next(iter(leaves.values()))


def _positions(form: np.ndarray, y: np.ndarray) -> int | None:
    """The axis of y along which the positions of a form (n, positions, width) lie."""
    flat = y.ravel()
    order = np.argsort(flat, kind="stable")
    at = order[np.clip(np.searchsorted(flat[order], form.ravel() - 1e-9), 0, len(flat) - 1)]
    if not np.allclose(flat[at], form.ravel(), rtol=1e-5, atol=1e-8):
        return None
    places = [c.reshape(form.shape) for c in np.unravel_index(at, y.shape)]
    length = form.shape[1]
    found = [a for a, c in enumerate(places) if len(np.unique(c)) == length and (c == c[:1, :, :1]).mean() > 0.9]
    return found[0] if len(found) == 1 else None


def _fit(x: np.ndarray, y: np.ndarray) -> tuple[str, np.ndarray, np.ndarray] | None:
    """Layout and tables (T, width) of cosines and sines that turn x (T, …, D) into y, all features or the first."""
    D = x.shape[-1]
    x, y = (a.reshape(len(a), -1, D) for a in (x, y))
    if x.shape[1] < 3 or len(x) < 2 or not np.isfinite(y).all():
        return None
    for width in (n for n in (D, D // 2, D // 4) if n and n % 2 == 0):
        if width < D and not np.allclose(x[..., width:], y[..., width:], rtol=1e-5, atol=1e-8):
            continue
        one, half = x[..., :width], width // 2
        neighbours = np.stack([-one[..., 1::2], one[..., ::2]], -1).reshape(one.shape)
        halves = np.concatenate([-one[..., half:], one[..., :half]], -1)
        seen = y[..., :width]
        # Neighbours, written as halves, which queries and keys may share.
        laid = np.stack([seen[..., :half], seen[..., half:]], -1).reshape(seen.shape)
        for layout, other, made in (
            ("halves", halves, seen),
            ("neighbours", neighbours, seen),
            ("neighbours", neighbours, laid),
        ):
            tables = _solved(one, other, made)
            if tables is not None and np.abs(tables[1]).max() > 1e-3:
                return layout, *tables
    return None


def _solved(x: np.ndarray, other: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """c and s (T, width) with y = c x + s other for all of (T, n, width), None where there are none."""
    a, b, d = (x * x).sum(1), (x * other).sum(1), (other * other).sum(1)
    one, two = (x * y).sum(1), (other * y).sum(1)
    with np.errstate(all="ignore"):
        under = a * d - b * b
        c, s = (d * one - b * two) / under, (a * two - b * one) / under
        rest = np.abs(y - c[:, None] * x - s[:, None] * other).max()
    fits = np.isfinite(c).all() and np.isfinite(s).all() and rest <= 1e-4 * np.abs(y).max()
    return (c, s) if fits else None


# Tables added to the input.


def _tables(core: Core, data: Sequence[bool]) -> Iterator[Told]:
    """Sines and cosines that are added to what queries, keys and values are made of."""
    for number in range(core.scores.number):
        operation = core.operations[number]
        if operation.name not in _SUMS or len(operation.operands) != 2 or operation.host.ndim < 2:
            continue
        moving = [data[s] if s is not None else o.startswith("argument")
                  for s, o in zip(operation.sources, operation.origins, strict=True)]  # fmt: skip
        if sorted(moving) != [False, True]:
            continue
        table = operation.operands[moving.index(False)]
        rows = table.reshape([n for n in table.shape if n != 1])
        W = operation.host.shape[-1]
        if rows.ndim != 2 or rows.shape[1] != W or W % 2 or W < 4 or rows.dtype.kind != "f" or not np.ptp(rows):
            continue
        made = _made_at(core.operations[:number], partial(_holds, rows), operation.line)
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


def _made_at(operations: Sequence[Operation], fits: Callable[[np.ndarray], bool], line: Line | None) -> Line | None:
    """Where numbers were first computed in a recording; None where they were kept from before, ``line`` where lost."""
    for operation in operations:
        for x, origin in zip(operation.operands, operation.origins, strict=True):
            if origin.startswith("parameter") and fits(x):
                return None
        if fits(operation.host):
            return operation.line
    return line


def _taken_at(operations: Sequence[Operation], data: Sequence[bool], number: int | None) -> Line | None:
    """Where the table by which something was turned was taken from what was kept from before; None where it was not."""
    open_, seen = [number], set[int]()
    while open_:
        one = open_.pop(0)
        if one is None or one in seen or (data[one] and operations[one].name in _PRODUCTS):
            continue
        seen.add(one)
        operation = operations[one]
        kept = [s is None for s, x in zip(operation.sources, operation.operands, strict=True) if x.size > 1]
        if not data[one] and kept == [True] and operation.name in VIEWS and operation.operands[0].size > 1:
            return operation.line
        open_ += operation.sources
    return None


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


def _embedded(core: Core, intended: Mapping[str, Any]) -> Iterator[Told]:
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
            if operation.name in _FACTORS and np.abs(x).max():
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


# Biases added to scores.


def _biases(core: Core, data: Sequence[bool], intended: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Told]:
    """Linear biases.  Press et al. 2022 (arXiv:2108.12409), section 3."""
    for (_, x), (number, y) in zip(core.steps, core.steps[1:], strict=False):
        if number is None or x.shape != y.shape:
            continue
        operation = core.operations[number]
        moving = [data[s] if s is not None else o.startswith("argument")
                  for s, o in zip(operation.sources, operation.origins, strict=True)]  # fmt: skip
        if sum(moving) > 1 or classify(x, y, operation, False).name != "bias":
            continue
        with np.errstate(all="ignore"):
            gap = np.where(np.isfinite(x) & np.isfinite(y) & (y > -1e4), y - x, np.nan)
        if min(*gap.shape, core.scores.queries.shape[1]) < 3:
            yield Told("bias", None, operation.line, "a bias of so few positions tells nothing")
            continue
        cells = _by_head(core, gap)
        if cells is not None:
            yield from _linear(cells, core.operations[: number + 1], facts, intended)


def _by_head(core: Core, gap: np.ndarray) -> np.ndarray | None:
    """A bias, rows × keys, as (H, T, S): axes along which it is the same are samples."""
    labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
    whole = gap.reshape(*core.shape, gap.shape[1])
    rows = [labels.index(a) for a in core.mix.rows]
    batch = [labels.index(a) for a in core.mix.batch]
    whole = whole.transpose([*batch, *rows, whole.ndim - 1])
    whole = whole.reshape(*whole.shape[: len(batch)], -1, whole.shape[-1])
    for axis in reversed(range(len(batch))):
        first = np.take(whole, [0], axis)
        if np.allclose(whole, first, rtol=1e-6, atol=1e-9, equal_nan=True):
            whole = first
    cells = whole.reshape(-1, *whole.shape[-2:])
    n = len(cells)
    for H in (h for h in range(1, n) if n % h == 0):
        # Heads that are folded into the batch come again with each sample.
        for again in (np.tile(cells[:H], (n // H, 1, 1)), np.repeat(cells[:: n // H], n // H, axis=0)):
            if np.allclose(cells, again, rtol=1e-6, atol=1e-9, equal_nan=True):
                return cells[:H] if again is not None and np.allclose(cells[:H], again[:H], equal_nan=True) else None
    return cells


def _linear(
    cells: np.ndarray, operations: Sequence[Operation], facts: Mapping[str, Any], intended: Mapping[str, Any]
) -> Iterator[Told]:
    H, T, S = cells.shape
    step, line = "bias", operations[-1].line
    ahead = np.arange(S) - np.arange(T)[:, None] - (S - T)
    # Wherever a causal mask begins, what comes later is not meant to be seen.
    causal = "causal" in facts or bool(np.isnan(cells[0][ahead > 0]).all())
    seen = cells.copy()
    if causal:
        seen[:, ahead > 0] = np.nan
    found: tuple[np.ndarray, int | None] | None = None
    plain = _slopes(seen, np.broadcast_to(np.arange(S, dtype=float), (T, S)))
    if plain is not None and causal:
        found = plain, None
    elif plain is None:
        for offset in dict.fromkeys((S - T, 0)):
            slopes = _slopes(seen, -np.abs(np.arange(S) - np.arange(T)[:, None] - offset).astype(float))
            if slopes is not None:
                found = slopes, offset
                break
    if found is None:
        return
    slopes, at = found
    size, sign = np.abs(slopes), np.sign(slopes)
    forms = [("", slopes_of(H, None)), ("", every_second(H)), *((how, slopes_of(H, how)) for how in _WRONG)]
    how = next((how for how, some in forms if np.allclose(size, some, rtol=1e-3)), None)
    if how is None or len(set(sign)) > 1:
        return
    if sign[0] < 0:
        yield Told(step, "alibi_sign", line, "The farther a key is, the more it is rewarded.", -slopes, slopes)
    # The plain formula for any number of heads is many people's own.
    if how and ((intended.get("alibi") and sign[0] > 0) or how != "formula"):
        made = _made_at(operations, lambda x: x.size == H and bool(np.allclose(np.abs(x.ravel()), size)), line)
        yield Told(step, "alibi_slopes", made, "The slopes are none of the paper's.", slopes_of(H, None), size)
    if at is not None and at != S - T:
        says = f"The distance is counted as if the first of {T} queries stood at the first of {S} keys."
        away = np.abs(np.arange(S) - np.arange(T)[:, None] - at).ravel()
        made = _made_at(operations, lambda x: np.array_equal(np.abs(x).ravel(), away), line)
        yield Told(step, "alibi_offset", made, says)
    elif sign[0] > 0 and not how:
        yield Told(step, "", line, "ALiBi: slope times distance")


def _slopes(cells: np.ndarray, distance: np.ndarray) -> np.ndarray | None:
    """(H,) with cells = slope · distance and a constant for each row; None where there are none."""
    found = []
    for one in cells:
        live = np.isfinite(one)
        if (live.sum(1) > 1).sum() < 2:
            return None
        with np.errstate(all="ignore"):
            count = np.maximum(live.sum(1), 1)[:, None]
            a = np.where(live, distance - np.where(live, distance, 0).sum(1, keepdims=True) / count, 0)
            b = np.where(live, one - np.where(live, one, 0).sum(1, keepdims=True) / count, 0)
        slope = float((a * b).sum() / max((a * a).sum(), 1e-12))
        if abs(slope) < 1e-6 or np.abs(b - slope * a).max() > 1e-3 * np.abs(b).max():
            return None
        found.append(slope)
    return np.asarray(found)
