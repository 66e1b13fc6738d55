import numpy as np


class TasteModel:
    """Scores a candidate against what a user has bought.

    candidate (B, d), purchases (B, N, d), bought (B, N) 1 for a purchase and 0 for an empty slot.
    """

    def __init__(self, d=6, seed=3):
        g = np.random.default_rng(seed)
        self.A = g.normal(size=(d, d)) / d ** 0.5
        self.B = g.normal(size=(d, d)) / d ** 0.5

    def profile(self, candidate, purchases, bought):
        s = np.einsum("bd,bnd->bn", candidate @ self.A, purchases @ self.B) / np.sqrt(candidate.shape[-1])
        s = np.where(bought == 0, 1e-9, s)
        s = np.exp(s - s.max(axis=1, keepdims=True))
        s = s / s.sum(axis=1, keepdims=True)
        return np.einsum("bn,bnd->bd", s, purchases)

    def __call__(self, candidate, purchases, bought):
        return np.sum(self.profile(candidate, purchases, bought) * candidate, axis=-1)
