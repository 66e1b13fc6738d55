"""Streaming attention for a carillon melody model, NumPy only (runs on the tower's old PC).

The score matrix is never stored: keys are visited in tiles and the softmax is kept
as a running (max, sum, accumulator) triple.  Position comes from ALiBi.
"""
import numpy as np

TILE = 32


def alibi_slopes(n_heads):
    """Slopes for a power-of-two number of heads (the model has 2, 4 or 8)."""
    if n_heads & (n_heads - 1):
        raise ValueError("n_heads must be a power of two")
    return 2.0 ** (-8.0 * np.arange(1, n_heads + 1) / n_heads)


def streaming_attention(q, k, v, tile=TILE):
    """Causal attention with ALiBi.

    q: [H, n, d], k: [H, m, d], v: [H, m, e] with m >= n; the last query lines up
    with the last key.  Returns [H, n, e].
    """
    H, n, d = q.shape
    m = k.shape[1]
    past = m - n
    slope = alibi_slopes(H)[:, None, None]
    rows = past + np.arange(n)

    top = np.full((H, n, 1), -np.inf)
    den = np.zeros((H, n, 1))
    acc = np.zeros((H, n, v.shape[-1]))
    for lo in range(0, m, tile):
        hi = min(lo + tile, m)
        cols = np.arange(lo, hi)
        dist = rows[:, None] - cols[None, :]
        s = q @ np.swapaxes(k[:, lo:hi], 1, 2) / np.sqrt(d) - slope * dist
        s = np.where(dist >= 0, s, -np.inf)
        new_top = np.maximum(top, s.max(-1, keepdims=True))
        # the first tile holds key 0, which every row may see: new_top is finite
        p = np.exp(s - new_top)
        keep = np.exp(top - new_top)
        den = den * keep + p.sum(-1, keepdims=True)
        acc = acc * keep + p @ v[:, lo:hi]
        top = new_top
    return acc / den


class BellModel:
    """One layer, tied embedding; ``weights`` is a dict of arrays from training."""

    def __init__(self, weights, n_heads):
        self.w, self.h = weights, n_heads

    def _heads(self, x):
        return x.reshape(x.shape[0], self.h, -1).transpose(1, 0, 2)

    def logits(self, notes):
        x = self.w["bell"][notes]
        q, k, v = (self._heads(x @ self.w[c]) for c in ("wq", "wk", "wv"))
        y = streaming_attention(q, k, v).transpose(1, 0, 2).reshape(len(notes), -1)
        return (x + y @ self.w["wo"]) @ self.w["bell"].T


def random_weights(n_bells=23, width=16, seed=0):
    r = np.random.default_rng(seed)
    w = {c: r.normal(size=(width, width)) / np.sqrt(width) for c in ("wq", "wk", "wv", "wo")}
    w["bell"] = r.normal(size=(n_bells, width))
    return w


if __name__ == "__main__":
    model = BellModel(random_weights(), 4)
    print(model.logits(np.array([3, 5, 5, 8, 1])).argmax(-1))
