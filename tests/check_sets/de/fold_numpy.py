"""Residue encoder, rewritten from our torch model for a machine without a GPU."""
import numpy as np


def softmax(z, axis=-1):
    z = z - z.max(axis=axis, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=axis, keepdims=True)


class ResidueEncoder:
    """x (B, L, D) -> (B, L, D). Multi-head scaled dot-product self-attention:
    head h uses columns h*D/H ... (h+1)*D/H - 1 of the projections."""

    def __init__(self, D, H, seed=0):
        g = np.random.default_rng(seed)
        self.D, self.H = D, H
        self.Wq, self.Wk, self.Wv, self.Wo = g.normal(0, D ** -0.5, (4, D, D))
        self.bq, self.bk, self.bv, self.bo = g.normal(0, 0.02, (4, D))

    def heads(self, t):
        B, L, D = t.shape
        return t.reshape(B, self.H, L, D // self.H)

    def __call__(self, x, present=None):
        """present: (B, L) bool, at least one residue per chain"""
        B, L, D = x.shape
        q = self.heads(x @ self.Wq + self.bq)
        k = self.heads(x @ self.Wk + self.bk)
        v = self.heads(x @ self.Wv + self.bv)
        s = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(k.shape[2])
        if present is not None:
            s = np.where(present[:, None, None, :], s, -1e30)
        y = np.einsum("bhij,bhjd->bihd", softmax(s), v).reshape(B, L, D)
        return x + y @ self.Wo + self.bo
