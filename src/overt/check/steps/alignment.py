"""Where in the arguments the numbers of every operation came from, and whether what belongs together was kept together.

Random numbers are unique, so what an operation only moves is found again among its operands; what keeps a shape keeps
the places, and a contraction has the mean of the places that it sums over.  An output is at the place of its query.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from overt.check.steps.origins import places
from overt.recorder.core import Core
from overt.recorder.flow import GATHERS, VIEWS, carriers, masklike
from overt.recorder.operations import Operation
from overt.recorder.products import product

# Numbers of all recorded values together, and rows of one matrix, beyond which nothing is followed.
_MOST, _ROWS = 2_000_000, 12
# What takes the largest number of each window, of which some may have it in common.
_WINDOWS = r"max_pool|reduce_window"
Places = dict[str, np.ndarray]


@dataclass(eq=False)
class Alignment:
    """Of each operation, and of each argument, the place that every number came from: (*shape, axes), NaN if none.

    ``scrambled`` are operations whose rows of features are no features of anything: they hold some numbers of some
    places.  ``exchanged`` are operations, or the last ones before an output, where attention's result lies at the
    places of other queries.
    """

    operations: Sequence[Operation]
    cores: Sequence[Core]
    places: list[Places] = field(default_factory=list)
    # the attentions that each came through
    through: list[frozenset[int]] = field(default_factory=list)
    scrambled: list[int] = field(default_factory=list)
    exchanged: list[int] = field(default_factory=list)
    _data: list[bool] = field(default_factory=list)

    def follow(self, outputs: Sequence[np.ndarray]) -> Alignment:
        """Go through all operations once; where there is no attention, nothing is asked of their places."""
        if not self.cores or sum(operation.host.size for operation in self.operations) > _MOST:
            self.places = [{} for _ in self.operations]
            self.through = [frozenset[int]() for _ in self.operations]
            return self
        self._data = carriers(self.operations)
        mixes = {core.mix.number: core for core in self.cores if core.place is not None}
        for number, operation in enumerate(self.operations):
            parts = [self.of(s, o, x) for s, o, x in
                     zip(operation.sources, operation.origins, operation.operands, strict=True)]  # fmt: skip
            core = mixes.get(number)
            if core is not None:
                mine = {n: at for n, x in self.side(core, 0).items() if (at := _at_result(core, x)) is not None}
            else:
                # Where it lies that attention has chosen, is where it was put.
                both = zip(operation.sources, operation.operands, strict=True)
                chosen = any(s is not None and self.through[s] and x.dtype.kind in "iu" for s, x in both)
                names = {name for part in parts for name in part} if not chosen else ()
                moved = {name: self._moved(number, [part.get(name) for part in parts]) for name in names}
                mine = {name: at for name, at in moved.items() if at is not None}
            self.places.append(mine)
            came = (self.through[s] for s in operation.sources if s is not None)
            self.through.append(frozenset({number} if core is not None else ()).union(*came))
        self._returned(outputs)
        return self

    def of(self, source: int | None, origin: str, x: np.ndarray) -> Places:
        """The places of an operand: those of what made it, or its own where it is an argument."""
        if source is not None:
            return self.places[source]
        if not origin.startswith("argument") or x.ndim < 2 or x.dtype.kind not in "fiu" or masklike(x):
            return {}
        return {origin: np.moveaxis(np.indices(x.shape, float), 0, -1)}

    def _moved(self, number: int, parts: list[np.ndarray | None]) -> np.ndarray | None:
        operation = self.operations[number]
        y = operation.host
        known = [(i, x, at) for i, (x, at) in enumerate(zip(operation.operands, parts, strict=True))
                 if at is not None and at.shape[:-1] == x.shape]  # fmt: skip
        pooled = [_pooled(x, at, y) for _, x, at in known if x.size > y.size]
        if pooled and (pooled[0] is not None or re.search(_WINDOWS, operation.name)):
            return pooled[0]
        found = _sought(operation, known)
        if found is not None or not known:
            return found
        contraction = product(self.operations, number)
        if contraction is not None:
            return self._contracted(number, contraction.labels, known, contraction)
        whole = [(i, at) for i, x, at in known if x.shape == y.shape]
        if len(whole) > 1:
            self._met(number, whole)
        if whole:
            return np.asarray(_mean(np.stack([at for _, at in whole]), (0,)))
        _, x, at = known[0]
        if y.shape[:-1] == x.shape:
            # Tokens become rows of features.
            return np.repeat(at[..., None, :], y.shape[-1], axis=-2)
        if operation.name.startswith("conv") and x.ndim == y.ndim > 2:
            return _convolved(at, x.shape, y.shape)
        return None

    def _contracted(
        self, number: int, labels: tuple[str, str, str], known: list[tuple[int, np.ndarray, np.ndarray]], made: object
    ) -> np.ndarray | None:
        operation = self.operations[number]
        if len(known) != 1 or len(operation.operands) < 2:
            return None
        place, x, at = known[0]
        others = [i for i in range(len(operation.operands)) if i != place]
        first = 1 if len(operation.operands) == 3 and operation.name in ("addmm", "baddbmm", "addbmm") else 0
        axes, by = (labels[place - first], labels[1 - place + first]) if 0 <= place - first < 2 else ("", "")
        # What begins with the features that another ends with has a matrix of these for each head.
        heads = len(by) == 3 and axes[-1:] == by[:1] and not {*axes[:-1]} & {*by}
        if any(
            self._data[s]
            if (s := operation.sources[i]) is not None
            # A matrix that rows of samples are multiplied with is their projection.
            else "argument" in operation.origins[i] and not (operation.operands[i].ndim == 2 < x.ndim or heads)
            for i in others
        ):
            # It is mixed by something that nobody followed.
            return None
        if len(axes) != x.ndim or len(labels[2]) != operation.host.ndim:
            return None
        summed = tuple(i for i, a in enumerate(axes) if a not in labels[2])
        if not any(s is not None and self.through[s] for s in operation.sources) and _scrambled(at, summed):
            self.scrambled.append(number)
        kept = "".join(a for a in axes if a in labels[2])
        return _spread(_mean(at, summed), kept, labels[2], operation.host.shape)

    def _met(self, number: int, whole: list[tuple[int, np.ndarray]]) -> None:
        """Attention's result that is added to what lies at other places, and did not come through it."""
        sources = (self.operations[number].sources[i] for i, _ in whole)
        came = [frozenset[int]() if source is None else self.through[source] for source in sources]
        last = max(came, key=len)
        after = [at for (_, at), mine in zip(whole, came, strict=True) if mine == last]
        before = [at for (_, at), mine in zip(whole, came, strict=True) if mine < last]
        if len(after) == 1 and before and _exchanged(before[0], after[0]):
            self.exchanged.append(number)

    def _returned(self, outputs: Sequence[np.ndarray]) -> None:
        last = len(self.operations) - 1
        if not outputs or last < 0 or not self.through[last] or self.exchanged:
            return
        host = self.operations[last].host
        # Weights may come last, and be as large as what is given back first.
        same = host.shape == outputs[0].shape and np.allclose(host, outputs[0], rtol=1e-2, atol=1e-3, equal_nan=True)
        for at in self.places[last].values():
            own = np.moveaxis(np.indices(outputs[0].shape, float), 0, -1)
            if not same or at.shape != own.shape or not at.size:
                continue
            # As many places as the argument has, for every axis but that of features.
            one, two = (x.reshape(-1, x.shape[-1]) for x in (own, at))
            moving = [[a for a in range(x.shape[1]) if np.ptp(x[:, a]) > 0.4] for x in (one, two)]
            features = set(moving[0]) - set(moving[1]) or {one.shape[1] - 1}
            axes = [a for a in moving[0] if a not in features]
            whole = bool(axes) and len(features) == 1 and np.array_equal(one[:, axes].max(0), two[:, axes].max(0))
            if whole and _exchanged(own[..., axes], at[..., axes]):
                self.exchanged.append(last)

    def line_before(self, number: int) -> int:
        """The last operation up to this one that moved numbers to other places."""
        while self.operations[number].name not in VIEWS and not _turned(self.operations[number]):
            sources = [s for s in self.operations[number].sources if s is not None and self.places[s]]
            after = [s for s in sources if self.through[s]] or sources
            if not after:
                break
            number = after[-1]
        return number

    def side(self, core: Core, side: int) -> Places:
        """Places of queries (0) or keys (1) for each score."""
        scores = core.scores
        x = (scores.left, scores.right)[side]
        axes = scores.labels[side]
        found = {}
        for name, at in self.of(scores.sources[side], scores.origins[side], x).items():
            if at.ndim - 1 > x.ndim and [n for n in at.shape[:-1] if n > 1] == [*x.shape]:
                # Of a sum of products, axes of one number are left out.
                at = at.reshape(*x.shape, -1)
            if at.ndim - 1 == x.ndim and all(n in (1, m) for n, m in zip(at.shape, x.shape, strict=False)):
                whole = np.broadcast_to(at, (*x.shape, at.shape[-1]))
                mean = _centre(whole, tuple(i for i, a in enumerate(axes) if a in scores.summed))
                kept = "".join(a for a in axes if a not in scores.summed)
                found[name] = _spread(mean, kept, scores.labels[2], scores.result.shape)
        return found

    def strangers(self, core: Core) -> bool:
        """Whether keys are paired with the values of other places."""
        if core.place is None:
            return False
        mix = core.mix
        # What was made of each pair of a query and a key, and is scored, is of the sample of both.
        pairs = {} if core.two else self.side(core, 0) | self.side(core, 1)
        keys = [axis for axis in range(core.weights.ndim) if axis in core.key_axes]
        order = [axis for axis in range(core.weights.ndim) if axis not in keys] + keys
        for name, at in self.of(mix.sources[1], mix.origins[1], mix.right).items():
            mine = (pairs or self.side(core, 1)).get(name)
            if mine is None or at.shape[:-1] != mix.right.shape:
                continue
            columns = tuple(i for i, a in enumerate(mix.labels[1]) if a in mix.columns)
            zero = mix.right == 0
            empty = zero.all(axis=columns, keepdims=True)
            # Where single numbers are 0, as behind a ReLU, a row of them says nothing.
            empty = (empty & (zero == empty).all()).squeeze(columns)[..., None]
            kept = "".join(a for a in mix.labels[1] if a not in mix.columns)
            own = _centre(at, columns)
            alike = _alike(np.moveaxis(mix.right, columns, range(-len(columns), 0)), own)
            values, nothing, twice = (
                np.transpose(each, [*order, each.ndim - 1]).reshape(*core.place.shape, -1)
                for each in (_spread(x, kept, mix.labels[0], core.weights.shape) for x in (own, empty, alike))
            )
            at_keys = mine.reshape(-1, mine.shape[-1])[core.place]
            if not core.two:
                if _of_one_sample(at_keys, at_keys, values) or _of_one_sample(values, values, at_keys):
                    return True
                continue
            # Along an axis that one of them keeps to a place of, as where all three are packed, they may differ.
            placed = [np.isfinite(x).all(-1) for x in (values, at_keys)]
            known = placed[0] & placed[1] & (twice[..., 0] == 0)
            one, two = values[known], at_keys[known]
            if (placed[0] != placed[1]).any() and _same_rows(values, at_keys, placed):
                # What else there is, such as a learned prefix, lies before the keys and behind the values.
                return True
            both = [a for a in range(one.shape[-1]) if len(one) and min(np.ptp(one[:, a]), np.ptp(two[:, a])) > 0.4]
            asks = self.side(core, 0).get(name)
            at_queries = None if asks is None else asks.reshape(-1, asks.shape[-1])[core.place]
            if (np.abs(one - two)[:, both] > 0.4).any() or (
                at_queries is not None and _of_one_sample(at_queries, at_keys, values)
            ):
                return True
            # The value of a key that is seen was not there yet, as where it is kept after it was looked for.
            if known.any() and (nothing[..., 0] & placed[1] & ~placed[0] & (core.steps[-1][1] > 0)).any():
                return True
        return False

    def lies_behind(self, core: Core) -> int | None:
        """What scrambled the places that the queries, keys or values of a core were made of, if anything did."""
        made = self._behind(*core.scores.sources, core.mix.sources[1])
        return next((number for number in made if number in self.scrambled), None)

    def _behind(self, *starts: int | None) -> list[int]:
        """What some operations were made of, in order, back to attention that came before."""
        open_, seen = list(starts), set[int]()
        while open_:
            number = open_.pop()
            if number is not None and number not in seen and not self.through[number]:
                seen.add(number)
                open_ += self.operations[number].sources
        return sorted(seen)

    def parted(self, core: Core) -> int:
        """The first operation on the way to the values whose places stand in no order that those of keys had."""
        keys, values = self._behind(*core.scores.sources[core.two :]), self._behind(core.mix.sources[1])
        known = {order for number in keys for order in self._orders(number)}
        apart = (n for n in values if n not in keys and (own := self._orders(n)) and not own & known)
        return next(apart, core.mix.number)

    def _orders(self, number: int) -> set[tuple[str, bytes]]:
        """Places in their order, each of them once, where they are known; what has none is one more."""
        found = set()
        for name, at in self.places[number].items():
            rows = _centre(at, (at.ndim - 2,)) if at.ndim > 2 else at
            rows = np.nan_to_num(rows.reshape(-1, at.shape[-1]), nan=-1)
            once = np.unique(rows, axis=0, return_index=True)[1]
            found.add((name, np.round(rows[np.sort(once)], 3).tobytes()))
        return found


