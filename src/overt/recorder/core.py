"""The attention inside a recording, found by numbers and by what was computed from what; no name of the code is read.

A core is two contractions: scores, a product of queries and keys, and the mixing of values by weights that come from
the scores by steps that keep the number of entries.  Weights that sum to 1 are preferred to positive ones, and these to
any.  Every value between the two is brought to one form, rows × keys, keys being the axis that is summed over with the
values, so that views vanish and each step left is a map from matrix to matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from math import prod

import numpy as np

from overt.recorder.apart import apart, key_labels
from overt.recorder.edges import regular
from overt.recorder.flow import (
    CASTS,
    GATHERS,
    GROWS,
    VIEWS,
    carriers,
    equal,
    mixed_of,
    moving,
    reaches,
    repeated,
    sums_to_one,
    taken,
    tempered,
    untag,
    without_sink,
)
from overt.recorder.fused import expand, spread, unsummed
from overt.recorder.lifting import lifted
from overt.recorder.operations import Line, Operation
from overt.recorder.products import SUMMED, Product, contracted, learned, made_of, outer_sum
from overt.recorder.reordered import REORDERED, accumulated, reordered
from overt.recorder.stacked import STACKS, stacked

ADDS = {"add", "iadd", "radd", "add_any", "sub", "isub", "subtract", "rsub"}
# How far back from the weights scores are looked for.
_FAR = 80


@dataclass(eq=False)
class Core:
    """One attention: scores and mixing, and the operations between them in order.

    ``steps`` are the maker of a value and the value as a matrix rows × keys, from the bare product of queries and keys
    to the weights, as far back as it could be followed: ``place`` then has for each entry its place in the scores.
    ``reach`` has for each operation the arguments that its result depends on.
    """

    operations: Sequence[Operation]
    scores: Product
    path: list[int]
    mix: Product
    two: bool
    steps: list[tuple[int | None, np.ndarray]] = field(default_factory=list)
    place: np.ndarray | None = None
    reach: Sequence[frozenset[str]] = ()
    # what weighs its results, each of a block of keys, by their sums
    merge: Product | None = None
    # of arrays of a shape, all but the column of a sink, whose weight no value gets
    sink: dict[tuple[int, ...], tuple[slice, ...]] = field(default_factory=dict)

    @property
    def weights(self) -> np.ndarray:
        """As they are mixed with the values."""
        return self.mix.left

    @property
    def outer(self) -> bool:
        """Whether the scores are a sum of what a row says and what a key says."""
        return self.operations[self.scores.number].name in ADDS

    @property
    def key_axes(self) -> list[int]:
        """Axes of the weights that are summed over."""
        return [self.mix.labels[0].index(a) for a in self.mix.summed]

    @property
    def normal(self) -> list[int]:
        """Axes along which the weights sum to 1."""
        return self.mix.normal

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the rows: the weights' axes without those of the keys."""
        return tuple(n for axis, n in enumerate(self.weights.shape) if axis not in self.key_axes)


