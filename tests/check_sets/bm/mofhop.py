"""Completing powder diffraction patterns of metal-organic frameworks.

A dense associative memory ("modern Hopfield network", Ramsauer et al. 2021)
holds one row per known framework.  Retrieval of a damaged pattern is

    xi  <-  X^T softmax(beta * X xi)

repeated until it stands still.  ``beta`` is an inverse temperature that we tune
on a validation split; it is NOT tied to the dimension of the patterns.
"""

import numpy as np


class Standardiser:
    def fit(self, X):
        self.mean = X.mean(axis=0)
        self.std = X.std(axis=0) + 1e-9
        return self

    def fwd(self, X):
        return (X - self.mean) / self.std

    def inv(self, Z):
        return Z * self.std + self.mean


def lse(beta, a):
    top = a.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(beta * (a - top)).sum(axis=-1, keepdims=True)) / beta)[..., 0]


class PatternMemory:
    """
    >>> mem = PatternMemory(beta=8.0).store(np.eye(4))
    >>> mem.recall([[0.9, 0.1, 0.0, 0.0]])[0].argmax()
    0
    """

    def __init__(self, beta=4.0, steps=8, tol=1e-7):
        self.beta, self.steps, self.tol = float(beta), steps, tol
        self.X = None

    def store(self, patterns):
        P = np.array(patterns, dtype=np.float64)
        norm = np.linalg.norm(P, axis=1, keepdims=True)
        if (norm == 0).any():
            raise ValueError("cannot store an empty pattern")
        self.X = P / norm
        return self

    def energy(self, xi):
        """Falls with every step (up to rounding)."""
        M = 1.0
        return (-lse(self.beta, xi @ self.X.T) + 0.5 * (xi * xi).sum(-1)
                + np.log(len(self.X)) / self.beta + 0.5 * M * M)

    def association(self, xi):
        """[n_query, n_stored], rows sum to one."""
        a = self.beta * (xi @ self.X.T)
        a = np.exp(a - a.max(axis=1, keepdims=True))
        return a / a.sum(axis=1, keepdims=True)

    def recall(self, queries, observed=None):
        """queries [n, d].  ``observed`` [n, d] bool: True where the angle was measured;
        measured entries are clamped to their value after every step but the last.
        """
        xi0 = np.array(queries, dtype=np.float64)
        xi = xi0.copy()
        if observed is not None:
            observed = np.asarray(observed, bool)
            xi[~observed] = 0.0
        for step in range(self.steps):
            new = self.association(xi) @ self.X
            moved = np.abs(new - xi).max()
            last = step == self.steps - 1 or moved < self.tol
            if observed is not None and not last:
                new = np.where(observed, xi0, new)
            xi = new
            if last:
                break
        return xi


def bragg_bins(two_theta, intensity, n=64, lo=3.0, hi=50.0):
    idx = ((np.asarray(two_theta) - lo) / (hi - lo) * n).astype(int)
    ok = (idx >= 0) & (idx < n)
    out = np.zeros(n)
    np.add.at(out, idx[ok], np.asarray(intensity)[ok])
    return out


def main():
    g = np.random.default_rng(3)
    bank = g.gamma(0.3, size=(40, 64))
    mem = PatternMemory(beta=25.0).store(bank)
    probe = mem.X[:5].copy()
    seen = g.random(probe.shape) > 0.4
    back = mem.recall(probe, observed=seen)
    print(np.abs(back - mem.X[:5]).max())


if __name__ == "__main__":
    main()
