"""Soft window of A. Graves (2013), as we use it to drive a speech synthesiser.

phonemes (U, C) one-hot or embedded; the window moves to the right while the
synthesiser runs.  With (a, b, dk) = exp(W h + bias) split in three parts of K:

    kappa_t  = kappa_{t-1} + dk_t
    phi(t,u) = sum_k a_k exp(-b_k (kappa_k - u)^2),   u = 0 .. U-1
    window_t = sum_u phi(t,u) * phonemes[u]

This is location based: phi depends on the position only, there is no softmax,
and phi is *not* normalised over u (the paper doesn't do it either).
"""
import numpy as np


class SoftWindow:
    def __init__(self, hidden, n_mix=3, seed=0):
        g = np.random.default_rng(seed)
        self.K = n_mix
        self.W = g.normal(0, 0.3, (3 * n_mix, hidden))
        self.bias = np.concatenate([np.zeros(n_mix), np.zeros(n_mix), np.full(n_mix, -1.0)])

    def start(self):
        """initial position of the K bumps"""
        return np.zeros(self.K)

    def step(self, h, kappa, phonemes):
        """h (hidden,), kappa (K,) -> window (C,), new kappa (K,), phi (U,)"""
        a, b, dk = np.split(np.exp(self.W @ h + self.bias), 3)
        kappa = kappa + dk
        u = np.arange(len(phonemes))
        phi = (a[:, None] * np.exp(-b[:, None] * (kappa[:, None] - u[None, :]) ** 2)).sum(0)
        return phi @ phonemes, kappa, phi

    def finished(self, phi, U):
        """heuristic of the paper: the bump one past the end outweighs all others"""
        return bool(phi.argmax() == U - 1)

    def run(self, hs, phonemes):
        """hs (T, hidden) -> windows (T, C) and alignment (T, U)"""
        kappa, ws, al = self.start(), [], []
        for h in hs:
            w, kappa, phi = self.step(h, kappa, phonemes)
            ws.append(w)
            al.append(phi)
        return np.stack(ws), np.stack(al)
