"""Modern Hopfield retrieval (Ramsauer et al.), used to clean up noisy spectra."""
import numpy as np


def lse(z):
    m = z.max(axis=-1)
    return m + np.log(np.exp(z - m[..., None]).sum(axis=-1))


class SpectrumMemory:
    def __init__(self, stored, beta=None):
        """stored: (N, d), one clean spectrum per row"""
        self.X = np.asarray(stored, float)
        self.beta = 1 / np.sqrt(self.X.shape[1]) if beta is None else beta

    def energy(self, xi):
        z = self.beta * xi @ self.X.T
        return -lse(z) / self.beta + 0.5 * (xi ** 2).sum(-1)

    def retrieve(self, xi, steps=5, tol=1e-6):
        """xi: (d,) or (M, d) noisy states -> states after the update rule settled"""
        xi = np.array(xi, float)
        for _ in range(steps):
            z = self.beta * xi @ self.X.T
            p = np.exp(z - lse(z)[..., None])
            new = p @ self.X
            done = np.abs(new - xi).max() < tol
            xi = new
            if done:
                break
        return xi
