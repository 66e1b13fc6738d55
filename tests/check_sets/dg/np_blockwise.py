"""FlashAttention explained with numpy: never build the (n, m) matrix."""
import numpy as np


def blockwise(q, k, v, size=4):
    """q (n, d), k (m, d), v (m, e) -> (n, e), the same as softmax(q k^T / sqrt(d)) v

    For each block of keys we keep three things per query: the running maximum,
    the running sum of exponentials and the running weighted sum of the values.
    """
    n, d = q.shape
    top = np.full((n, 1), -np.inf)
    total = np.zeros((n, 1))
    acc = np.zeros((n, v.shape[1]))
    for a in range(0, k.shape[0], size):
        s = q @ k[a:a + size].T / np.sqrt(d)
        new = np.maximum(top, s.max(axis=1, keepdims=True))
        p = np.exp(s - new)
        shrink = np.exp(top - new)
        total = shrink * total + p.sum(axis=1, keepdims=True)
        acc = acc + p @ v[a:a + size]
        top = new
    return acc / total


if __name__ == "__main__":
    r = np.random.default_rng(3)
    print(blockwise(r.normal(size=(3, 8)), r.normal(size=(10, 8)), r.normal(size=(10, 5))))
