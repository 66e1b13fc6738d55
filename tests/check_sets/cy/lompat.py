"""Perhatian berlubang (dilated) untuk deret curah hujan."""
import numpy as np


class Lompat:
    """Posisi t melihat t, t - r, t - 2r, ... paling banyak n buah (termasuk t).

    x: (B, L, dim) -> (B, L, dim). Kunci dikumpulkan, jadi biaya O(L * n).
    """

    def __init__(self, dim, kepala, n=4, r=3, benih=0):
        g = np.random.default_rng(benih)
        self.n, self.r, self.kepala = n, r, kepala
        self.Wq, self.Wk, self.Wv, self.Wo = g.normal(0, 1 / np.sqrt(dim), (4, dim, dim))

    def __call__(self, x):
        B, L, dim = x.shape
        dk = dim // self.kepala
        q = (x @ self.Wq).reshape(B, L, self.kepala, dk)
        k = (x @ self.Wk).reshape(B, L, self.kepala, dk)
        v = (x @ self.Wv).reshape(B, L, self.kepala, dk)

        lihat = np.arange(L)[:, None] - self.r * np.arange(self.n)[None, :]    # (L, n)
        ada = lihat >= 0
        aman = np.where(ada, lihat, 0)
        kk, vv = k[:, aman], v[:, aman]                                        # (B, L, n, H, dk)

        s = np.einsum("blhd,blnhd->blhn", q, kk) * dk ** -0.5
        s = np.where(ada[None, :, None, :], s, -np.inf)
        s -= s.max(-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(-1, keepdims=True)
        y = np.einsum("blhn,blnhd->blhd", p, vv)
        return y.reshape(B, L, dim) @ self.Wo
