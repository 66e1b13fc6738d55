"""k-winners recall for binned spike counts."""
import numpy as np


def k_winners(stimulus, traces, content, k=4):
    """Attend only to the k best matching traces of each stimulus.

    stimulus (..., T, d), traces (..., S, d), content (..., S, e) -> (..., T, e)
    k larger than S means all of them.
    """
    match = np.einsum("...td,...sd->...ts", stimulus, traces) / np.sqrt(stimulus.shape[-1])
    S = match.shape[-1]
    k = min(k, S)
    keep = np.argpartition(match, S - k, axis=-1)[..., S - k:]
    best = np.take_along_axis(match, keep, axis=-1)
    best = np.exp(best - best.max(axis=-1, keepdims=True))
    best /= best.sum(axis=-1, keepdims=True)
    full = np.zeros_like(match)
    np.put_along_axis(full, keep, best, axis=-1)
    return full @ content
