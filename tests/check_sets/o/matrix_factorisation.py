import numpy as np


class MatrixFactorisation:
    """Ratings of users for items from two tables of factors and biases."""

    def __init__(self, users=8, items=12, factors=4, seed=0):
        r = np.random.default_rng(seed)
        self.P = r.normal(0, 0.1, (users, factors))
        self.Q = r.normal(0, 0.1, (items, factors))
        self.bu, self.bi, self.mu = np.zeros(users), np.zeros(items), 3.5

    def __call__(self, u, i):
        return self.mu + self.bu[u] + self.bi[i] + np.sum(self.P[u] * self.Q[i], axis=-1)
