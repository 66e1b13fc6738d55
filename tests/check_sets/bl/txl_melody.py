"""Transformer-XL for melodies, forward pass in NumPy (the model runs in a plugin without torch).

Relative attention of Dai et al. 2019, eq. (12):

    A[i, j] = (q_i + u) . k_j  +  (q_i + vb) . r_{i - j}

where j runs over the memory and the current segment, and i - j is the distance in notes.
"""
import numpy as np

NOTES = 128 + 2      # midi pitches, hold, rest


def sinusoid(pos, dim):
    """pos (n,) -> (n, dim), [sin | cos] as in the reference code"""
    inv = 1.0 / (10000 ** (np.arange(0.0, dim, 2.0) / dim))
    s = np.outer(pos, inv)
    return np.concatenate([np.sin(s), np.cos(s)], axis=-1)


def masked_softmax(a, mask):
    a = np.where(mask, -np.inf, a)
    a = a - a.max(-1, keepdims=True)
    e = np.exp(a)
    return e / e.sum(-1, keepdims=True)


def rel_shift(x):
    """x (H, Q, K): column c holds the distance K - 1 - c; afterwards column j of row i
    holds the distance between query i and key j."""
    h, q, k = x.shape
    x = np.concatenate([x, np.zeros((h, q, 1))], axis=-1)
    x = x.reshape(h, k + 1, q)
    return x[:, 1:].reshape(h, q, k)


class RelMultiHeadAttn:
    """Causal: note i of the segment sees the whole memory and the notes 0..i of the segment.

    w: dict of arrays  qkv (dim, 3*dim), r (dim, dim), o (dim, dim), u (H, d), vb (H, d)
    """

    def __init__(self, w, n_head):
        self.w, self.n_head = w, n_head
        self.dim = w["o"].shape[0]
        self.d_head = self.dim // n_head

    def split(self, t):
        return t.reshape(t.shape[0], self.n_head, self.d_head).transpose(1, 0, 2)

    def forward(self, x, mem=None):
        """x (Q, dim), mem (M, dim) or None -> (Q, dim)"""
        cat = x if mem is None else np.concatenate([mem, x], axis=0)
        qlen, klen = len(x), len(cat)
        q, k, v = (self.split(t) for t in np.split(cat @ self.w["qkv"], 3, axis=-1))
        q = q[:, -qlen:]
        r = self.split(sinusoid(np.arange(klen - 1, -1, -1.0), self.dim) @ self.w["r"])

        ac = (q + self.w["u"][:, None]) @ k.transpose(0, 2, 1)
        bd = rel_shift((q + self.w["vb"][:, None]) @ r.transpose(0, 2, 1))
        score = (ac + bd) / np.sqrt(self.d_head)

        mask = np.triu(np.ones((qlen, klen), bool), k=1 + klen - qlen)
        out = masked_softmax(score, mask) @ v
        return out.transpose(1, 0, 2).reshape(qlen, self.dim) @ self.w["o"]


class MelodyXL:
    def __init__(self, weights, n_layer, n_head, mem_len=32):
        self.emb = weights["emb"]
        self.layers = [RelMultiHeadAttn(weights[i], n_head) for i in range(n_layer)]
        self.mem_len = mem_len
        self.mems = [None] * n_layer

    def step(self, notes):
        x = self.emb[notes]
        for i, layer in enumerate(self.layers):
            prev = self.mems[i]
            self.mems[i] = (x if prev is None else np.concatenate([prev, x]))[-self.mem_len:]
            x = x + layer.forward(x, prev)
        return x @ self.emb.T


def init(rng, dim, n_layer, n_head):
    g = lambda *s: rng.normal(size=s) / np.sqrt(s[0])
    w = {"emb": g(NOTES, dim)}
    for i in range(n_layer):
        w[i] = dict(qkv=g(dim, 3 * dim), r=g(dim, dim), o=g(dim, dim), u=g(n_head, dim // n_head), vb=g(n_head, dim // n_head))
    return w


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    xl = MelodyXL(init(rng, 32, 2, 4), 2, 4)
    for _ in range(3):
        print(xl.step(rng.integers(0, NOTES, 8)).argmax(-1))
