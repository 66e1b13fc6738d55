"""What is known of tensors while they live: whether they are scores of attention, or weights."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from overt.torch.record.cells import Product
from overt.torch.record.softmaxes import Weights

_Known = dict[int, tuple[weakref.ref[Tensor], Weights | None, Product | None]]


class Noted:
    """Scores and weights by the numbers of their tensors, none of which it holds on to."""

    def __init__(self) -> None:
        # Weights, or None for scores, and the product that these come from.
        self._known: _Known = {}
        # What is only told if it weighs a sum: weights that mixed values before, and what may be none.
        self._aside: _Known = {}

    @property
    def known(self) -> Mapping[int, object]:
        """What is followed now; while it is empty, only what ``begins`` is anything to ``see``."""
        return self._known

    @property
    def aside(self) -> Mapping[int, object]:
        """What is followed only where it is among the arguments of a function, by its number."""
        return self._aside

    def _note(self, x: Tensor, weights: Weights | None, root: Product | None = None) -> None:
        key, known, other = id(x), self._known, self._aside
        if weights is not None and (weights.form or weights.again or weights.softmax.normal is not None):
            known, other = other, known
        other.pop(key, None)
        known[key] = weakref.ref(x, lambda gone: _forget(known, key, gone)), weights, root

    def _entry(self, x: Tensor) -> bool:
        found = self._known.get(id(x)) or self._aside.get(id(x))
        return found is not None and found[0]() is x

    def _root(self, x: Tensor) -> Product | None:
        return self._known[id(x)][2] if id(x) in self._known else None

    def _weights(self, x: Tensor) -> Weights | None:
        found = self._known.get(id(x)) or self._aside.get(id(x))
        return found[1] if found is not None and found[0]() is x else None


def _forget(known: dict[int, tuple[Any, ...]], key: int, gone: Any) -> None:
    if key in known and known[key][0] is gone:
        del known[key]
