"""What became of a softmax, and one use of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from overt.torch.record.cells import Product


@dataclass(eq=False)
class Softmax:
    """One softmax: where it ran, whether its input were scores, of how many cells, and what became of its weights.

    torn: whether they were used in pieces, or upon themselves, so that no use tells what they were.
    piece: whether what was used are not all of them: all but a sink, or a piece beside others.
    given: whether they are a part of what a model gave, and nobody is known to have used them.
    beside: whether it ran where no ``forward`` did, so that nobody knows what became of them.
    summed: whether they weighed a sum, of which no product tells.
    spelled: whether it is what ``exp`` gave of scores, which is no softmax before it mixes.
    infinite: whether weights that met a product are not all finite.
    root: the product that its scores come from.  aside: whether these were only looked at, and may go on elsewhere.
    """

    place: Any
    scored: bool
    size: int = 0
    used: bool = False
    torn: bool = False
    piece: bool = False
    given: bool = False
    beside: bool = False
    summed: bool = False
    spelled: bool = False
    infinite: bool = False
    lost: str | None = None
    root: Product | None = None
    aside: bool = False

    @property
    def followed(self) -> bool:
        """Whether all that became of its weights is understood."""
        return self.used and not self.torn and not (self.piece and self.lost is not None)


@dataclass(frozen=True, eq=False)
class Use:
    """Weights (…, T, S) of a softmax, the values (…, S, E) that they mixed, and what came out (…, T, E).

    place: where.  order: which of the leading axes, flattened, are which sample and which head, where they are not as
    they should be.
    """

    place: Any
    softmax: Softmax
    weights: Tensor
    values: Tensor
    output: Tensor
    dropped: bool
    order: np.ndarray | None = None
