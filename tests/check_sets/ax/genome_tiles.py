"""Long range attention over genome bins without the L x L matrix (NumPy, runs on the login node).

Contact scale inputs have 10^5 bins, so rows and columns are worked off in tiles; for each tile of
queries a running maximum, a running denominator and a running numerator are kept.  The result is
ordinary softmax attention.  ``assembled`` marks the bins that are not gaps of the assembly (N's).
"""
from __future__ import annotations

import numpy as np

BASES = {c: i for i, c in enumerate("ACGT")}


def one_hot(seq: str) -> np.ndarray:
    out = np.zeros((len(seq), 4), np.float32)
    for i, c in enumerate(seq.upper()):
        if c in BASES:
            out[i, BASES[c]] = 1.0
    return out


def bin_features(seq: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """base composition and dinucleotide CpG rate for each bin, and the bins that are assembled"""
    n = len(seq) // size
    x = one_hot(seq[: n * size]).reshape(n, size, 4)
    cpg = np.array([seq[i * size:(i + 1) * size].upper().count("CG") for i in range(n)]) / size
    comp = x.mean(1)
    return np.concatenate([comp, cpg[:, None]], 1), comp.sum(1) > 0.5


def tiled_attention(q, k, v, assembled=None, tile_q=64, tile_k=64):
    """q [H, N, D], k [H, M, D], v [H, M, E], assembled [M] bool -> [H, N, E]

    Rows are zero if no bin at all is assembled.
    """
    heads, n, d = q.shape
    m = k.shape[1]
    if assembled is None:
        assembled = np.ones(m, bool)
    q = q / np.sqrt(d)
    out = np.zeros((heads, n, v.shape[-1]), np.result_type(q, v))
    for i in range(0, n, tile_q):
        qi = q[:, i:i + tile_q]
        top = np.full(qi.shape[:2], -np.inf)
        den = np.zeros(qi.shape[:2])
        num = np.zeros((*qi.shape[:2], v.shape[-1]))
        for j in range(0, m, tile_k):
            ok = assembled[j:j + tile_k]
            if not ok.any():
                continue
            s = qi @ k[:, j:j + tile_k].swapaxes(1, 2)
            s = np.where(ok, s, -np.inf)
            new_top = np.maximum(top, s.max(-1))
            e = np.exp(s - new_top[..., None])
            den = den * np.exp(top - new_top) + e.sum(-1)
            num = num + e @ v[:, j:j + tile_k]
            top = new_top
        alive = den > 0
        out[:, i:i + tile_q][alive] = num[alive] / den[alive][:, None]
    return out


class GenomeBlock:
    def __init__(self, rng, width=32, heads=4):
        self.h = heads
        g = lambda *s: rng.standard_normal(s) / np.sqrt(s[0])
        self.wq, self.wk, self.wv, self.wo = g(width, width), g(width, width), g(width, width), g(width, width)
        self.w1, self.w2 = g(width, 2 * width), g(2 * width, width)

    def _norm(self, x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def _heads(self, x):
        return x.reshape(len(x), self.h, -1).swapaxes(0, 1)

    def __call__(self, x, assembled, tile=64):
        y = self._norm(x)
        a = tiled_attention(*(self._heads(y @ w) for w in (self.wq, self.wk, self.wv)), assembled, tile, tile)
        x = x + a.swapaxes(0, 1).reshape(x.shape) @ self.wo
        return x + np.maximum(self._norm(x) @ self.w1, 0) @ self.w2


class TrackModel:
    """Predicts ``tracks`` signal tracks (ATAC, CTCF, ...) for each bin."""

    def __init__(self, seed=0, width=32, depth=2, tracks=3):
        rng = np.random.default_rng(seed)
        self.inp = rng.standard_normal((5, width))
        self.blocks = [GenomeBlock(rng, width) for _ in range(depth)]
        self.head = rng.standard_normal((width, tracks)) / np.sqrt(width)

    def __call__(self, seq: str, bin_size=128):
        feats, assembled = bin_features(seq, bin_size)
        x = feats @ self.inp
        for b in self.blocks:
            x = b(x, assembled)
        return np.log1p(np.exp(x @ self.head)), assembled
