"""Streaming attention over a key/value iterator, for memory-mapped stores.

>>> reader = StreamingReader(block=64)
>>> out = reader.attend(queries, keys, values)

keys and values may be np.memmap; only `block` rows are held at a time.
"""
import numpy as np


class RunningSoftmax:
    """keeps max, denominator and weighted sum for every query row"""

    def __init__(self, n_rows, dim, dtype=np.float64):
        self.peak = np.full(n_rows, -np.inf, dtype)
        self.total = np.zeros(n_rows, dtype)
        self.mix = np.zeros((n_rows, dim), dtype)

    def feed(self, scores, values):
        """scores (rows, n), values (n, dim)"""
        peak = np.maximum(self.peak, scores.max(axis=1))
        shrink = np.exp(self.peak - peak)
        weight = np.exp(scores - peak[:, None])
        self.total = self.total * shrink + weight.sum(axis=1)
        self.mix = self.mix + weight @ values
        self.peak = peak

    def result(self):
        return self.mix / self.total[:, None]

    def logsumexp(self):
        return self.peak + np.log(self.total)


def iter_blocks(keys, values, block):
    for start in range(0, len(keys), block):
        stop = min(start + block, len(keys))
        yield start, np.asarray(keys[start:stop], np.float64), np.asarray(values[start:stop], np.float64)


class StreamingReader:
    def __init__(self, block=8, scale=None, normalize_keys=False):
        self.block, self.scale, self.normalize_keys = block, scale, normalize_keys
        self.last_logsumexp = None

    def attend(self, queries, keys, values, keep=None):
        """
        queries (m, d), keys (n, d), values (n, dv) -> (m, dv)
        keep: optional (n,) bool, rows of the store that may be read (at least one)
        """
        queries = np.asarray(queries, np.float64)
        if len(keys) != len(values):
            raise ValueError("one value per key, please")
        scale = 1 / np.sqrt(queries.shape[1]) if self.scale is None else self.scale
        state = RunningSoftmax(len(queries), values.shape[1])
        for start, k, v in iter_blocks(keys, values, self.block):
            if keep is not None:
                sel = keep[start:start + len(k)]
                if not sel.any():
                    continue
                k, v = k[sel], v[sel]
            if self.normalize_keys:
                k = k / np.maximum(np.linalg.norm(k, axis=1, keepdims=True), 1e-12)
            state.feed(scale * (queries @ k.T), v)
        self.last_logsumexp = state.logsumexp()
        return state.result()


class HopfieldMemory:
    """modern Hopfield retrieval on top: iterate attention with keys = values = patterns"""

    def __init__(self, patterns, beta=4.0, block=16):
        self.patterns = np.asarray(patterns, np.float64)
        self.reader = StreamingReader(block=block, scale=beta)

    def retrieve(self, probe, steps=3):
        x = np.atleast_2d(probe)
        for _ in range(steps):
            x = self.reader.attend(x, self.patterns, self.patterns)
        return x
