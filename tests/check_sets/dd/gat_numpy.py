"""Graph attention layer (Velickovic et al.) on one molecule, forward pass only."""
import numpy as np


class GATLayer:
    def __init__(self, fan_in, fan_out, heads=3, seed=0):
        g = np.random.default_rng(seed)
        self.W = g.normal(size=(heads, fan_in, fan_out)) / np.sqrt(fan_in)
        self.a_self = g.normal(size=(heads, fan_out)) / np.sqrt(fan_out)
        self.a_nbr = g.normal(size=(heads, fan_out)) / np.sqrt(fan_out)

    def coefficients(self, h, adj):
        left = np.einsum("hnf,hf->hn", h, self.a_self)
        right = np.einsum("hnf,hf->hn", h, self.a_nbr)
        e = left[:, :, None] + right[:, None, :]
        e = np.where(e > 0, e, 0.2 * e)
        linked = (adj > 0) | np.eye(len(adj), dtype=bool)
        e = np.where(linked, e, -np.inf)
        e = np.exp(e - e.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def __call__(self, atoms, adj):
        """atoms: (N, fan_in), adj: (N, N) bond matrix (own loops are added) -> (N, heads * fan_out)"""
        h = np.einsum("nf,hfo->hno", atoms, self.W)
        alpha = self.coefficients(h, adj)
        out = alpha @ h
        out = np.where(out > 0, out, np.expm1(np.minimum(out, 0)))
        return out.transpose(1, 0, 2).reshape(len(atoms), -1)
