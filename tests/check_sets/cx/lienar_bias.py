import numpy as np


class ChordModel:
    """Causal attention for chord sequences with linear biases instead of position embeddings.

    The bias of head number h (first head: h = 1) out of n is -slope * distance with
    slope = 2 ** (-8 h / n); so with 8 heads the slopes go from 1/2 to 1/256. n is a power of two.

    q, k, v [n, L, d] -> [n, L, d]
    """

    def __init__(self, n):
        if n & (n - 1):
            raise ValueError("power of two, please")
        self.n = n
        self.slopes = np.array([2.0 ** (-8.0 * h / n) for h in range(n)])

    def bias(self, L):
        far = np.arange(L)[:, None] - np.arange(L)[None, :]
        b = -self.slopes[:, None, None] * far[None]
        b[:, far < 0] = -np.inf
        return b

    def weights(self, q, k):
        s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1])
        s = s + self.bias(q.shape[1])
        s = np.exp(s - s.max(axis=2, keepdims=True))
        return s / s.sum(axis=2, keepdims=True)

    def __call__(self, q, k, v):
        return np.einsum("hij,hjd->hid", self.weights(q, k), v)
