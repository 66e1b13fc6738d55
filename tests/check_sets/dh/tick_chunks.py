import numpy as np


def read_ticks(q, chunks, causal_from=None):
    """Exact softmax attention over an order-book history that arrives in chunks.

    q            (n, d) queries
    chunks       iterable of (k, v), k (m, d) and v (m, e); m may differ between chunks
    causal_from  None, or (n,) ints: query i may only use ticks with running number <= causal_from[i]
    returns      (n, e); nan never appears: a query without ticks gets zeros
    """
    n, d = q.shape
    best = np.full((n, 1), -np.inf)
    norm = np.zeros((n, 1))
    acc = None
    seen = 0
    for k, v in chunks:
        s = (q @ k.T) / np.sqrt(d)
        if causal_from is not None:
            num = seen + np.arange(len(k))
            s = np.where(num[None, :] <= np.asarray(causal_from)[:, None], s, -np.inf)
        seen += len(k)
        if acc is None:
            acc = np.zeros((n, v.shape[1]))
        new = np.maximum(best, s.max(axis=1, keepdims=True))
        ref = np.where(np.isneginf(new), 0.0, new)
        shrink = np.exp(best - ref)
        p = np.exp(s - ref)
        norm = norm * shrink + p.sum(axis=1, keepdims=True)
        acc = acc * shrink + p @ v
        best = new
    return np.where(norm > 0, acc / np.where(norm > 0, norm, 1.0), 0.0)
