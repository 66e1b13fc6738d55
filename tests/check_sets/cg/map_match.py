"""Soft map matching: GPS fixes look up road segments.

Every fix asks all the candidate segments of its tile with several heads (one may look
at the heading, another at the distance ...) and each head returns its own weighted mean
of segment features.  Pure numpy, runs on the on-board unit.
"""
import numpy as np


class Linear:
    def __init__(self, rng, n_in, n_out):
        self.w = rng.normal(scale=n_in ** -0.5, size=(n_in, n_out))
        self.b = np.zeros(n_out)

    def __call__(self, x):
        return x @ self.w + self.b


def soft_lookup(q, k, v, blocked):
    """q [I, H, d], k and v [J, H, d], blocked [J] -> [I, H, d]

    blocked segments (closed roads) are never matched.
    """
    n_fix, heads, d = q.shape
    n_seg = k.shape[0]
    logits = np.einsum("ihd,jhd->ihj", q, k) / np.sqrt(d)
    logits[..., blocked] = -np.inf
    flat = logits.reshape(n_fix, heads * n_seg)
    flat = np.exp(flat - flat.max(axis=1, keepdims=True))
    flat /= flat.sum(axis=1, keepdims=True)
    weights = flat.reshape(n_fix, heads, n_seg)
    return np.einsum("ihj,jhd->ihd", weights, v)


class MapMatcher:
    def __init__(self, fix_dim=4, segment_dim=6, width=24, heads=3, seed=0):
        rng = np.random.default_rng(seed)
        self.heads = heads
        self.q = Linear(rng, fix_dim, width)
        self.k = Linear(rng, segment_dim, width)
        self.v = Linear(rng, segment_dim, width)
        self.o = Linear(rng, width, 2)

    def _split(self, x):
        return x.reshape(len(x), self.heads, -1)

    def __call__(self, fixes, segments, closed):
        """fixes [I, 4], segments [J, 6], closed [J] bool -> corrections in metres [I, 2]"""
        closed = np.asarray(closed, dtype=bool)
        if closed.all():
            return np.zeros((len(fixes), 2))
        y = soft_lookup(
            self._split(self.q(fixes)),
            self._split(self.k(segments)),
            self._split(self.v(segments)),
            closed,
        )
        return self.o(y.reshape(len(fixes), -1))
