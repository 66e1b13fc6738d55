"""Tiled exact attention for very long audio contexts (numpy).

The engine walks over the keys tile by tile and keeps per query a running maximum,
a running denominator and a running numerator, so memory does not grow with the
number of keys.  The result equals softmax(q k^T / sqrt(d)) v over all frames that
``lengths`` declares valid.
"""
import numpy as np


class RunningSoftmax:
    """State of the tiled computation for queries of shape (B, H, T, d)."""

    def __init__(self, batch, heads, queries, dim):
        self.top = np.full((batch, heads, queries, 1), -np.inf)
        self.denominator = np.zeros((batch, heads, queries, 1))
        self.numerator = np.zeros((batch, heads, queries, dim))

    def update(self, scores, values, valid):
        """scores (B, H, T, s), values (B, H, s, d), valid (B, 1, 1, s)"""
        scores = np.where(valid, scores, -np.inf)
        top = np.maximum(self.top, scores.max(axis=-1, keepdims=True))
        p = np.exp(scores - top)
        fade = np.exp(self.top - top)
        self.denominator = self.denominator * fade + p.sum(axis=-1, keepdims=True)
        self.numerator = self.numerator + p @ values
        self.top = top

    def result(self):
        return self.numerator / self.denominator


class TileEngine:
    def __init__(self, heads=4, tile=8):
        self.heads = heads
        self.tile = tile

    def _split(self, x):
        b, n, c = x.shape
        return x.reshape(b, n, self.heads, c // self.heads).transpose(0, 2, 1, 3)

    def attend(self, q, k, v, lengths=None):
        """q (B, T, C), k and v (B, S, C), lengths (B,) >= 1 -> (B, T, C)"""
        q, k, v = self._split(q), self._split(k), self._split(v)
        b, h, t, d = q.shape
        s = k.shape[2]
        if lengths is None:
            lengths = np.full(b, s)
        valid = np.arange(s)[None, :] < np.asarray(lengths)[:, None]

        state = RunningSoftmax(b, h, t, d)
        for lo in range(0, s, self.tile):
            part = slice(lo, lo + self.tile)
            scores = q @ k[:, :, part].swapaxes(-1, -2) / np.sqrt(d)
            state.update(scores, v[:, :, part], valid[:, None, None, part])
        return state.result().transpose(0, 2, 1, 3).reshape(b, t, h * d)


def transcribe_layer(weights, x, memory, lengths=None, heads=4):
    """Cross attention of decoder states x to the encoder output ``memory``."""
    engine = TileEngine(heads)
    y = engine.attend(x @ weights["q"], memory @ weights["k"], memory @ weights["v"], lengths)
    return x + y @ weights["o"]
