"""Several attentions as one: means over heads and layers, and rollout."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from overt.errors import ArgumentError, DtypeError, RecordingError
from overt.grid import is_number, shown
from overt.torch.record.entries import Recorded


def mean(several: Iterable[Recorded], *, layers: bool, heads: bool) -> np.ndarray:
    """Weights (L, B, H, T, S) without the axis L, or H, or both, over which the mean is taken."""
    for name, x in (("layers", layers), ("heads", heads)):
        if not isinstance(x, bool | np.bool_):
            raise DtypeError(
                f"{name} says whether the mean is taken over {name}, True or False, not {shown(x)}: choose attentions "
                "by name, rec.mean(names)"
            )
    total: np.ndarray | None = None
    stack: list[np.ndarray] = []
    count = 0
    for seen in several:
        # One layer is whole at a time, and no more where only their mean is asked for.
        weights = np.asarray(seen.weights)
        if heads:
            weights = weights.mean(1)
        _alike(seen, weights, total if layers else (stack[0] if stack else None))
        count += 1
        if layers:
            total = weights if total is None else total + weights
        else:
            stack.append(weights)
    if not count:
        raise ArgumentError("a mean of no attention: give at least one name")
    return np.stack(stack) if total is None else total / count


def rollout(several: Iterable[Recorded], residual: float) -> np.ndarray:
    """Attention rollout (B, T, T) of self-attentions from the first layer to the last.

    Each layer is (1 − residual) · mean over heads + residual · identity, rows summing to 1, and they are multiplied.
    Abnar & Zuidema 2020 (arXiv:2005.00928).
    """
    if not is_number(residual) or not 0 <= residual < 1:
        raise ArgumentError(
            f"residual is the share of what goes round the attention, 0 ≤ residual < 1, not {shown(residual)}"
        )
    total: np.ndarray | None = None
    for seen in several:
        T, S = seen.problem.shape.T, seen.problem.shape.S
        if T != S:
            raise RecordingError(
                f"{seen.name} has {T} queries and {S} keys: rollout is for self-attention over one text; name the "
                "attentions that are meant, rec.rollout(names)"
            )
        layer = np.asarray(seen.weights).mean(1, dtype=np.float64) * (1 - residual) + residual * np.eye(T)
        layer /= layer.sum(-1, keepdims=True)
        _alike(seen, layer, total)
        total = layer if total is None else layer @ total
    if total is None:
        raise ArgumentError("a rollout of no attention: give at least one name")
    return total


def _alike(seen: Recorded, weights: np.ndarray, other: np.ndarray | None) -> None:
    if other is not None and weights.shape != other.shape:
        raise RecordingError(
            f"{seen.name} has weights of shape {weights.shape}, and those before it {other.shape}: name attentions "
            "of one shape"
        )
