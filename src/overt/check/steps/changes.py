"""What was done to rows of scores or weights, by the numbers before and after."""

from __future__ import annotations

import numpy as np

from overt.recorder.flow import close

# Numbers that some keys may be by chance.
_CODES = 3
# A number that scores are not: hidden ones lie as far below 0.
RAISED = 1e6


def levelled(weights: np.ndarray, final: np.ndarray) -> bool:
    """Whether weights were mixed with those of a mean over the keys that have some, a share for all rows."""
    seen = weights > 0
    mean = seen / np.maximum(seen.sum(1, keepdims=True), 1)
    mine, made = weights - mean, final - mean
    share = float((mine * made).sum() / max(float((mine * mine).sum()), 1e-12))
    return 1e-6 < share < 1 - 1e-6 and close(made, share * mine, 1e-4, 1e-6)


def shared(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether each row was divided by a number that is the larger the more it sums to, and none sums to more than 1."""
    sums, shares = x.sum(1), y.sum(1)
    live = sums > 1e-6
    with np.errstate(all="ignore"):
        by = np.where(live, sums / shares, 1.0)
    grows = np.diff(by[live][np.argsort(sums[live])])
    return bool(
        (x > -1e-6).all()
        and np.ptp(sums) > 1e-3
        and (grows >= -1e-6).all()
        and (grows > 1e-6).any()
        and (shares[live] > 0).all()
        and (shares < 1 + 1e-4).all()
        and np.allclose(x / by[:, None], y, rtol=1e-4, atol=1e-6)
    )


def whole_numbers(x: np.ndarray) -> bool:
    """Whether numbers are whole, and not only a few of them by chance."""
    return bool((x == np.round(x)).all()) and len(np.unique(x)) > _CODES


def raised_cells(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Cells that became so large, and not those beside them, that in single precision no score is left of them."""
    with np.errstate(all="ignore"):
        raised = np.isfinite(x) & np.isfinite(y) & (y - x > RAISED)
    return np.asarray(raised & ~raised.all(1, keepdims=True))


def decays(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether each score of a later query was multiplied by a product of factors, one of each position in between."""
    n = x.shape[1]
    if len(x) % n:
        return False
    known = (np.abs(x) > 1e-9 * np.abs(x).max(initial=0)).reshape(-1, n, n)
    with np.errstate(all="ignore"):
        shares = np.where(known, (y / x).reshape(-1, n, n), 1.0)
        steps = np.log(np.clip(np.diagonal(shares, -1, 1, 2), 1e-300, None))
        ends = np.pad(np.cumsum(steps, 1), ((0, 0), (1, 0)))
        between = np.where(np.tri(n, dtype=bool), np.exp(ends[:, :, None] - ends[:, None]), 0.0)
    return bool((shares >= 0).all() and (shares < 1 + 1e-6).all()) and close(shares[known], between[known], 1e-4, 1e-6)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(−x)) of each number; 0 where the exponential overflows."""
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))
