"""Blog post code: "You never need the whole row" - online softmax with numpy.

`OnlineAttention` walks over the keys in chunks and keeps three things per query:
the largest score so far, the sum of exponentials relative to it, and the
weighted sum of values.  The result is the exact softmax attention.
"""
import numpy as np


class OnlineAttention:
    def __init__(self, chunk=4, causal=False):
        self.chunk = chunk
        self.causal = causal

    def start(self, q, d_v):
        lead = q.shape[:-1]
        self.top = np.full(lead, -np.inf)
        self.total = np.zeros(lead)
        self.acc = np.zeros(lead + (d_v,))

    def feed(self, q, k, v, first_key):
        s = np.einsum("...qd,...kd->...qk", q, k) / np.sqrt(q.shape[-1])
        if self.causal:
            rows = np.arange(q.shape[-2])[:, None]
            cols = first_key + np.arange(k.shape[-2])[None, :]
            s = np.where(cols <= rows, s, -np.inf)
        top = np.maximum(self.top, s.max(axis=-1))
        shrink = np.exp(self.top - top)
        e = np.exp(s - top[..., None])
        self.total = self.total + e.sum(axis=-1)
        self.acc = self.acc * shrink[..., None] + np.einsum("...qk,...kd->...qd", e, v)
        self.top = top

    def __call__(self, q, k, v):
        """q [..., Lq, d], k [..., Lk, d], v [..., Lk, dv] -> [..., Lq, dv]"""
        if self.causal and q.shape[-2] != k.shape[-2]:
            raise ValueError("causal needs as many queries as keys")
        self.start(q, v.shape[-1])
        for a in range(0, k.shape[-2], self.chunk):
            z = a + self.chunk
            self.feed(q, k[..., a:z, :], v[..., a:z, :], a)
        return self.acc / self.total[..., None]


def multi_head(x, w, n_heads, causal=True, chunk=4):
    """Self-attention of [B, L, D] with w = {"qkv": [D, 3 D], "out": [D, D]}."""
    b, n, d = x.shape
    qkv = (x @ w["qkv"]).reshape(b, n, 3, n_heads, d // n_heads).transpose(2, 0, 3, 1, 4)
    y = OnlineAttention(chunk, causal)(*qkv)
    return y.transpose(0, 2, 1, 3).reshape(b, n, d) @ w["out"]


if __name__ == "__main__":
    g = np.random.default_rng(0)
    w = {"qkv": g.normal(size=(16, 48)) / 4, "out": g.normal(size=(16, 16)) / 4}
    print(multi_head(g.normal(size=(2, 11, 16)), w, 4).shape)