def _of_one_sample(queries: np.ndarray, *both: np.ndarray) -> bool:
    """Whether keys are those of their query's own sample and all values those of one sample, or the other way round.

    Places of all three, rows × keys × axes; samples lie along the first axis of which each row has its own place.
    What was made of one place of each is half way between both.
    """
    if not all(np.isfinite(at).all() for at in (queries, *both)):
        return False
    alone = [(np.ptp(at, 1) < 0.4).all(0) & (np.ptp(at[:, 0], 0) > 0.4) for at in (queries, *both)]
    axis = next(iter(np.flatnonzero(alone[0])), None)
    if axis is None:
        return False
    own = [bool(one[axis]) and bool((np.abs(at - queries)[..., axis] < 0.4).all())
           for one, at in zip(alone[1:], both, strict=True)]  # fmt: skip
    still = [float(np.ptp(at[..., axis]) / np.ptp(queries[..., axis])) < 0.6 for at in both]
    return (own[0] and still[1]) or (own[1] and still[0])


def _alike(x: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Which rows are at several places, (..., 1), as those of padding are: they say nothing of where they are."""
    _, group = np.unique(x.reshape(at[..., 0].size, -1), axis=0, return_inverse=True)
    places = at.reshape(-1, at.shape[-1])
    low, high = (np.full((group.max(initial=0) + 1, places.shape[1]), sign * np.inf) for sign in (1, -1))
    np.minimum.at(low, group.ravel(), places)
    np.maximum.at(high, group.ravel(), places)
    wide = np.max(high - low, axis=1, initial=0) > 0.4
    return np.asarray(wide[group.ravel()].reshape(*at.shape[:-1], 1), float)


def _turned(operation: Operation) -> bool:
    """Whether a result has the numbers of an operand in another order."""
    y = operation.host
    return any(x.size == y.size and x.dtype == y.dtype and not np.array_equal(x.ravel(), y.ravel())
               and np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None))
               for x in operation.operands)  # fmt: skip


def _same_rows(values: np.ndarray, keys: np.ndarray, placed: list[np.ndarray]) -> bool:
    """Whether each query meets keys and values of the same places, those that are known."""

    def rows(at: np.ndarray, known: np.ndarray) -> list[np.ndarray]:
        return [np.sort(x[some], axis=0) for x, some in zip(at, known, strict=True)]

    pairs = zip(rows(values, placed[0]), rows(keys, placed[1]), strict=True)
    return all(len(one) > 1 and np.array_equal(one, two) for one, two in pairs)


def _mean(at: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Of the places along axes, those that are not known aside."""
    known = np.isfinite(at)
    count = known.sum(axes)
    with np.errstate(all="ignore"):
        return np.asarray(np.where(known, at, 0).sum(axes) / np.where(count, count, np.nan))


def _centre(at: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Places of vectors; what differs along a vector is an axis of features, which says nothing of where it is."""
    mean = _mean(at, axes)
    if axes and at.size:
        with np.errstate(all="ignore"):
            least, most = (f.reduce(at, axis=axes) for f in (np.fmin, np.fmax))
            features = (most - least > 0.4).reshape(-1, at.shape[-1]).any(0)
        mean[..., features] = 0
    return mean


def _spread(at: np.ndarray, axes: str, wanted: str, shape: tuple[int, ...]) -> np.ndarray:
    """Places with named axes, repeated along those that they lack."""
    order = [axes.index(a) for a in wanted if a in axes]
    sizes = [at.shape[axes.index(a)] if a in axes else 1 for a in wanted]
    turned = np.transpose(at, [*order, at.ndim - 1]).reshape(*sizes, at.shape[-1])
    return np.broadcast_to(turned, (*shape, at.shape[-1]))


def _at_result(core: Core, at: np.ndarray) -> np.ndarray | None:
    """Places of the scores' queries at the mixed values."""
    assert core.place is not None
    rows = at.reshape(-1, at.shape[-1])[core.place[:, 0]].reshape(*core.shape, -1)
    labels = "".join(a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes)
    if len(core.mix.labels[2]) != core.mix.result.ndim:
        return None
    found = _spread(rows, labels, core.mix.labels[2], core.mix.result.shape)
    return found if found.shape[:-1] == core.operations[core.mix.number].host.shape else None


def _sought(operation: Operation, known: list[tuple[int, np.ndarray, np.ndarray]]) -> np.ndarray | None:
    """Places of a result that has numbers of its operands, by these numbers; None where it has others."""
    y = operation.host
    if not y.size or y.dtype.kind not in "fiu":
        return None
    found: np.ndarray | None = None
    for _, x, at in known:
        if x.size == y.size and np.array_equal(x.ravel(), y.ravel()):
            return at.reshape(*y.shape, at.shape[-1])
        order = np.argsort(x, axis=None, kind="stable")
        ranked = x.ravel()[order]
        few = y.ravel()[:: max(1, y.size // 16)]
        there = ranked[np.clip(np.searchsorted(ranked, few), 0, x.size - 1)] == few
        if operation.name not in GATHERS and (not there.any() or (operation.name not in VIEWS and there.mean() < 0.8)):
            continue
        at_ = np.clip(np.searchsorted(ranked, y.ravel()), 0, x.size - 1)
        once = (np.append(ranked, np.nan)[at_ + 1] != ranked[at_]) & (ranked[at_] == y.ravel())
        mine = np.where(once[:, None], at.reshape(-1, at.shape[-1])[order[at_]], np.nan).reshape(*y.shape, -1)
        if not once.all() and once.any():
            # What is there several times, as 0 is behind a ReLU, moves as what lies beside it does.
            mine = _beside(operation, x, at, mine)
        found = mine if found is None else np.where(np.isfinite(found), found, mine)
    return found


def _pooled(x: np.ndarray, at: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """The middle of the patches, or of the axes, of which each number is the largest; None where it is something else.

    Which one that is differs from feature to feature, and so between keys and values.
    """
    ways: list[tuple[Sequence[int], tuple[int, ...]]]
    ways = [(x.shape, axes) for axes in combinations(range(x.ndim), max(x.ndim - y.ndim, 0))]
    if x.ndim == y.ndim and all(m and n % m == 0 for n, m in zip(x.shape, y.shape, strict=True)):
        ways = [([k for n, m in zip(x.shape, y.shape, strict=True) for k in (m, n // m)], (*range(1, 2 * x.ndim, 2),))]
    for shape, axes in ways if y.size else ():
        if axes and np.array_equal(x.reshape(shape).max(axes), y):
            return _mean(at.reshape(*shape, -1), axes)
    return None


def _beside(operation: Operation, x: np.ndarray, at: np.ndarray, mine: np.ndarray) -> np.ndarray:
    """Places of a result by whole axes of what was moved, where they are sure; otherwise those that are known."""
    y = operation.host
    if operation.name in VIEWS and y.size <= x.size and (spots := places(y, x)) is not None:
        return np.asarray(at[tuple(spots)])
    if operation.name in GATHERS and x.size < y.size and (spots := places(x, y)) is not None:
        mine[tuple(spots)] = at
    return mine


def _convolved(at: np.ndarray, before: tuple[int, ...], after: tuple[int, ...]) -> np.ndarray | None:
    """The same place in every channel, or that of the patch."""
    at = _mean(at, (1,))[:, None]
    for axis, (n, m) in enumerate(zip(before[2:], after[2:], strict=True), 2):
        if n % m:
            return None
        shape = (*at.shape[:axis], m, n // m, *at.shape[axis + 1 :])
        at = _mean(at.reshape(shape), (axis + 1,))
    return np.broadcast_to(at, (*after, at.shape[-1]))


def _scrambled(at: np.ndarray, summed: tuple[int, ...]) -> bool:
    """Whether what is summed are no features: neither all of some axis for each place, nor one of each."""
    if not summed:
        return False
    kept = [i for i in range(at.ndim - 1) if i not in summed]
    rows = np.transpose(at, [*kept, *summed, at.ndim - 1])
    rows = rows.reshape(int(np.prod([at.shape[i] for i in kept])), -1, at.shape[-1])
    return sum(not _features(row) for row in rows[:_ROWS]) > 1


def _features(row: np.ndarray) -> bool:
    """Whether places are one of each along some axis, or the same along some axis wherever they are."""
    row = row[np.isfinite(row).all(1)]
    if len(row) < 3 or (row != np.round(row)).any() or len(np.unique(row, axis=0)) < len(row):
        return True
    for axis in range(row.shape[1]):
        along = row[:, axis]
        if len(np.unique(along)) == len(row):
            return True
        # The places along the axis, for each of the others in a row of its own.
        others = np.delete(row, axis, 1)
        order = np.lexsort([along, *others.T])
        starts = np.flatnonzero((np.diff(others[order], axis=0) != 0).any(1)) + 1
        count, odd = divmod(len(row), len(starts) + 1)
        if count > 1 and not odd and np.array_equal(starts, count * np.arange(1, len(starts) + 1)):
            sets = along[order].reshape(-1, count)
            if (sets == sets[0]).all():
                return True
    return False


def _exchanged(wanted: np.ndarray, found: np.ndarray) -> bool:
    """Whether places are exchanged: along one axis, or of one axis for those of another.

    Axes along which either does not differ say nothing.
    """
    if wanted.shape != found.shape or not np.isfinite(found).all() or not np.isfinite(wanted).all():
        return False
    one, two = (x.reshape(-1, x.shape[-1]) for x in (wanted, found))
    axes = [a for a in range(one.shape[1]) if np.ptp(one[:, a]) > 0.4 and np.ptp(two[:, a]) > 0.4]
    one, two = np.round(one[:, axes], 3), np.round(two[:, axes], 3)
    if not axes or np.abs(one - two).max() < 0.4:
        return False
    if np.array_equal(np.unique(one, axis=0), np.unique(two, axis=0)):
        return True
    # Where it is along an axis may depend on where it should be along that axis alone.
    for a in range(len(axes)):
        wanted_, found_ = np.unique(one[:, a]), np.unique(two[:, a])
        whole = len(found_) > 2 and (found_ == np.round(found_)).all()
        if whole and any(np.ptp(two[one[:, a] == place, a]) > 0.4 for place in wanted_):
            return True
    return False
