import numpy as np


def block_sparse_attention(q, k, v, layout, block=2):
    """q, k, v (heads, length, dim); layout (heads, length // block, length // block) bool: which key blocks a query block reads.

    Only the blocks that are read are computed.
    """
    h, n, d = q.shape
    out = np.empty_like(v)
    for head in range(h):
        for i in range(n // block):
            cols = np.flatnonzero(layout[head, i])
            sel = (cols[:, None] * block + np.arange(block)).ravel()
            rows = slice(i * block, (i + 1) * block)
            s = q[head, rows] @ k[head, sel].T / np.sqrt(d)
            s -= s.max(axis=1, keepdims=True)
            np.exp(s, out=s)
            s /= s.sum(axis=1, keepdims=True)
            out[head, rows] = s @ v[head, sel]
    return out