def cores(operations: Sequence[Operation], *, free: bool = False) -> list[Core]:
    """The attentions of a recording, in order.  Fused ones must have been expanded: see ``attentions``.

    free: whether weights that are no product of two things need not sum to 1.
    """
    data = carriers(operations)
    products = [contracted(operations, i) for i in range(len(operations))]
    scored = [products[i] if op.name not in ADDS else None if _carried(operations, op) else outer_sum(op, i)
              for i, op in enumerate(operations)]  # fmt: skip
    found: list[tuple[tuple[int, ...], Core]] = []
    for contraction in products:
        for mix in () if contraction is None else (contraction, contraction.turned()):
            source = mix.sources[0]
            if source is None or mix.left.size < 2 or not data[source] or mix.origins[1] == "ones":
                continue
            nearer = set[int]()
            for number, path in _back(operations, scored, data, source, mix.left.size):
                scores = scored[number]
                assert scores is not None
                core = Core(operations, scores, path[::-1], mix, all(moving(scores, data)))
                # Normalised weights that are mixed along another axis by parameters, as heads are, are no core yet.
                heads = (
                    core.normal and not set(core.normal) & set(core.key_axes) and mixed_of(operations[mix.number], data)
                )
                # What is only added up is no score, unless something is made of it that sums to 1.
                summed = "ones" in scores.origins and not core.normal
                attends = (
                    (core.two and not _layers(core))
                    or core.normal
                    or _summed_beside(core)
                    or _once_normal(core)
                    or _partly(core)
                )
                # What meets a parameter is a projection.
                attends = attends or (free and moving(mix, data)[1])
                # Behind a score of one thing there is what it was made of.
                made = not core.two and nearer & {*path}
                if attends and not (heads or summed or made or _compared(core, scored, data)):
                    nearer.add(number)
                    found.append((_rank(core), core))
    # What is neither positive nor sums to 1 and meets a parameter is a projection.
    # And so is what each sample, but not its weights, has in common with all others.
    found = [(r, c) for r, c in found if r[0] or (moving(c.mix, data)[1] and (c.mix.batch or not c.scores.batch))]
    if not found:
        return []
    # Weights that sum to 1 first, and scores of two things that both depend on the arguments.
    best = max(((rank[0], rank[1]) for rank, _ in found), default=(0, 0))
    if best[0] == 2:
        top = [(r, c) for r, c in found if r[0] == 2 and (r[1] or not any(x[1] and x[0] == 2 for x, _ in found))]
    else:
        top = [(r, c) for r, c in found if (r[0], r[1]) == best]
    # What merges the results of others by their sums attends to nothing: these do.
    merged = [(r, c, m.mix) for _, m in top if best[0] == 2 for r, c in _merged(m, found)]
    for _, inner, mix in merged:
        inner.merge = mix
    top = [(r, c) for r, c in top if not any(c.mix is mix for *_, mix in merged)] + [(r, c) for r, c, _ in merged]
    if best[0] == 0 and top:
        top = [max(enumerate(top), key=lambda pair: (pair[1][0], pair[0]))[1]]
    # The same lines are the same attention, whatever became of its weights this time.
    lines, mixed = [_lines(c) for _, c in top], {c.mix.number for _, c in top}
    top += [(r, c) for r, c in found if best[0] == 2 and c.mix.number not in mixed and _lines(c) in lines]
    top.sort(key=lambda pair: pair[0], reverse=True)
    kept: dict[int, Core] = {}
    for _, core in top:
        kept.setdefault(core.mix.number, core)
    # One softmax used twice, as in a backward pass: the use along its own axis counts.
    straight = {_softmax(c) for c in kept.values() if set(c.normal) & set(c.key_axes)}
    chosen = [c for c in kept.values() if set(c.normal) & set(c.key_axes) or _softmax(c) not in straight]
    reach = reaches(operations)
    for core in chosen:
        core.reach = reach
        _normalise(core)
        _orient(core)
    chosen = [c for c in chosen if c.two or _keyed(c, data) or apart(c, reach)]
    # Nor does what makes the scores of another, where weights sum to nothing.
    scoring = {c.scores.number for c in chosen}
    chosen = [c for c in chosen if (c.normal or c.mix.number not in scoring) and not any(_sums(c, o) for o in chosen)]
    return sorted(chosen, key=lambda c: c.mix.number)


def _merged(core: Core, found: list[tuple[tuple[int, ...], Core]]) -> list[tuple[tuple[int, ...], Core]]:
    """Those who mixed what are values here, by weights that do not sum to 1, of whose sums weights are made here."""
    inner = [(r, c) for r, c in found if c.two and not c.normal and (c.weights >= 0).all() and np.ptp(c.weights)]
    if not core.normal or not inner:
        return []
    weights = made_of(core.operations, core.mix.sources[0])
    values = made_of(core.operations, core.mix.sources[1], to_products=True) - weights
    return [(r, c) for r, c in inner if c.mix.number in values and c.scores.number in weights]


