"""CPU reference of our tiled attention kernel (same loop structure as kernels/fwd.cl, fp32 -> NumPy).

Exact softmax(q k^T / sqrt(d)) v, computed tile by tile with running row statistics so that no
[Lq, Lk] matrix is ever stored.
"""
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TileConfig:
    rows: int = 32
    cols: int = 32

    def row_tiles(self, n):
        for a in range(0, n, self.rows):
            yield slice(a, min(a + self.rows, n))

    def col_tiles(self, n):
        for a in range(0, n, self.cols):
            yield slice(a, min(a + self.cols, n))


class RowState:
    """Running maximum m, denominator l and numerator acc of a row tile."""

    def __init__(self, n, dv):
        self.m = np.full((n, 1), -np.inf, np.float64)
        self.l = np.zeros((n, 1))
        self.acc = np.zeros((n, dv))

    def update(self, s, v):
        m_new = np.maximum(self.m, s.max(axis=1, keepdims=True))
        p = np.exp(s - m_new)
        alpha = np.exp(self.m - m_new)
        self.l = self.l * alpha + p.sum(axis=1, keepdims=True)
        self.acc = self.acc + p @ v
        self.m = m_new

    def finish(self):
        return self.acc / self.l, (self.m + np.log(self.l))[:, 0]


def tiled_attention(q, k, v, cfg=TileConfig()):
    """q [Lq, d], k [Lk, d], v [Lk, dv] -> out [Lq, dv], lse [Lq]"""
    lq, d = q.shape
    out = np.empty((lq, v.shape[1]))
    lse = np.empty(lq)
    scale = 1.0 / np.sqrt(d)
    for r in cfg.row_tiles(lq):
        st = RowState(r.stop - r.start, v.shape[1])
        qt = q[r] * scale
        for c in cfg.col_tiles(len(k)):
            st.update(qt @ k[c].T, v[c])
        out[r], lse[r] = st.finish()
    return out, lse


def heads(x, n):
    l, e = x.shape
    return x.reshape(l, n, e // n).swapaxes(0, 1)


def multi_head(x, wq, wk, wv, wo, n_head, cfg=TileConfig()):
    q, k, v = heads(x @ wq, n_head), heads(x @ wk, n_head), heads(x @ wv, n_head)
    o = [tiled_attention(q[h], k[h], v[h], cfg)[0] for h in range(n_head)]
    return np.concatenate(o, axis=1) @ wo


def bytes_on_chip(cfg, d, itemsize=4):
    """what one work group keeps in local memory"""
    return itemsize * (cfg.rows * d * 2 + cfg.cols * d * 2 + cfg.rows * cfg.cols)
