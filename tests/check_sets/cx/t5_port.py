"""Port of a T5 encoder's first self-attention to plain NumPy (float64), for checking weights."""
import math

import numpy as np


def bucket_of(rel, n_buckets, far):
    """rel = key position - query position. Half of the buckets are for keys on the right."""
    half = n_buckets // 2
    base = half if rel > 0 else 0
    dist = abs(rel)
    exact = half // 2
    if dist < exact:
        return base + dist
    step = exact + int(math.log(dist / exact) / math.log(far / exact) * (half - exact))
    return base + min(step, half - 1)


class T5SelfAttention:
    """T5 does not divide the scores by the square root of the head size.

    w["q"], w["k"], w["v"]: [inner, D] and w["o"]: [D, inner] as stored by torch Linear;
    w["bias"]: [n_buckets, heads]. mask: [L] of 1 (word) and 0 (padding), at least one word.
    """

    def __init__(self, w, heads, far=128):
        self.w, self.heads, self.far = w, heads, far

    def bias(self, L):
        table = self.w["bias"]
        out = np.empty((self.heads, L, L))
        for i in range(L):
            for j in range(L):
                out[:, i, j] = table[bucket_of(j - i, table.shape[0], self.far)]
        return out

    def __call__(self, x, mask):
        L = x.shape[0]
        q, k, v = (np.stack(np.split(x @ self.w[n].T, self.heads, axis=1)) for n in "qkv")
        s = q @ k.swapaxes(1, 2) + self.bias(L)
        s = np.where(np.asarray(mask, bool), s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        return np.concatenate(list(p @ v), axis=1) @ self.w["o"].T