def _sums(core: Core, other: Core) -> bool:
    """Whether it adds up those weights that a mask lets through, and another's are divided by that."""
    let = not core.mix.columns and np.isin(core.mix.right, (0, 1)).all()
    alike = core is not other and core.scores.number == other.scores.number
    return bool(let and alike and core.mix.number in made_of(core.operations, other.mix.sources[0]))


def _lines(core: Core) -> list[tuple[str, Line | None]]:
    """All that makes its scores, its weights and its output, and where."""
    numbers: list[int] = [core.scores.number, *core.path, core.mix.number]
    return [(core.operations[n].name, core.operations[n].line) for n in numbers]


def attentions(operations: Sequence[Operation], *, free: bool = False) -> tuple[list[Operation], list[Core], list[int]]:
    """Operations with every fused attention written out, their cores, and the number that each operation had before.

    free: whether weights that are no product of two things need not sum to 1.
    """
    written, before = expand(operations)
    found = cores(written, free=free)
    whole = None if found else lifted(written)
    if whole is not None and len(whole[0]) < len(written):
        of_arrays, seen, numbers = attentions(whole[0], free=free)
        # Of one position, or of one state after another, products with parameters look alike.
        if seen and all(core.mix.right.ndim > 1 and (core.weights >= 0).all() for core in seen):
            return of_arrays, seen, [before[whole[1][i]] for i in numbers]
    lost = [core for core in found if core.place is None and any(written[n].name in STACKS for n in core.path)]
    if lost and (whole := stacked(written)) is not None:
        written, before = whole[0], [before[i] for i in whole[1]]
        found = cores(written, free=free)
    if apart := {core.mix.number: one for core in found if (one := _over_heads(core)) is not None}:
        written, numbers = unsummed(written, apart)
        found, before = cores(written), [before[i] for i in numbers]
    laid = None if any(core.normal for core in found) else spread(written, carriers(written))
    shared = [] if laid is None else cores(laid[0])
    # Weights alone may be of anything that was broadcast.
    mixing = (core for core in shared if core.mix.sources[1] is not None or core.mix.origins[1])
    if laid is not None and any(core.normal for core in mixing):
        # Scores that all samples share, or all heads, until a mask or a factor of each comes.
        written, found, before = laid[0], shared, [before[i] for i in laid[1]]
    over_edges = None if any(core.normal for core in found) else regular(written)
    if over_edges is not None and (others := cores(over_edges)):
        # What is added up by the pieces of a row, or the ends of edges, is in its order.
        return over_edges, others, before
    # Where features are summed last, and nothing sums to 1, these may be queries that meet what keys and values made.
    data = carriers(written)
    plain = [core.mix for core in found if core.two and core.mix.labels[1][-1] not in core.mix.summed]
    mixed = {core.mix.number for core in found}
    states = any(accumulated(written, data, mix, mixed) for mix in plain)
    sure = any(core.normal for core in found) or (plain and not states and not free)
    other = None if sure else reordered(written, data)
    if other is not None and (again := cores(other[0])):
        # What made the state, or what divides by it, is no attention of its own.
        later = [core for core in again if any(other[0][n].detail == REORDERED for n in core.path)]
        written, found, before = other[0], later or again, [before[i] for i in other[1]]
    return written, found, before


def _over_heads(core: Core) -> Operation | None:
    """The mixing of a core alone, where its product also sums over heads: their values were projected before."""
    mix, scores = core.mix, core.scores
    if len(mix.summed) < 2 or core.place is None:
        return None
    sizes = [mix.left.shape[axis] for axis in core.key_axes]
    coordinates = np.unravel_index(core.place.reshape(-1, *sizes), scores.result.shape)
    # An axis of heads is one of the queries too.
    heads = "".join(
        label
        for axis, label in enumerate(mix.summed, 1)
        if all(a in scores.batch for a, c in zip(scores.labels[2], coordinates, strict=True)
               if (c != c.take([0], axis)).any())
    )  # fmt: skip
    if not heads or set(heads) == set(mix.summed):
        return None
    one, two, out = mix.labels
    equation = f"{one},{two}->{heads}{out}"
    mixed = np.einsum(equation, mix.left, mix.right)
    return replace(
        core.operations[mix.number], name="einsum", sources=mix.sources, operands=(mix.left, mix.right), array=mixed,
        host=mixed, detail=equation, origins=mix.origins,
    )  # fmt: skip


