"""Linear attention as a recurrent decoder of neural spike trains.

NumPy port of Katharopoulos et al. (2020), eq. 18-20, phi(x) = elu(x) + 1.
The fast-weight view: every time bin writes an outer product into S.
"""
import numpy as np
from collections import namedtuple

Memory = namedtuple("Memory", "S z")


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def empty_memory(heads, d, e):
    return Memory(np.zeros((heads, d, e)), np.zeros((heads, d)))


def linear_attention(q, k, v, mem=None, eps=1e-12):
    """Causal: bin t sees the bins 0..t and whatever `mem` saw before.

    q, k: (T, H, d)  v: (T, H, e)  ->  (T, H, e), Memory

    There is no softmax here, and no 1/sqrt(d): the kernel is phi(q).phi(k).
    """
    T, H, d = q.shape
    S, z = empty_memory(H, d, v.shape[-1]) if mem is None else mem
    S, z = S.copy(), z.copy()
    fq, fk = phi(q), phi(k)
    out = np.empty((T, H, v.shape[-1]))
    for t in range(T):
        S += fk[t][:, :, None] * v[t][:, None, :]
        z += fk[t]
        num = np.einsum("hd,hde->he", fq[t], S)
        den = np.einsum("hd,hd->h", fq[t], z)
        out[t] = num / (den + eps)[:, None]
    return out, Memory(S, z)


class SpikeDecoder:
    """Poisson counts of n_units -> cursor velocity, one layer."""

    def __init__(self, n_units, heads=2, d=8, seed=0):
        g = np.random.default_rng(seed)
        self.heads, self.d = heads, d
        self.W = {n: g.normal(0, n_units ** -0.5, (n_units, heads * d)) for n in "qkv"}
        self.R = g.normal(0, (heads * d) ** -0.5, (heads * d, 2))
        self.mem = None

    def reset(self):
        self.mem = None

    def step(self, counts):
        x = np.sqrt(np.atleast_2d(counts))          # variance stabilising
        q, k, v = (np.reshape(x @ self.W[n], (len(x), self.heads, self.d)) for n in "qkv")
        y, self.mem = linear_attention(q, k, v, self.mem)
        return y.reshape(len(x), -1) @ self.R


if __name__ == "__main__":
    dec = SpikeDecoder(40)
    rate = np.random.default_rng(1).poisson(3.0, (100, 40))
    print(dec.step(rate[:60]).shape, dec.step(rate[60:]).shape)
