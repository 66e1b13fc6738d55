"""Exact attention over long reads (nanopore, 10-100 kb) without the full score matrix.

Keys are visited chunk by chunk; every chunk gives a partial output and the log-sum-exp
of its scores, and the partial results are merged at the end (as in FlashDecoding /
ring attention). The result is the same as softmax(q k^T / sqrt(d)) v over the
called bases only: positions with called == False (gaps in the pod5 file, filled with
zeros-quality bases by the caller) take no part.

numpy only, because it runs on the sequencing box.
"""
import numpy as np

LOG2E = 1.4426950408889634


def chunk_attention(q, k, v, called):
    """q [H, Lq, D], k/v [H, C, D], called [C] -> out [H, Lq, D], lse [H, Lq]

    Powers of two are faster than np.exp on this machine, so the scores are taken in
    units of log2.
    """
    s = np.einsum("hqd,hkd->hqk", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    s = s * called[None, None, :]
    m = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - m)
    total = p.sum(axis=-1, keepdims=True)
    out = np.einsum("hqk,hkd->hqd", p / total, v)
    lse = (m + np.log2(total))[..., 0]
    return out, lse


def merge(outs, lses):
    """Combine partial outputs: weights are proportional to exp(lse)."""
    lses = np.stack(lses)
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return np.einsum("chq,chqd->hqd", w, np.stack(outs))


def long_attention(q, k, v, called, chunk=512):
    outs, lses = [], []
    for start in range(0, k.shape[1], chunk):
        part = slice(start, start + chunk)
        if not called[part].any():
            continue
        o, lse = chunk_attention(q, k[:, part], v[:, part], called[part])
        outs.append(o)
        lses.append(lse)
    return merge(outs, lses)


class BasecallRefiner:
    """One layer on top of the basecaller's embedding; weights from a .npz file."""

    def __init__(self, weights, heads, chunk=512):
        self.w, self.heads, self.chunk = weights, heads, chunk

    def _split(self, t):
        return t.reshape(len(t), self.heads, -1).transpose(1, 0, 2)

    def __call__(self, queries, read, called):
        """queries [Lq, C] (sites of interest), read [L, C], called [L] bool -> [Lq, C]"""
        q = self._split(queries @ self.w["q"])
        k = self._split(read @ self.w["k"])
        v = self._split(read @ self.w["v"])
        y = long_attention(q, k, v, called, self.chunk)
        return queries + y.transpose(1, 0, 2).reshape(queries.shape) @ self.w["o"]