def _back(
    operations: Sequence[Operation], products: list[Product | None], data: list[bool], start: int, size: int
) -> list[tuple[int, list[int]]]:
    """Contractions that lead to an operation by steps that keep the number of entries, nearest first, with the path."""
    found, seen, open_ = [], set[int](), [(start, list[int](), False)]
    while open_:
        number, path, fewer = open_.pop(0)
        if number in seen or len(path) > _FAR or not data[number]:
            continue
        seen.add(number)
        operation = operations[number]
        # Sums on the way may be the softmax's own, but those are smaller.
        made = products[number]
        if made is not None and (operation.name not in SUMMED or operation.host.size >= size):
            if operation.name not in ADDS and any(operation.host.shape[i] > 1 for i in sums_to_one(operation.host)):
                # What sums to 1 itself is no score: it mixes weights, as where these are shifted.
                operands = zip((made.left, made.right), made.sources, strict=True)
                open_ += [(s, [*path, number], fewer) for x, s in operands if s is not None and sums_to_one(x)]
                continue
            # Heads that are others in number are those of products, and of nothing that is added up.
            if not fewer or _of_data(operation, data):
                found.append((number, path))
            # Behind a sum of two things there may be a product, and then that is the score; behind heads that are
            # mixed by parameters there are others.
            if operation.name not in ADDS:
                open_ += [(source, [*path, number], fewer or operations[source].host.size != operation.host.size)
                          for source in mixed_of(operation, data)]  # fmt: skip
                continue
        gather = operation.name in GATHERS
        given = [*zip(operation.operands, operation.sources, strict=True)][: taken(operation)]
        if operation.name in ("power", "pow") and operation.sources[0] is not None and data[operation.sources[0]]:
            # What sharpens weights is no score of theirs.
            given = given[:1]
        for x, source in sorted(given, key=lambda pair: -(pair[1] or 0)):
            if source is None:
                continue
            same = x.size == operation.host.size
            grown = x.size > 1 and operation.host.size > x.size and operation.name in GROWS
            if same or gather or grown or (operation.name in VIEWS and x.size >= size):
                open_.append((source, [*path, number], fewer))
    return found


def _compared(core: Core, products: list[Product | None], data: list[bool]) -> bool:
    """Whether each weight meets a number of its own that is a score as well, or any where nothing sums to 1: a loss."""
    mix, source = core.mix, core.mix.sources[1]
    if mix.rows or mix.columns:
        return False
    found = {} if source is None else {
        n: path for n, path in _back(core.operations, products, data, source, mix.right.size)
        if core.operations[n].name not in ADDS
    }  # fmt: skip
    scored = any(not _valued(core, products[n], path, data) for n, path in found.items() if not {*found} & {*path})
    return scored or not core.normal


def _valued(core: Core, made: Product | None, path: list[int], data: list[bool]) -> bool:
    """Whether a matrix of parameters made the values of each key by itself, and at most something was added."""
    mix = core.mix
    if made is None or made.result.shape != mix.right.shape or all(moving(made, data)):
        return False
    along = {made.labels[2][mix.labels[1].index(a)] for a in mix.summed}
    mapped = made.labels[moving(made, data).index(True)]
    return along <= {*mapped} and all(core.operations[n].name in VIEWS | ADDS for n in path)


def _of_data(operation: Operation, data: list[bool]) -> bool:
    """Whether nothing that it is made of is a parameter."""
    return all(source is not None and data[source] for source in operation.sources)


