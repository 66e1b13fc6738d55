"""Attention whose products are taken in another order, written in the order of the definition.

Q (Kᵀ V), as in linear attention (Katharopoulos et al. 2020, arXiv:2006.16236), is (Q Kᵀ) V; sums up to a position are
the weights of the keys up to it, and so is a state to which one key after the other is added; and values that are mixed
by the mean of several weights are the mean of what each of these mixes.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np

from overt.recorder.flow import VIEWS, constant_ratio, equal, sums_to_one, untag
from overt.recorder.fused import Written
from overt.recorder.operations import Operation
from overt.recorder.products import Product, contracted, labels_of, product

_TIMES, _MEANS, _RUNNING = {"mul", "multiply"}, {"mean", "sum", "div", "true_divide", "divide"}, {"cumsum"}
# What is said of the weights that were nowhere computed.
REORDERED = "keys and values first"
# What says that values of several heads were mixed by one mean of the weights of these.
AVERAGED = "the mean of heads"
# Operations from a state to what is asked of it.
_FAR = 12
_OUTER, _CONTRACTIONS = {"outer", "ger"}, {"einsum", "dot_general"}
_ADDS = {"add", "iadd", "radd"}
_Labels = tuple[str, str, str]
# An operand: its numbers, what made it, and its name; a step: its name and details, operands, and what it gives.  What
# the step i of the same list made is ~i.
_Value = tuple[np.ndarray, int | None, str]
_Step = tuple[str, str, Sequence[_Value], np.ndarray]
# What is added to a state: operands and labels of a product, and what the state was multiplied by since.
_Term = tuple[list[_Value], _Labels, np.ndarray]


def reordered(operations: Sequence[Operation], data: Sequence[bool]) -> tuple[list[Operation], list[int]] | None:
    """Operations with such products in the order of the definition, and the number of each before; None without any."""
    found: dict[int, list[_Step]] = {}
    for number in range(len(operations)):
        one = contracted(operations, number)
        for mix in () if one is None else (one, one.turned()):
            steps = _associated(operations, data, mix) or _averaged(operations, mix)
            if steps is not None:
                found[number] = steps
                break
    if not found:
        return None
    written = Written()
    for number, _ in written.each(operations):
        made: list[int | None] = []
        for name, detail, values, result in found.get(number, ()):
            several = [
                (x, None if s is None else made[~s] if s < 0 else written.now[s], origin) for x, s, origin in values
            ]
            made.append(written.step(name, result, *several, detail=detail)[1])
    return written.operations, written.before


def accumulated(operations: Sequence[Operation], data: Sequence[bool], mix: Product, others: set[int]) -> bool:
    """Whether what is mixed is a state of linear attention: a sum that grew position by position, or one of others.

    others: the numbers of other mixtures, such as that of values by their keys.
    """
    source, path = _state(operations, data, mix)
    if source in others or any(operations[number].name in _RUNNING for number in path):
        return True
    return source is not None and len(_terms(operations, source) or ()) > 1


def _state(operations: Sequence[Operation], data: Sequence[bool], mix: Product) -> tuple[int | None, list[int]]:
    """What made the right of a product, behind views and sums up to each position, and the numbers of these."""
    source, path = mix.sources[1], list[int]()
    while source is not None and operations[source].name in VIEWS | _RUNNING | _ADDS and len(path) < _FAR:
        if operations[source].name in _ADDS:
            # A state that began with zeros, and sums up to each position.
            whole = [s for s, x in zip(operations[source].sources, operations[source].operands, strict=True) if x.any()]
            begun = whole[0] if len(whole) == 1 else None
            if begun is None or operations[begun].name not in _RUNNING:
                break
            source = begun
            continue
        path.append(source)
        own = [s for s in operations[source].sources if s is not None and data[s]]
        source = own[0] if len(own) == 1 else None
    return source, path


def _associated(operations: Sequence[Operation], data: Sequence[bool], mix: Product) -> list[_Step] | None:
    """The steps of a product of queries with what keys and values were multiplied to first."""
    source, path = _state(operations, data, mix)
    running = False
    made = None if source is None else _pairs(operations, source)
    steps, kept = list[_Step](), np.ones(1)
    if made is not None:
        known = all(data[s] if s is not None else o.startswith("argument") for _, s, o in made[0])
    else:
        terms = None if source is None else _terms(operations, source)
        known = bool(terms) and all(s is not None and data[s] for pair, _, _ in terms or () for _, s, _ in pair)
        made, kept = _stacked(terms, steps) if known and terms else (None, kept)
    if made is None or not known:
        return None
    # Where in the state each number of the first product came to lie.
    tag: np.ndarray | None = np.arange(mix.right.size).reshape(mix.right.shape)
    current, along = mix.right, list[np.ndarray]()
    for number in [*path, source]:
        operation = operations[number or 0]
        if tag is None:
            return None
        tag, current = untag(tag, operation.host, current, True), operation.host
        if operation.name in _RUNNING and tag is not None:
            x = operation.operands[0]
            sums = [axis for axis in range(x.ndim) if equal(np.cumsum(x, axis), operation.host) and x.shape[axis] > 1]
            if len(sums) != 1:
                return None
            at = np.unravel_index(tag, mix.right.shape)
            along.append(np.stack([np.diff(c.take([0, 1], sums[0]), axis=sums[0]) for c in at]))
            running, current = True, x
    if tag is None:
        return None
    return _written(mix, made, np.unravel_index(tag, mix.right.shape), along if running else [], steps, kept)


def _written(
    mix: Product,
    made: tuple[list[_Value], _Labels],
    places: Sequence[np.ndarray],
    along: Sequence[np.ndarray],
    steps: Sequence[_Step],
    kept: np.ndarray,
) -> list[_Step] | None:
    """The steps after those of the operands; ``kept`` is what is left of each key, by the axes of the product."""
    values, (one, two, out) = made
    letters = iter(sorted(set(string.ascii_letters) - set("".join(mix.labels) + one + two)))
    shape = places[0].shape
    shape = shape if len(shape) == len(out) else tuple(n for n in shape if n > 1)
    if len(shape) != len(out):
        return None
    flat = [c.reshape(shape) for c in places]
    renamed: dict[str, str] = {}
    for axis, letter in enumerate(out):
        mine = [a for a, c in zip(mix.labels[1], flat, strict=True) if (c != c.take([0], axis)).any()]
        if len(mine) != 1 or mine[0] in renamed.values():
            return None
        renamed[letter] = mine[0]
    keys = "".join(next(letters) for a in one if a in two and a not in out)
    renamed |= dict(zip((a for a in one if a in two and a not in out), keys, strict=True))
    first = [a for a, c in zip(mix.labels[1], along[0], strict=True) if c.any()] if along else []
    later = ""
    if first:
        # Every position sees what was added up until then.
        later = next(letters)
        if len(first) > 1 or first[0] not in mix.batch or keys:
            return None
        renamed = {a: later if b == first[0] else b for a, b in renamed.items()}
        keys = later
    (one, key), (two, value) = sorted(
        (("".join(renamed[a] for a in axes), x) for axes, x in zip((one, two), values, strict=True)),
        key=lambda side: not set(mix.summed) <= set(side[0]),
    )
    if (
        not keys
        or not set(mix.summed) <= set(one)
        or set(mix.summed) & set(two)
        or not set(keys) <= set(one) & set(two)
    ):
        return None
    if (kept != 1).any():
        axes = "".join(renamed[a] for a in out) + keys
        for place in [i for i in range(kept.ndim) if (kept == kept.take([0], i)).all()][::-1]:
            kept, axes = kept.take(0, place), axes[:place] + axes[place + 1 :]
        if not set(axes) <= set(one):
            return None
        left = np.einsum(f"{one},{axes}->{one}", key[0], kept)
        steps = [*steps, ("mul", "", (key, (kept, None, "")), left)]
        key = left, ~(len(steps) - 1), ""
    weighed = "".join(a for a in mix.labels[2] if a in mix.labels[0]) + keys
    if not set(mix.labels[2]) <= set(weighed + two) or not set(weighed) <= set(mix.labels[0] + one):
        # An axis of the result is of something else than queries and values.
        return None
    scores = np.einsum(f"{mix.labels[0]},{one}->{weighed}", mix.left, key[0])
    query = mix.left, mix.sources[0], mix.origins[0]
    steps = [*steps, ("einsum", f"{mix.labels[0]},{one}->{weighed}", (query, key), scores)]
    if first:
        n = scores.shape[-1]
        seen = np.tri(n, dtype=bool).reshape([n if a in (first[0], later) else 1 for a in weighed])
        scores = np.where(seen, scores, 0.0)
    steps.append(("where", REORDERED, ((steps[-1][3], ~(len(steps) - 1), ""),), scores))
    mixed = np.einsum(f"{weighed},{two}->{mix.labels[2]}", scores, value[0])
    if not equal(mixed, mix.result):
        return None
    weights = scores, ~(len(steps) - 1), ""
    return [*steps, ("einsum", f"{weighed},{two}->{mix.labels[2]}", (weights, value), mixed)]


def _terms(operations: Sequence[Operation], number: int) -> list[_Term] | None:
    """What was added to a state that began with zeros, the first first; None where it grew in another way."""
    terms, factor = list[_Term](), np.ones(())
    source: int | None = number
    while source is not None:
        operation = operations[source]
        if (own := _outer(operations, source)) is not None:
            return [(*own, factor), *terms[::-1]]
        if not operation.host.any():
            return terms[::-1]
        whole = [x.shape == operation.host.shape for x in operation.operands]
        if not any(whole):
            return None
        place = whole.index(True)
        if len(whole) == 1 and (times := constant_ratio(operation.operands[0], operation.host)) is not None:
            # A view, or what forgets: the state times something.
            factor = factor * times
        elif len(whole) == 2 and operation.name in _TIMES:
            factor = factor * operation.operands[1 - place]
        elif len(whole) == 2 and operation.name in _ADDS:
            pairs = [_outer(operations, s) for s in operation.sources]
            place = 0 if pairs[1] is not None else 1
            added = pairs[1 - place]
            if added is None:
                return None
            terms.append((*added, factor))
        elif operation.operands[place].any() or len(whole) > 2:
            return None
        source, x = operation.sources[place], operation.operands[place]
        if source is None and x.any():
            return None
    return terms[::-1]


def _outer(operations: Sequence[Operation], number: int | None) -> tuple[list[_Value], _Labels] | None:
    """The operands and labels of a product to which each of the two has an axis that the other has not."""
    made = None if number is None else _pairs(operations, number)
    one, two = (set(axes) for axes in made[1][:2]) if made else (set[str](), set[str]())
    return made if one - two and two - one else None


def _stacked(terms: Sequence[_Term], steps: list[_Step]) -> tuple[tuple[list[_Value], _Labels] | None, np.ndarray]:
    """Operands and labels of the product that is the sum of several, and what is left of each: (*axes, keys)."""
    one, two, out = terms[0][1]
    left, right = (x.shape for x, _, _ in terms[0][0])
    sizes = dict(zip(one + two, left + right, strict=True))
    summed = [a for a in one if a in two and a not in out]
    alike = all(labels == (one, two, out) and len(summed) < 2 for _, labels, _ in terms)
    if not alike or any(factor.ndim > len(out) for *_, factor in terms):
        return None, np.ones(1)
    key = summed[0] if summed else min(set(string.ascii_letters) - set(one + two))
    values = list[_Value]()
    for place, axes in enumerate((one, two)):
        parts = [pair[place] for pair, _, _ in terms]
        if any(x.shape != parts[0][0].shape for x, _, _ in parts) and not summed:
            return None, np.ones(1)
        at = axes.index(key) if summed else 0
        made = np.concatenate([x if summed else x[None] for x, _, _ in parts], at)
        values.append((made, ~len(steps), ""))
        steps.append(("concatenate" if summed else "stack", "", parts, made))
    whole = [sizes[a] for a in out]
    counts = [pair[0][0].shape[one.index(key)] if summed else 1 for pair, _, _ in terms]
    factors = [np.broadcast_to(factor, whole) for *_, factor in terms]
    kept = np.repeat(np.stack(factors, -1), counts, axis=-1)
    labels = (one, two, out) if summed else (key + one, key + two, out)
    return (values, labels), kept


def _pairs(operations: Sequence[Operation], number: int) -> tuple[list[_Value], _Labels] | None:
    """The operands and labels of a product of two, whether it is summed over positions or not yet."""
    made, operation = product(operations, number), operations[number]
    if made is not None:
        return [
            (x, s, o) for x, s, o in zip((made.left, made.right), made.sources, made.origins, strict=True)
        ], made.labels
    if len(operation.operands) != 2 or operation.name not in _TIMES | _OUTER | _CONTRACTIONS:
        return None
    arrays, whole = list(operation.operands), operation.host
    labels = ("a", "b", "ab") if operation.name in _OUTER else labels_of(operation, *arrays)
    if operation.name in _TIMES:
        letters, axes = string.ascii_lowercase, list[str]()
        for place, x in enumerate(arrays):
            full = x.reshape((1,) * (whole.ndim - x.ndim) + x.shape)
            arrays[place] = np.squeeze(full)
            axes.append("".join(letters[i] for i in range(full.ndim) if full.shape[i] > 1))
        labels = (
            axes[0],
            axes[1],
            "".join(letters[i] for i in range(whole.ndim) if whole.shape[i] > 1),
        )
    return None if labels is None else (list(zip(arrays, operation.sources, operation.origins, strict=True)), labels)


def _averaged(operations: Sequence[Operation], mix: Product) -> list[_Step] | None:
    """The steps of values mixed by the mean of several weights; what is weighed to one number is no values."""
    source = mix.sources[0] if mix.columns else None
    for _ in range(3):
        if source is None or operations[source].name not in _MEANS | VIEWS or not operations[source].operands:
            return None
        x, source = operations[source].operands[0], operations[source].sources[0]
        # The mean may be laid out for as many as there were.
        laid = x.shape == mix.left.shape
        normal = sums_to_one(x) if (laid or x.ndim == mix.left.ndim + 1) and source is not None else []
        for axis in (a for a in range(x.ndim) if normal and a not in normal and x.shape[a] > 1):
            if equal(np.broadcast_to(x.mean(axis, keepdims=True), x.shape) if laid else x.mean(axis), mix.left):
                letter = min(set(string.ascii_letters) - set("".join(mix.labels)))
                one = mix.labels[0][:axis] + letter + mix.labels[0][axis + laid :]
                equation = f"{one},{mix.labels[1]}->{letter}{mix.labels[2]}"
                mixed = np.einsum(equation, x, mix.right)
                both = (x, source, ""), (mix.right, mix.sources[1], mix.origins[1])
                beside = [n for n, a in zip(mix.right.shape, mix.labels[1], strict=True) if a not in one]
                # Beside the features there is an axis of as many values.
                own = AVERAGED if len(beside) > 1 and x.shape[axis] in beside else ""
                return [("einsum", equation, both, mixed), ("mean", own, ((mixed, ~0, ""),), mixed.mean(0))]
    return None
