"""What became of a softmax, and one use of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from overt.torch.record.cells import Origin, Product
from overt.torch.record.functions import LEAVES
from overt.torch.record.mixing import shows

# What adds up values that were weighed one by one; some by an index, as where edges meet in a node.
_PLAIN = {"sum", "mean", "nansum"}
_SUMS = _PLAIN | {"cumsum", "bincount"}
_SUMS |= {f"{x}{y}" for x in ("index_add", "scatter_add", "scatter_reduce") for y in ("", "_")}


@dataclass(eq=False)
class Softmax:
    """One softmax: where it ran, whether its input were scores, of how many cells, and what became of its weights.

    torn: whether they were used in pieces, or upon themselves, so that no use tells what they were.
    piece: whether what was used are not all of them: all but a sink, or a piece beside others.
    given: whether they are a part of what a model gave, and nobody is known to have used them.
    beside: whether it ran where no ``forward`` did, so that nobody knows what became of them.
    summed: where they, or what was made of them, weighed a sum that is not recorded.
    spelled: whether it is what ``exp`` gave of scores, which is no softmax before it mixes.
    normal: whether what ``exp`` gave of anything else was divided by a sum of itself; None for any other softmax.
    users: where its weights mixed values, and in which of the runs there.
    source: where its input comes from, if that is no scores, and along which axis it runs.
    chooses: whether that axis holds features of a map, as where a router chooses experts; None where nobody asked.
    infinite: whether weights that met a product are not all finite.
    root: the product that its scores come from.  aside: whether these were only looked at, and may go on elsewhere.
    of: those whose weights were put together.
    """

    place: Any
    scored: bool
    size: int = 0
    torn: bool = False
    piece: bool = False
    given: bool = False
    beside: bool = False
    summed: Any = None
    spelled: bool = False
    normal: bool | None = None
    infinite: bool = False
    lost: str | None = None
    root: Product | None = None
    aside: bool = False
    users: tuple[tuple[Any, int], ...] = ()
    source: tuple[Origin, int] | None = None
    chooses: bool | None = None
    of: tuple[Softmax, ...] = ()

    @property
    def followed(self) -> bool:
        """Whether all that became of its weights is understood."""
        return bool(self.users) and not self.torn and not (self.piece and self.lost is not None)

    @property
    def left(self) -> bool:
        """Whether nobody knows what its weights mixed, for they left torch, and no error says so."""
        return not (self.scored or self.users or self.chooses) and self.lost in LEAVES

    @property
    def doubtful(self) -> bool:
        """Whether it may be an attention, beside all that is known of it."""
        return self.summed is not None and self.normal is not False and (self.followed or not self.scored)


@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of a softmax, in some tensor.

    form: what is there in their place: "changed", by what is not followed; "mapped", to as many, by parameters;
    "spread", each weight beside the features of its value; a "total" of them; empty for the weights themselves.
    again: whether they have mixed values before.
    """

    softmax: Softmax
    values: Tensor
    dropped: bool = False
    form: str = ""
    again: bool = False


def weighs(name: str) -> bool:
    """Whether a function weighs values one by one."""
    return "mul" in name


def onward(place: Any, name: str, found: Sequence[Weights], before: Tensor, after: Tensor, more: bool) -> str:
    """The form of weights after a function that is not followed; where it adds up what they weighed, that is noted.

    before, after: what they were in, and are.  more: whether more than a sum of what they weigh is told.
    """
    softmax = found[0].softmax
    forms = [x.form for x in found if x.softmax is softmax]
    spread, several = "spread" in forms, any(x.softmax is not softmax for x in found)
    # Where keys come one by one, each has a softmax of its own.
    blocks = several and softmax.normal is False and all(x.form == "spread" for x in found)
    adds = name in (_SUMS if more else _PLAIN)
    # Weights that stand beside features by themselves have met values of the same shape.
    wide = not forms[0] and before.numel() > softmax.size
    both = "add" in name and ((spread and len(forms) > 1) or blocks)
    if (adds and spread) or (more and ((adds and wide) or name == "embedding_bag" or both)):
        softmax.summed = softmax.summed or place
        return ""
    grown = after.shape != before.shape or after.numel() > softmax.size
    if (spread and more) or (forms in ([""], ["changed"]) and weighs(name) and grown):
        return "spread"
    if not more:
        return ""
    if forms == ["total"] or (name in _SUMS and softmax.normal is False and not spread):
        return "total"
    # Blocks of keys are added up, and so are their totals.
    if "add" in name and (forms[0] == "total" or (several and softmax.normal is False)):
        return "total"
    # What ``exp`` gave, and is negative before it is divided, is no softmax.
    negative = softmax.normal is False and shows(after) and bool((after < 0).any())
    return "" if negative else "mapped" if "mapped" in forms else "changed"


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