def _rank(core: Core) -> tuple[int, ...]:
    work = sum(core.operations[i].name not in VIEWS for i in core.path)
    weights = core.weights
    positive = bool((weights[np.isfinite(weights)] >= 0).all())
    # Heads that were mixed after the softmax sum to something else.
    kind = 2 if core.normal or _softmaxed(core) else 1 if positive and work else 0
    straight = bool(set(core.normal) & set(core.key_axes))
    return (
        kind,
        int(core.two),
        int(straight),
        int(not core.outer),
        int(core.scores.result.size == weights.size),
        -_apart(core),
        min(work, 3),
    )


def _apart(core: Core) -> int:
    """For how many axes queries have keys of their own, though they have values in common: keys have none for these."""
    scores, mix = core.scores, core.mix
    if scores.result.shape != core.weights.shape:
        return 0
    return sum(
        key in scores.batch and query in mix.rows for key, query in zip(scores.labels[2], mix.labels[0], strict=True)
    )


def _layers(core: Core) -> bool:
    """Whether two matrices are given of which the rows are summed over, one after the other, as those of layers are."""
    scores, mix = core.scores, core.mix
    sides = [*zip((scores.left, scores.right), scores.labels, scores.sources, scores.origins, strict=False)]
    values = mix.right, mix.labels[1], mix.sources[1], mix.origins[1]
    made = [x.ndim == 2 and source is None and origin.startswith("argument") and labels[0] in summed
            for (x, labels, source, origin), summed in zip((*sides, values), (*[scores.summed] * 2, mix.summed),
                                                           strict=True)]  # fmt: skip
    return any(made[:2]) and made[2]


def _summed_beside(core: Core) -> bool:
    """Whether the weights are positive and their sums over the keys are taken too, to divide by later."""
    weights = core.weights
    if not (weights > 0).all() or not any(core.operations[i].name not in VIEWS for i in core.path):
        return False
    sums = np.sort(weights.sum(tuple(core.key_axes)).ravel())
    return any(
        operation.name in SUMMED and operation.host.size == sums.size and equal(np.sort(operation.host.ravel()), sums)
        for operation in core.operations
    )


def _once_normal(core: Core) -> bool:
    """Whether the weights, none of them negative, were made of what summed to 1, as where some are then hidden."""
    weights = core.weights
    return bool((weights >= 0).all()) and _softmaxed(core)


def _partly(core: Core) -> bool:
    """Whether the weights, none of them negative, are made beside a sum of exponentials of what they are made of."""
    if not (core.weights >= 0).all():
        return False
    summed = [op.operands[0] for op in core.operations[: core.mix.number] if op.name in SUMMED and op.operands]
    made = [core.operations[i].host for i in core.path]
    with np.errstate(over="ignore"):
        return any(x.shape == y.shape and equal(x, np.exp(y)) for x in summed for y in made)


def _softmaxed(core: Core) -> bool:
    """Whether something on the way to the weights sums to 1."""
    return any(sums_to_one(core.operations[i].host) for i in core.path)


def _softmax(core: Core) -> int:
    """The last operation that made the weights, views aside."""
    made = (i for i in core.path[::-1] if core.operations[i].name not in VIEWS)
    return next(made, core.scores.number)


