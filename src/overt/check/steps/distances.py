"""Biases that go by the distance of query and key, against the slopes of ALiBi."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from overt.check.steps.definitions import every_second, slopes_of
from overt.check.steps.origins import behind
from overt.check.steps.pipeline import classify
from overt.check.steps.positional import Told, made_at
from overt.recorder.core import ADDS, Core
from overt.recorder.flow import moving
from overt.recorder.operations import Operation
from overt.recorder.products import contracted

# Weights of what is seen.
_SEEN = 1e-30
# What takes rows of a table, and positions of which there are several distances.
_LOOKED_UP, _PAIRS = {"index", "take", "embedding", "index_select", "gather"}, 3
# Slopes that are not those of the paper, as forms of its formula.
_WRONG = ("from 0", "formula", "from 0 formula")


def biases(core: Core, data: Sequence[bool], intended: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[Told]:
    """Linear biases.  Press et al. 2022 (arXiv:2108.12409), section 3."""
    for (_, x), (number, y) in zip(core.steps, core.steps[1:], strict=False):
        if number is None or x.shape != y.shape:
            continue
        operation = core.operations[number]
        product = number == core.scores.number
        # A product that is added to a bias has queries and keys beside it, and the bias its sign from elsewhere.
        last = (behind(core.operations, operation.sources[0]) if product else None) or number
        if classify(x, y, operation, False).name != "bias":
            continue
        with np.errstate(all="ignore"):
            gap = np.where(np.isfinite(x) & np.isfinite(y) & (y > -1e4), y - x, np.nan)
        if sum(moving(operation, data)) > (2 if product else 1) and not intended.get("subtracted"):
            yield from _placed(core, gap, core.operations[: last + 1])
        elif min(*gap.shape, core.scores.queries.shape[1]) < 3:
            yield Told("bias", None, operation.line, "a bias of so few positions tells nothing")
            continue
        else:
            told = (list(_linear(cells, core.operations[: last + 1], facts, intended)) for cells in _by_head(core, gap))
            yield from next(filter(None, told), ())
        if intended.get("offsets"):
            told = (list(_indexed(cells, core.operations[:last], intended["offsets"])) for cells in _by_head(core, gap))
            yield from next(filter(None, told), ())


def _indexed(cells: np.ndarray, operations: Sequence[Operation], wanted: int) -> Iterator[Told]:
    """A bias (H, T, S) out of a table with a number for each offset: whether that is how far back a key is, or ahead.

    wanted: 1 where it is said to be how far back, and -1 where how far ahead.
    """
    live = np.isfinite(cells)
    back = np.broadcast_to(np.arange(cells.shape[1])[:, None] - np.arange(cells.shape[2]), cells.shape)[live]
    for operation in operations:
        for x, origin in zip(operation.operands, operation.origins, strict=True):
            if not origin.startswith(("parameter", "argument")) or x.dtype.kind != "f" or len(np.unique(x)) < x.size:
                continue
            # Which number of the table each of the bias is, from differences of scores.
            order = np.argsort(x, axis=None)
            ordered = x.ravel()[order].astype(float)
            near = np.searchsorted((ordered[1:] + ordered[:-1]) / 2, cells[live])
            if x.size < _PAIRS or not np.allclose(ordered[near], cells[live], rtol=1e-5, atol=1e-6):
                continue
            for at in np.unravel_index(order[near], x.shape):
                ways = [way for way in (1, -1) if np.ptp(at - way * back) == 0]
                # Where no later key is seen there is one way alone, whatever it is called.
                if ways and back.min() < 0 < back.max():
                    says = f"A table is indexed by how far {'back' if ways[0] > 0 else 'ahead'} a key is"
                    if ways[0] == wanted:
                        yield Told("bias", "", operation.line, f"{says[0].lower()}{says[1:]}, as is said")
                    else:
                        yield Told("bias", "unknown", operation.line, f"{says}, and the other way is said.")
                    return


def shifted(core: Core, data: Sequence[bool]) -> Iterator[Told]:
    """Products of queries with vectors of distances, moved to where their keys are.  Huang et al. 2018, section 3.4."""
    place, shape = core.place, core.scores.result.shape
    labels = core.scores.labels[2]
    rows, columns = ([labels.index(a) for a in axes] for axes in (core.scores.rows, core.scores.columns))
    if place is None or len(rows) != 1 or len(columns) != 1:
        return
    live, weights = np.zeros(core.scores.result.size, bool), core.steps[-1][1]
    # A row that sees nothing may see all.
    blind = (weights == weights[:, :1]).all(1, keepdims=True) & (weights.shape[1] > 1)
    live[place.ravel()] = ((weights > _SEEN) & ~blind).ravel()
    seen, path = live.reshape(shape), {*core.path, core.scores.number}
    for number in core.path:
        operation = core.operations[number]
        if operation.name not in ADDS or operation.host.shape != shape:
            continue
        for source, x in _terms(core.operations, number, path):
            made, keys = _product(core, data, source) or (None, False)
            if made is None or made.ndim != x.ndim or made.shape[rows[0]] != shape[rows[0]]:
                continue
            # Of keys, a row for each of them was made before they were laid along the columns.
            mine, among = (columns[0], made.ndim - 2) if keys else (rows[0], rows[0])
            order = np.argsort(made, axis=None)
            at = order[np.searchsorted(made.ravel()[order], x.ravel()).clip(max=made.size - 1)]
            known = (made.ravel()[at] == x.ravel()).reshape(shape) & seen
            places = [one.reshape(shape) for one in np.unravel_index(at, made.shape)]
            if len(np.unique(made)) < made.size or known.sum() < seen.sum() / 3:
                continue
            # Of each query the nearest that it sees, where later ones are hidden.
            last = np.moveaxis(seen, columns[0], -1)[..., ::-1].argmax(-1)[..., None]
            nearest = np.take_along_axis(np.moveaxis(x, columns[0], -1)[..., ::-1], last, -1)
            wanted = np.arange(shape[mine]).reshape([-1 if n == mine else 1 for n in range(len(shape))])
            # Axes that were put in another order are each its own still.
            moved = any((one == wanted)[known].all() for one in places)
            if not moved and (known & (places[among] != wanted)).any():
                says = f"What is added to the scores of a {'key' if keys else 'query'} was made of another one."
                yield Told("bias", "unknown", core.operations[source].line, says)
            elif not seen.all() and not nearest.any() and not keys:
                says = "To the score of the nearest key nothing is added, so what is meant for it went to another."
                yield Told("bias", "unknown", core.operations[source].line, says)
            else:
                says = f"what is added to the scores of a {'key' if keys else 'query'} was made of it"
                yield Told("bias", "", operation.line, says)


def gathered(core: Core, intended: Mapping[str, Any]) -> Iterator[Told]:
    """What is taken out of a table of distances: of two positions in a row, or in a grid.  Liu et al. 2021."""
    keys = core.scores.keys.shape[1]
    for operation in core.operations[: core.mix.number]:
        if operation.name not in _LOOKED_UP or len(operation.operands) < 2 or not operation.operands[0].ndim:
            continue
        rows, index = len(operation.operands[0]), operation.operands[1]
        if index.dtype.kind not in "iu" or index.size != keys**2 or keys < _PAIRS:
            continue
        index = index.reshape(keys, keys)
        if intended.get("middle row") and index.min() < 0 and not index.diagonal().any():
            says = "Offsets below 0 are rows from the end of the table, whose middle is said to be the same position."
            yield Told("bias", "unknown", operation.line, says)
            continue
        grids = [(h, keys // h) for h in range(1, keys + 1)
                 if keys % h == 0 and (2 * h - 1) * (2 * keys // h - 1) == rows]  # fmt: skip
        shared = [_shares(index, *grid) for grid in grids]
        if shared and all(shared):
            says = "Pairs of positions that are not equally far apart share one number of the bias."
            yield Told("bias", "unknown", operation.line, says)
        elif shared:
            yield Told("bias", "", operation.line, "one number for each distance")


def _shares(index: np.ndarray, height: int, width: int) -> bool:
    """Whether pairs of positions in a grid, row after row, have one number in common with others."""
    y, x = np.divmod(np.arange(height * width), width)
    apart = (y[:, None] - y) * 2 * width + x[:, None] - x
    return len(np.unique(np.stack([apart, index]).reshape(2, -1), axis=1).T) > len(np.unique(index))


def _terms(operations: Sequence[Operation], number: int, path: set[int]) -> Iterator[tuple[int, np.ndarray]]:
    """What a sum adds to what is on a path, each term of it, however they are put together."""
    operation = operations[number]
    for source, x in zip(operation.sources, operation.operands, strict=True):
        if source is None or source in path or x.shape != operation.host.shape:
            continue
        if operations[source].name in ADDS:
            yield from _terms(operations, source, path)
        else:
            yield source, x


def _product(core: Core, data: Sequence[bool], source: int | None) -> tuple[np.ndarray, bool] | None:
    """The product with a parameter, or of queries or keys with what else was given, that an array was taken out of.

    And whether it was one of the keys.
    """
    operations = core.operations
    while source is not None:
        made = contracted(operations, source)
        if made is not None:
            sides = [s is not None and data[s] for s in made.sources]
            asked, keys = (any(np.array_equal(x, one) for x in (made.left, made.right))
                           for one in (core.scores.left, core.scores.right))  # fmt: skip
            turned = core.scores.right.swapaxes(-1, -2) if core.scores.right.ndim > 1 else core.scores.right
            keys = keys or any(np.array_equal(x, turned) for x in (made.left, made.right))
            return (operations[source].host, keys and not asked) if sum(sides) == 1 or asked or keys else None
        source = next((s for s in operations[source].sources if s is not None and data[s]), None)
    return None


def _by_head(core: Core, gap: np.ndarray) -> Iterator[np.ndarray]:
    """A bias, rows × keys, as (H, T, S): axes along which it is the same are samples.

    Where queries have more axes than keys, one is that of positions, and others are heads that share their keys.
    """
    labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
    whole = gap.reshape(*core.shape, gap.shape[1])
    rows = [labels.index(a) for a in core.mix.rows]
    batch = [labels.index(a) for a in core.mix.batch]
    flat = whole.transpose([*batch, *rows, whole.ndim - 1])
    yield _heads(flat.reshape(*flat.shape[: len(batch)], -1, flat.shape[-1]))
    for along in reversed(rows) if len(rows) > 1 else ():
        shared = [*batch, *(axis for axis in rows if axis != along)]
        yield _heads(whole.transpose([*shared, along, whole.ndim - 1]))


def _heads(whole: np.ndarray) -> np.ndarray:
    """(…, T, S) as (H, T, S)."""
    # Differences of scores in float32.
    same = partial(np.allclose, rtol=1e-5, atol=1e-6, equal_nan=True)
    for axis in reversed(range(whole.ndim - 2)):
        first = np.take(whole, [0], axis)
        if same(whole, first):
            whole = first
    cells = whole.reshape(-1, *whole.shape[-2:])
    n = len(cells)
    for H in (h for h in range(1, n) if n % h == 0):
        # Heads that are folded into the batch come again with each sample.
        outer, inner = cells[:H], cells[:: n // H]
        if same(cells, np.tile(outer, (n // H, 1, 1))):
            return outer
        if same(cells, np.repeat(inner, n // H, axis=0)):
            return inner
    return cells


def _linear(
    cells: np.ndarray, operations: Sequence[Operation], facts: Mapping[str, Any], intended: Mapping[str, Any]
) -> Iterator[Told]:
    H, T, S = cells.shape
    step, line = "bias", operations[-1].line
    ahead = np.arange(S) - np.arange(T)[:, None] - (S - T)
    # Wherever a causal mask begins, what comes later is not meant to be seen.
    causal = "causal" in facts or facts.get("ahead") == S - T or bool(np.isnan(cells[0][ahead > 0]).all())
    seen = cells.copy()
    if causal:
        seen[:, ahead > 0] = np.nan
    found = _sloped(seen)
    if found is None or (found[1] is None and not causal):
        return
    slopes, at = found
    size, sign = np.abs(slopes), np.sign(slopes)
    if intended.get("subtracted"):
        given = (x.ravel() for op in operations for x, origin in zip(op.operands, op.origins, strict=True)
                 if origin.startswith("argument") and x.size == H)  # fmt: skip
        mine = next((x for x in given if np.allclose(np.abs(x), size, rtol=1e-3)), None)
        if mine is not None and np.allclose(mine, slopes, rtol=1e-3):
            yield Told(step, "", line, "what is given times distance, as is said")
        elif mine is not None and np.allclose(-mine, slopes, rtol=1e-3):
            made = made_at(operations, lambda x: _alike(x, cells), line)
            yield Told(step, "alibi_sign", made or line, "The farther a key is, the more it is rewarded.", mine, slopes)
        if mine is not None:
            return
    forms = [("", slopes_of(H, None)), ("", every_second(H)), *((how, slopes_of(H, how)) for how in _WRONG)]
    how = next((how for how, some in forms if np.allclose(size, some, rtol=1e-3)), None)
    # Another series of slopes rewards nothing far away either, where it is called ALiBi's.
    series = H > 2 and np.allclose(size[1:] / size[:-1], size[1] / size[0], rtol=1e-3)
    if len(set(sign)) > 1 or (how is None and not (intended.get("alibi") and series and sign[0] < 0)):
        return
    if sign[0] < 0:
        made = made_at(operations, lambda x: _alike(x, cells), line)
        yield Told(step, "alibi_sign", made or line, "The farther a key is, the more it is rewarded.", -slopes, slopes)
        if how is None:
            return
    # The plain formula for any number of heads is many people's own, and right for those that are said to be meant.
    if how == "formula" and intended.get("powers of two"):
        how = ""
    if how and ((intended.get("alibi") and sign[0] > 0) or how != "formula"):
        made = made_at(operations, lambda x: x.size == H and bool(np.allclose(np.abs(x.ravel()), size)), line)
        yield Told(step, "alibi_slopes", made, "The slopes are none of the paper's.", slopes_of(H, None), size)
    if at is not None and at != S - T:
        says = f"The distance is counted as if the first of {T} queries stood at the first of {S} keys."
        away = np.abs(np.arange(S) - np.arange(T)[:, None] - at).ravel()
        made = made_at(operations, lambda x: np.array_equal(np.abs(x).ravel(), away), line)
        yield Told(step, "alibi_offset", made, says)
    elif sign[0] > 0 and not how:
        yield Told(step, "", line, "ALiBi: slope times distance")


def _placed(core: Core, gap: np.ndarray, operations: Sequence[Operation]) -> Iterator[Told]:
    """A bias with the slopes of the paper that goes by how far apart places are that each sample was given."""
    T, S = core.scores.queries.shape[1], gap.shape[1]
    if len(core.shape) < 2 or T != S or core.shape[-1] != T:
        return
    B = core.shape[0]
    cells = gap.reshape(B, -1, T, S).swapaxes(0, 1)
    given = (x for operation in operations for x, origin in zip(operation.operands, operation.origins, strict=True)
             if origin.startswith("argument") and x.dtype.kind in "iuf" and x.size == B * T)  # fmt: skip
    for places in given:
        at = places.reshape(B, T)
        apart = -np.abs(at[:, None] - at[:, :, None]).astype(float)
        slopes = _slopes(cells.reshape(len(cells), B * T, S), apart.reshape(B * T, S))
        forms = (slopes_of(len(cells), None), every_second(len(cells)))
        if slopes is None or not any(np.allclose(np.abs(slopes), some, rtol=1e-3) for some in forms):
            continue
        line = operations[-1].line
        if (slopes < 0).all():
            yield Told("bias", "alibi_sign", line, "The farther a key is, the more it is rewarded.", -slopes, slopes)
        elif (slopes > 0).all():
            yield Told("bias", "", line, "ALiBi: slope times distance of given places")
        return


def _alike(x: np.ndarray, cells: np.ndarray) -> bool:
    """Whether an array is a bias (H, T, S), whatever its sign, or what is added to each of its rows."""
    if x.size != cells.size:
        return False
    mine, known = np.abs(np.diff(x.reshape(cells.shape))), np.abs(np.diff(cells))
    return bool(np.allclose(mine[np.isfinite(known)], known[np.isfinite(known)], rtol=1e-4, atol=1e-6))


def linear(core: Core, x: np.ndarray, y: np.ndarray) -> bool:
    """Whether what is added to scores, rows × keys, is a slope times a distance for each head, and so no table."""
    with np.errstate(all="ignore"):
        gap = np.where(np.isfinite(x) & np.isfinite(y), y - x, np.nan)
    return min(*gap.shape, core.scores.queries.shape[1]) > 2 and any(
        _sloped(cells) is not None for cells in _by_head(core, gap)
    )


def _sloped(cells: np.ndarray) -> tuple[np.ndarray, int | None] | None:
    """The slopes (H,) of a bias (H, T, S), and the key at which its distances begin; None where any key may be that."""
    T, S = cells.shape[1:]
    plain = _slopes(cells, np.broadcast_to(np.arange(S, dtype=float), (T, S)))
    if plain is not None:
        return plain, None
    for offset in dict.fromkeys((S - T, 0)):
        slopes = _slopes(cells, -np.abs(np.arange(S) - np.arange(T)[:, None] - offset).astype(float))
        if slopes is not None:
            return slopes, offset
    return None


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
            if not abs(slope) >= 1e-6 or not np.abs(b - slope * a).max() <= 1e-3 * np.abs(b).max():
                return None
        found.append(slope)
    return np.asarray(found)
