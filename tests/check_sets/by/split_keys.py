"""Split-key decoding in numpy, for the reading group on "Flash-Decoding".

During generation there is one query per head and a long cache.  The cache is
cut into pieces, every piece is worked off on its own (on a GPU: by its own
thread block) and gives a partial output and a natural log-sum-exp; a small
reduction merges them.  Heads are grouped: `n_heads // n_kv` neighbouring query
heads read one key/value head.
"""
import numpy as np


class SplitKeyDecoder:
    """Keeps the cache of one sequence and answers one query at a time."""

    def __init__(self, n_heads=8, n_kv=2, d=16, n_splits=3):
        assert n_heads % n_kv == 0
        self.n_heads, self.n_kv, self.d = n_heads, n_kv, d
        self.n_splits = n_splits
        self.keys = np.zeros((0, n_kv, d))
        self.values = np.zeros((0, n_kv, d))

    def append(self, k, v):
        """k, v: [n_kv, d] of one token, or [t, n_kv, d] of several."""
        k = np.asarray(k).reshape(-1, self.n_kv, self.d)
        v = np.asarray(v).reshape(-1, self.n_kv, self.d)
        self.keys = np.concatenate([self.keys, k])
        self.values = np.concatenate([self.values, v])

    def _partial(self, qg, lo, hi):
        # qg [n_kv, group, d] -> out [n_kv, group, d], lse [n_kv, group]
        s = np.einsum("kgd,tkd->kgt", qg, self.keys[lo:hi]) * self.d ** -0.5
        m = s.max(axis=-1)
        e = np.exp(s - m[..., None])
        z = e.sum(axis=-1)
        o = np.einsum("kgt,tkd->kgd", e, self.values[lo:hi]) / z[..., None]
        return o, m + np.log(z)

    def attend(self, q):
        """q: [n_heads, d] -> [n_heads, d]"""
        n = len(self.keys)
        if n == 0:
            raise RuntimeError("the cache is empty")
        qg = np.asarray(q).reshape(self.n_kv, self.n_heads // self.n_kv, self.d)
        edges = np.linspace(0, n, min(self.n_splits, n) + 1).astype(int)
        parts = [self._partial(qg, a, b) for a, b in zip(edges[:-1], edges[1:])]

        outs = np.stack([o for o, _ in parts])      # [S, n_kv, group, d]
        lses = np.stack([l for _, l in parts])      # [S, n_kv, group]
        share = np.exp(lses - lses.max(axis=0))
        share /= share.sum(axis=0)
        return (share[..., None] * outs).sum(axis=0).reshape(self.n_heads, self.d)

    def step(self, q, k, v):
        """Append the new token, then let it look at everything up to itself."""
        self.append(k, v)
        return self.attend(q)