def _normalise(core: Core) -> None:
    """Bring every value between scores and weights to rows × keys."""
    weights, axes = core.weights, core.key_axes
    keys = prod(weights.shape[a] for a in axes)
    others = [a for a in range(weights.ndim) if a not in axes]
    order = np.arange(weights.size).reshape(weights.shape).transpose(others + axes).reshape(-1, keys)
    flat = np.empty(weights.size, int)
    flat[order.ravel()] = np.arange(weights.size)
    tag: np.ndarray = flat.reshape(weights.shape)
    # Which tag each entry has: where rows were repeated, several have one.
    spread = np.arange(order.size).reshape(order.shape)

    def matrix(x: np.ndarray) -> np.ndarray:
        found = np.empty(tag.size)
        found[tag.ravel()] = x.ravel()
        return found[spread]

    operations, makers = core.operations, [*core.path[::-1], core.scores.number]
    values: list[tuple[int | None, np.ndarray]] = []
    current = weights
    lost = False
    for step, number in enumerate(makers):
        value = core.scores.result if number == core.scores.number else operations[number].host
        if not core.sink and (part := without_sink(value, current)) is not None:
            core.sink[value.shape] = part
        # What has a sink has the same numbers beside it, back to where that joined.
        value = value[core.sink.get(value.shape, ...)]
        view = step == 0 or operations[makers[step - 1]].name in (VIEWS - CASTS) | (GATHERS if core.sink else set())
        at = repeated(value, current, operations[makers[step - 1]].name) if step else None
        if at is not None:
            wide = at.ravel()[np.argsort(tag.ravel())[spread]]
            if (np.diff(np.sort(wide, axis=1), axis=1) > 0).all():
                # No key is another one once more.
                spread, current = wide, value
                tag = np.arange(value.size).reshape(value.shape)
        moved = untag(tag, value, current, view)
        if moved is None:
            lost = True
            break
        tag, current = moved, value
        values.append((number, matrix(value)))
    if lost:
        core.steps = values[::-1]
        _measure(core, weights.transpose(others + axes))
        return
    scores = core.scores
    bare = scores.queries @ scores.keys.swapaxes(1, 2)
    places = scores.form(
        np.arange(scores.result.size).reshape(scores.result.shape), scores.labels[2], scores.rows, scores.columns
    )
    if bare.shape == places.shape:
        raw = np.empty(scores.result.size)
        raw[places.ravel()] = bare.ravel()
        bare_matrix = matrix(raw.reshape(scores.result.shape))
        detail = operations[scores.number].detail.split()
        if operations[scores.number].name in ("baddbmm", "addmm") and len(detail) == 2 and float(detail[1]) != 1:
            # A factor and a bias in one call are two steps.
            values.append((scores.number, bare_matrix * float(detail[1])))
        values.append((None, bare_matrix))
    core.place = np.argsort(tag.ravel())[spread]
    core.steps = values[::-1]


def _measure(core: Core, weights: np.ndarray) -> None:
    """Where the way is lost, scores of which the weights (keys last) are a softmax, if there are such."""
    scores = core.scores
    made = core.path[-1] if core.path else scores.number
    numbers = np.arange(scores.result.size).reshape(scores.result.shape)
    found = weights.reshape(-1, weights.shape[-1])
    for axes in permutations(range(numbers.ndim)) if numbers.ndim < 6 else ():
        place = numbers.transpose(axes)
        if place.shape != weights.shape:
            continue
        place = place.reshape(found.shape)
        raw = scores.result.ravel()[place]
        if tempered(raw, found) is not None:
            core.place, core.steps = place, [(None, raw), (made, found)]
            return


def _orient(core: Core) -> None:
    """Turn the scores so that their right has the keys."""
    axes = key_labels(core)
    if axes and set(axes) <= set(core.scores.rows):
        core.scores = core.scores.turned()


def _keyed(core: Core, data: list[bool]) -> bool:
    """Of a score with parameters, whether the keys are data and not what a router chooses from."""
    moves = moving(core.scores, data)
    if not (axes := key_labels(core)):
        # Where the way was lost, axes of that length may be the keys'.
        keys = {core.weights.shape[a] for a in core.key_axes}
        labels, x = core.scores.labels, core.scores.result
        long = [a for a, n in zip(labels[2], x.shape, strict=True) if n in keys]
        return core.place is None and (not long or any(a in labels[moves.index(True)] for a in long))
    side = 0 if set(axes) & set(core.scores.labels[0]) else 1
    return moves[side] and not learned(core.operations, core.scores, side, axes, data)


def _carried(operations: Sequence[Operation], sum_: Operation) -> bool:
    """Whether a sum goes on with all of one of the same line, as what a loop adds up does: it is none of two things."""
    before = [operations[source] for source in sum_.sources if source is not None]
    alike = (one for one in before if (one.name, one.line) == (sum_.name, sum_.line))
    return any(one.host.shape == sum_.host.shape for one in alike)
