"""Wind-turbine vibration model, edge inference (NumPy).

Causal attention with ALiBi and no position vectors.  For a number of heads
that is not a power of two the slopes follow the published rule: those of the
nearest lower power of two p, 2^(-8/p), 2^(-16/p), ..., then every second one
of the series for 2p until there are enough.

The edge box keeps keys and values of past seconds in `self.past`, so new
seconds can be appended in pieces of any length.
"""
import numpy as np


def head_slopes(n):
    def series(p):
        start = 2.0 ** (-8.0 / p)
        return [start ** (i + 1) for i in range(p)]

    p = 1 << (n.bit_length() - 1)
    if p == n:
        return np.array(series(n))
    return np.array(series(p) + series(2 * p)[0::2][: n - p])


class VibrationEdge:
    def __init__(self, w, n_heads=3):
        self.w = w
        self.n_heads = n_heads
        self.slopes = head_slopes(n_heads)
        self.past = None

    def feed(self, x):
        """x (seconds, dim): new seconds -> (seconds, dim)"""
        n, dim = x.shape
        hd = dim // self.n_heads
        q, k, v = np.split(x @ self.w["qkv"] + self.w["qkv_b"], 3, axis=1)
        q, k, v = (a.reshape(n, self.n_heads, hd) for a in (q, k, v))
        if self.past is not None:
            k = np.concatenate([self.past[0], k])
            v = np.concatenate([self.past[1], v])
        self.past = (k, v)

        total = len(k)
        at = np.arange(total - n, total)
        dist = at[:, None] - np.arange(total)[None, :]
        score = np.einsum("ihd,jhd->hij", q, k) * hd ** -0.5
        score = score - self.slopes[:, None, None] * dist
        score = np.where(dist < 0, -np.inf, score)
        score = np.exp(score - score.max(-1, keepdims=True))
        prob = score / score.sum(-1, keepdims=True)
        y = np.einsum("hij,jhd->ihd", prob, v).reshape(n, dim)
        return x + y @ self.w["out"]


def demo_weights(dim=12, seed=5):
    g = np.random.default_rng(seed)
    return {
        "qkv": g.normal(size=(dim, 3 * dim)) / dim ** 0.5,
        "qkv_b": g.normal(size=3 * dim) * 0.1,
        "out": g.normal(size=(dim, dim)) / dim ** 0.5,
    }


if __name__ == "__main__":
    edge = VibrationEdge(demo_weights())
    g = np.random.default_rng(0)
    for length in (4, 1, 3):
        print(edge.feed(g.normal(size=(length, 12))).shape)
