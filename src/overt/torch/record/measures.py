"""What people measure of heads: sinks, entropy, the previous token, induction."""

from __future__ import annotations

import numpy as np

from overt.torch.record.entries import Recorded


def first(seen: Recorded) -> np.ndarray:
    """Share (B, H) of all attention that the first key that anybody sees receives."""
    received = np.asarray(seen.received())
    rows = seen.rows
    B = len(received)
    at = np.broadcast_to(seen.start, B)
    return received[np.arange(B), :, at] / np.maximum(rows, 1)


def entropy(seen: Recorded) -> np.ndarray:
    """Mean entropy (B, H) of the rows over its bound, the logarithm of how many keys a row sees."""
    counts = seen.counts
    bound = np.where(counts > 1, np.log(np.maximum(counts, 2)), np.nan)
    with np.errstate(invalid="ignore"):
        ratio = np.asarray(seen.entropy()) / bound
    some = np.isfinite(ratio)
    return np.where(some, ratio, 0).sum(-1) / np.maximum(some.sum(-1), 1)
