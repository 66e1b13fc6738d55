import numpy as np


class MemoryHop:
    """One hop of an end-to-end memory network (Sukhbaatar et al. 2015): p_i = softmax(u^T m_i), o = sum_i p_i c_i, u' = Hu + o.

    The inner product is not scaled, as in the paper.
    """

    def __init__(self, dim, seed=0):
        self.H = np.random.default_rng(seed).normal(size=(dim, dim)) / np.sqrt(dim)

    def __call__(self, u, m, c):
        # u (batch, dim), m and c (batch, slots, dim)
        s = np.einsum("bd,bsd->bs", u, m)
        s = s - s.max(-1, keepdims=True)
        p = np.exp(s)
        p = p / p.sum(-1, keepdims=True)
        return u @ self.H.T + np.einsum("bs,bsd->bd", p, c)
