"""Relative attention of the Music Transformer (Huang et al. 2018), NumPy.

    S = (Q K^T + skew(Q E^T)) / sqrt(d),  causal

E[r] is the embedding of distance  -(max_len - 1) + r , i.e. the last row is
distance 0.  For a sequence of n <= max_len the last n rows are used.
"""
import numpy as np


def skew(qe):
    """[..., n, n] indexed by (i, r) -> [..., n, n] indexed by (i, j).

    Entry (i, j), j <= i, becomes qe[i, n - 1 - (i - j)]; the upper triangle
    holds leftovers that the causal mask removes.
    """
    *lead, n, _ = qe.shape
    x = np.concatenate([np.zeros((*lead, n, 1), qe.dtype), qe], axis=-1)
    return x.reshape(*lead, n + 1, n)[..., 1:, :]


def softmax(x):
    x = x - x.max(-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


class RelativeHeads:
    def __init__(self, params, heads, max_len):
        """params: wq wk wv wo [c, c] and E [heads, max_len, c / heads]."""
        self.p = params
        self.heads = heads
        self.max_len = max_len

    def _split(self, x):
        n, c = x.shape
        return x.reshape(n, self.heads, c // self.heads).transpose(1, 0, 2)

    def __call__(self, x):
        n, c = x.shape
        if n > self.max_len:
            raise ValueError(f"{n} tokens, table made for {self.max_len}")
        q, k, v = (self._split(x @ self.p[w]) for w in ("wq", "wk", "wv"))
        table = self.p["E"][:, self.max_len - n :]
        rel = skew(q @ table.transpose(0, 2, 1))
        s = (q @ k.transpose(0, 2, 1) + rel) / np.sqrt(q.shape[-1])
        s = np.where(np.tri(n, dtype=bool), s, -np.inf)
        y = softmax(s) @ v
        return y.transpose(1, 0, 2).reshape(n, c) @ self.p["wo"]


def make_params(c, heads, max_len, seed=0):
    g = np.random.default_rng(seed)
    p = {w: g.normal(size=(c, c)) / np.sqrt(c) for w in ("wq", "wk", "wv", "wo")}
    p["E"] = g.normal(size=(heads, max_len, c // heads))
    return p


# ---------------------------------------------------------------- event codec
NOTE_ON, NOTE_OFF, SHIFT = 0, 128, 256


def encode(notes, step=0.01):
    """[(start, end, pitch)] -> event ids."""
    ev = [(s, NOTE_ON + p) for s, _, p in notes] + [(e, NOTE_OFF + p) for _, e, p in notes]
    out, now = [], 0.0
    for t, e in sorted(ev):
        gap = int(round((t - now) / step))
        while gap > 0:
            take = min(gap, 100)
            out.append(SHIFT + take - 1)
            gap -= take
        out.append(e)
        now = t
    return out


if __name__ == "__main__":
    ids = encode([(0.0, 0.5, 60), (0.5, 1.0, 64), (0.5, 1.2, 67)])
    emb = np.random.default_rng(1).normal(size=(356, 16))
    layer = RelativeHeads(make_params(16, 2, 32), 2, 32)
    print(layer(emb[ids]).shape)
