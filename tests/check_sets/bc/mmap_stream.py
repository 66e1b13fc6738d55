"""Attention over a key/value log that does not fit in memory.

The log is a pair of np.memmap files written by the ingest job; queries are torch tensors.
Only one chunk of the log is resident at a time.
"""
import os

import numpy as np
import torch


class VectorLog:
    def __init__(self, path, dim, dtype=np.float32):
        self.path, self.dim, self.dtype = path, dim, dtype

    def _file(self, name):
        return os.path.join(self.path, name + ".bin")

    def write(self, keys, values):
        for name, a in (("k", keys), ("v", values)):
            np.ascontiguousarray(a, self.dtype).tofile(self._file(name))

    def open(self):
        return tuple(
            np.memmap(self._file(n), self.dtype, "r").reshape(-1, self.dim) for n in ("k", "v")
        )


def stream_attention(q, keys, values, chunk=1024):
    """softmax(q K^T / sqrt(d)) V in one pass over array-likes keys and values (N, d).

    q is a tensor (n, d). The result does not depend on the chunk length, except for
    rounding.
    """
    n, d = q.shape
    top = q.new_full((n, 1), float("-inf"))
    den = q.new_zeros(n, 1)
    acc = q.new_zeros(n, values.shape[1])
    for a in range(0, len(keys), chunk):
        k = torch.from_numpy(np.array(keys[a : a + chunk])).to(q)
        v = torch.from_numpy(np.array(values[a : a + chunk])).to(q)
        s = q @ k.T / d**0.5
        new_top = torch.maximum(top, s.amax(dim=1, keepdim=True))
        p = torch.exp(s - new_top)
        fade = torch.exp(top - new_top)
        den = den * fade + p.sum(dim=1, keepdim=True)
        acc = acc + p @ v
        top = new_top
    return acc / den


def answer(log: VectorLog, q: torch.Tensor) -> torch.Tensor:
    keys, values = log.open()
    return stream_attention(q, keys, values, chunk=max(1, 2**20 // log.dim))
