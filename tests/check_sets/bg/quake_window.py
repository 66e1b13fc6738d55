"""Seismic phase picking, NumPy inference part.

Local causal attention over the trace: a sample sees itself and the `span - 1` samples
before it, i.e. `span` samples in all.  A linear penalty grows with the distance to the
past (ALiBi), the steepest head first: slopes 1/2, 1/4, 1/8 ...
"""
import numpy as np

RATE_HZ = 100


def slopes(n_heads):
    return 0.5 ** np.arange(1, n_heads + 1)


def allowed(n, span):
    """(n, n) bool, True = row may look at column."""
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    return (j <= i) & (i - j <= span)


def softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


class TraceAttention:
    """weights: dict with 'wq','wk','wv' (C, H, d) and 'wo' (H, d, C)."""

    def __init__(self, weights, span):
        self.w = weights
        self.span = span
        self.heads, self.d = weights["wq"].shape[1:]

    def __call__(self, trace):
        """trace (n, C) -> (n, C)"""
        n = trace.shape[0]
        q = np.einsum("nc,chd->hnd", trace, self.w["wq"])
        k = np.einsum("nc,chd->hnd", trace, self.w["wk"])
        v = np.einsum("nc,chd->hnd", trace, self.w["wv"])
        s = q @ k.transpose(0, 2, 1) / self.d ** 0.5
        back = np.arange(n)[:, None] - np.arange(n)[None, :]
        s = s + slopes(self.heads)[:, None, None] * back
        s = np.where(allowed(n, self.span), s, -np.inf)
        y = softmax(s) @ v
        return np.einsum("hnd,hdc->nc", y, self.w["wo"])


def pick(prob, threshold=0.5):
    """First sample above the threshold, in seconds (None when there is none)."""
    hit = np.flatnonzero(prob > threshold)
    return hit[0] / RATE_HZ if hit.size else None


def random_weights(c, h, d, seed=0):
    g = np.random.default_rng(seed)
    w = {n: g.normal(size=(c, h, d)) / c ** 0.5 for n in ("wq", "wk", "wv")}
    w["wo"] = g.normal(size=(h, d, c)) / (h * d) ** 0.5
    return w


if __name__ == "__main__":
    att = TraceAttention(random_weights(3, 2, 4), span=20)
    print(att(np.random.default_rng(1).normal(size=(200, 3))).std())
