"""What scores or weights are multiplied by on their way, where that is no scale."""

from __future__ import annotations

import numpy as np

from overt.check.steps.judged import FACTORS, State
from overt.check.steps.origins import PRODUCTS
from overt.check.steps.pipeline import constant
from overt.recorder.products import made_of


class Factored(State):
    """What the scores and weights of one attention are multiplied by."""

    def _by_key(self, x: np.ndarray, y: np.ndarray) -> bool:
        """Whether weights, which sum to 1 in the end, have a factor for each key that all queries share, as an area."""
        core = self.core
        labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
        with np.errstate(all="ignore"):
            share = np.where(x > 0, y / x, np.nan).reshape(*core.shape, -1)
        rows = tuple(labels.index(a) for a in core.mix.rows)
        live = share[np.isfinite(share)]
        return bool(core.normal and rows and (live >= 0).all()) and all(constant(share, axis, 1e-5) for axis in rows)

    def _tempered(self, number: int) -> bool:
        """Whether the scores are multiplied by a number that was made of the data, as a temperature of each query."""
        path = {*self.core.path, self.core.scores.number}
        others = (s for s in self.operations[number].sources if s is not None and s not in path and self.data[s])
        return any(not path & made_of(self.operations, source) for source in others)

    def _free(self, number: int) -> bool:
        """Whether the scores are multiplied by what is learned, or by what is given and nothing else depends on.

        Of weights, by what the values do not depend on, as those of the step before (Zhang et al. 2018).
        """
        operation = self.operations[number]
        path = {*self.core.path, self.core.scores.number}
        others = [(s, o) for s, o in zip(operation.sources, operation.origins, strict=True) if s not in path]
        mine = frozenset[str]().union(*(self.reach[s] if s is not None else {o} - {""} for s, o in others))
        rest = frozenset[str]().union(*self.streams()[2 if self.phase == "prob" else 0 :])
        learned = self._of_parameters(number) or any(s is not None and self._looked_up(s, rest) for s, _ in others)
        return operation.name in FACTORS and (learned or (bool(mine) and not mine & rest))

    def _looked_up(self, number: int, rest: frozenset[str]) -> bool:
        """Whether something was made, number by number, of what the rest is not, but for whole numbers to choose by."""
        made = [self.operations[n] for n in made_of(self.operations, number)]
        numbers = {
            o for one in made for o, x in zip(one.origins, one.operands, strict=True) if o and x.dtype.kind == "f"
        }
        return bool(numbers) and not numbers & rest and not any(one.name in PRODUCTS for one in made)
