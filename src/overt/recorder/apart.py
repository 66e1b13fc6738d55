"""Scores that do not look at what is attended to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from overt.recorder.flow import VIEWS, carriers
from overt.recorder.products import contracted

if TYPE_CHECKING:
    from overt.recorder.core import Core


def key_labels(core: Core) -> str:
    """The axes of the scores' result along which the keys of a row lie; "" where they were lost on the way."""
    if core.place is None or core.place.shape[1] < 2:
        return ""
    coordinates = np.unravel_index(core.place, core.scores.result.shape)
    labels = core.scores.labels[2]
    return "".join(a for a, c in zip(labels, coordinates, strict=True) if (c != c[:, :1]).any())


def apart(core: Core, reach: Sequence[frozenset[str]]) -> bool:
    """Whether the scores depend on other arguments than the values do, and no position of these has its own.

    The one query of a decoder may be made of the values too, where these are given as they are.
    """
    scores = core.scores
    values = _side(core.mix.sources[1], core.mix.origins[1], reach)
    sides = [_side(s, o, reach) for s, o in zip(scores.sources, scores.origins, strict=True)]
    query = sides[0] | sides[1]
    asked = query > values and not core.two and core.mix.output.shape[1] == 1 and _as_given(core)
    if not values or (values & query and not asked and not _only_mixed(core)):
        return False
    axes = key_labels(core)
    keys = {core.weights.shape[a] for a in core.key_axes}
    for side, labels, x in ((sides[0], scores.labels[0], scores.left), (sides[1], scores.labels[1], scores.right)):
        free = {a: n for a, n in zip(labels, x.shape, strict=True) if a not in scores.summed}
        # Where the way to the weights was lost, an axis of that length may be the keys', or a longer one in parts.
        longer = not core.normal and max(free.values(), default=0) >= min(keys)
        if side and (set(axes) & set(free) if axes else longer or keys & set(free.values())):
            return False
    # Who chooses between what was given attends to none of it.
    return not (_as_given(core) and chooses(core))


def chooses(core: Core) -> bool:
    """Whether each position of each sample chooses between things of its own, such as layers or experts.

    So it is where several axes of the values are those of who asks, who has no other one.
    """
    scores, mix = core.scores, core.mix
    axes = dict(zip(mix.labels[0], mix.left.shape, strict=True))
    own = sum(axes[a] > 1 for a in mix.batch) > 1 and all(axes[a] == 1 for a in mix.rows)
    asks = (sum(n > 1 and a not in scores.summed for a, n in zip(labels, x.shape, strict=True))
            for labels, x in zip(scores.labels, (scores.left, scores.right), strict=False))  # fmt: skip
    return own and max(asks) > 1


def _only_mixed(core: Core) -> bool:
    """Whether of the values of one query nothing comes to the scores but what was mixed of them for earlier ones."""
    operations, source = core.operations, core.mix.sources[1]
    if source is None or core.two or core.mix.output.shape[1] > 1:
        return False
    data, open_ = carriers(operations), {core.scores.number}
    while operations[source].name in VIEWS and (before := next(iter(operations[source].sources), None)) is not None:
        source = before
    mine = {source}
    for number in range(source, core.scores.number):
        mine |= {number} if operations[number].name in VIEWS and mine & {*operations[number].sources[:1]} else set()
    met = False
    while open_ and not open_ & mine:
        one = max(open_)
        made = contracted(operations, one)
        mixed = made is not None and not any(origin.startswith("parameter") for origin in made.origins)
        sources = {s for s in operations[one].sources if s is not None and data[s]}
        met |= mixed and bool(sources & mine)
        open_ = open_ - {one} | (sources - mine if mixed else sources)
    return met and not open_


def _as_given(core: Core) -> bool:
    """Whether the values are an argument, or a view of one."""
    source, origin = core.mix.sources[1], core.mix.origins[1]
    while source is not None and (operation := core.operations[source]).name in VIEWS:
        source, origin = operation.sources[0], operation.origins[0]
    return source is None and origin.startswith("argument")


def _side(source: int | None, origin: str, reach: Sequence[frozenset[str]]) -> frozenset[str]:
    if source is not None:
        return reach[source]
    return frozenset({origin}) if origin.startswith("argument") else frozenset()
