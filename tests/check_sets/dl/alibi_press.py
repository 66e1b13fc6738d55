"""ALiBi decoding in NumPy, as "Train Short, Test Long" has it, any number of heads.

logit(i, j) = q_i . k_j / sqrt(d) - slope_h * (i - j)   for j <= i.

Slopes: with n a power of two they are 2**(-8/n), 2**(-16/n), ...; for other n take those of
the next lower power of two p, then every other one (1st, 3rd, ...) of those of 2p.
"""
import numpy as np


def slopes(n):
    def pure(p):
        return [2.0 ** (-8.0 * (i + 1) / p) for i in range(p)]

    p = 1 << (n.bit_length() - 1)
    return np.array(pure(p) + pure(2 * p)[0::2][: n - p])


class AlibiSession:
    """Holds the keys and values of one conversation: lists of (H, d) arrays."""

    def __init__(self, heads):
        self.m = slopes(heads)
        self.keys, self.values = [], []

    def feed(self, q, k, v):
        """q, k, v: (T, H, d), the next T tokens.  Returns (T, H, d).
        Every token attends to the earlier ones of the conversation and to itself."""
        out = np.empty(v.shape)
        for t in range(q.shape[0]):
            self.keys.append(k[t])
            self.values.append(v[t])
            K, V = np.stack(self.keys), np.stack(self.values)
            n = len(self.keys)
            s = np.einsum("hd,nhd->hn", q[t], K) / np.sqrt(q.shape[-1])
            s = s + self.m[:, None] * np.arange(1 - n, 1)[None, :]
            s = np.exp(s - s.max(axis=1, keepdims=True))
            out[t] = np.einsum("hn,nhd->hd", s / s.sum(axis=1, keepdims=True), V)
        return out
