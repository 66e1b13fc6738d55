"""CPU reference of the chunked prefill (NumPy), used to debug the C++ server.

A stream is opened, chunks are pushed, and read() gives the context vectors of
the newest chunk. Row i of the newest chunk sees all earlier chunks entirely
and of its own chunk the rows 0..i.
"""
from collections import OrderedDict

import numpy as np

MAX_STREAMS = 8


def stable_softmax(a):
    a = a - np.max(a, axis=-1, keepdims=True)
    np.exp(a, out=a)
    a /= np.sum(a, axis=-1, keepdims=True)
    return a


class ChunkedStreams:
    """All arrays are [heads, length, dim]."""

    def __init__(self, heads, dim, max_streams=MAX_STREAMS):
        self.heads, self.dim = heads, dim
        self.max_streams = max_streams
        self._streams = OrderedDict()

    def open(self, sid):
        if len(self._streams) >= self.max_streams:
            self._streams.popitem(last=False)      # drop the oldest
        empty = np.empty((self.heads, 0, self.dim))
        self._streams[sid] = {"k": empty, "v": empty, "chunk": 0}

    def push(self, sid, k, v):
        st = self._streams[sid]
        if k.shape != v.shape or k.shape[0] != self.heads:
            raise ValueError(f"bad chunk {k.shape} / {v.shape}")
        st["k"] = np.concatenate([st["k"], k], axis=1)
        st["v"] = np.concatenate([st["v"], v], axis=1)
        st["chunk"] = k.shape[1]
        return st["k"].shape[1]

    def read(self, sid, q):
        """q [heads, newest chunk, dim] -> same shape"""
        st = self._streams[sid]
        rows, cols = q.shape[1], st["k"].shape[1]
        if rows != st["chunk"]:
            raise ValueError("one query per row of the newest chunk, please")
        logits = np.matmul(q, st["k"].transpose(0, 2, 1)) * (1.0 / np.sqrt(self.dim))
        visible = np.tril(np.ones((rows, cols), dtype=bool))
        logits = np.where(visible[None], logits, -np.inf)
        return np.matmul(stable_softmax(logits), st["v"])


def run_all(q, k, v, chunk):
    """Whole prompt in chunks, outputs glued together."""
    eng = ChunkedStreams(q.shape[0], q.shape[2])
    eng.open("x")
    outs = []
    for a in range(0, q.shape[1], chunk):
        eng.push("x", k[:, a:a + chunk], v[:, a:a + chunk])
        outs.append(eng.read("x", q[:, a:a + chunk]))
    return np.concatenate(outs, axis=1)
