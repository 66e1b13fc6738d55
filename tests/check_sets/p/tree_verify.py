import numpy as np


def ancestors(parents):
    """parents[i] is the parent of draft token i, or -1; [i, j] is True where j is i or one of its ancestors."""
    n = len(parents)
    out = np.eye(n, dtype=bool)
    for i, p in enumerate(parents):
        if p >= 0:
            out[i] |= out[p]
    return out


def tree_attention(q, k, v, parents):
    """Verification of a tree of draft tokens: each sees the whole prefix and its own branch.

    q (H, n, D) for the n draft tokens; k, v (H, P + n, D) for the prefix of P tokens and the draft tokens; parents (n,), parents before children
    """
    n, s = q.shape[1], k.shape[1]
    see = np.concatenate([np.ones((n, s - n), dtype=bool), ancestors(parents)], axis=1)
    x = np.einsum("hnd,hsd->hns", q, k) * q.shape[-1] ** -0.5
    x = np.where(see, x, -np.inf)
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.einsum("hns,hsd->hnd", x / x.sum(axis=-1, keepdims=True), v)
