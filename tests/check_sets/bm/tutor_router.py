"""Mixture of small experts for exercise grading (sparse, top-k, NumPy).

Every student answer (a vector) is sent to k of the n experts.  An expert has a
key vector; the affinity answer . key decides.  The gate is a softmax over the
chosen k affinities, so gates of one answer sum to one.
"""
from dataclasses import dataclass, field

import numpy as np


def softmax(z, axis=-1):
    z = np.exp(z - z.max(axis=axis, keepdims=True))
    return z / z.sum(axis=axis, keepdims=True)


@dataclass
class Expert:
    w1: np.ndarray
    w2: np.ndarray
    served: int = 0

    def __call__(self, x):
        self.served += len(x)
        h = x @ self.w1
        return np.maximum(h, 0) ** 2 @ self.w2


@dataclass
class ExpertRouter:
    dim: int
    n_experts: int = 8
    k: int = 2
    hidden: int = 32
    seed: int = 0
    keys: np.ndarray = field(init=False)
    bias: np.ndarray = field(init=False)
    experts: list = field(init=False)

    def __post_init__(self):
        g = np.random.default_rng(self.seed)
        self.keys = g.normal(0, self.dim ** -0.5, (self.n_experts, self.dim))
        self.bias = np.zeros(self.n_experts)
        self.experts = [
            Expert(g.normal(0, self.dim ** -0.5, (self.dim, self.hidden)),
                   g.normal(0, self.hidden ** -0.5, (self.hidden, self.dim)))
            for _ in range(self.n_experts)
        ]

    def scores(self, x):
        return x @ self.keys.T

    def __call__(self, x):
        """x [n, dim] -> [n, dim].  ``bias`` only steers the choice, never the gate."""
        s = self.scores(x)
        chosen = np.argpartition(-(s + self.bias), self.k - 1, axis=1)[:, : self.k]
        gates = softmax(np.take_along_axis(s, chosen, axis=1))
        out = np.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = np.nonzero(chosen == e)
            if len(row):
                out[row] += gates[row, slot, None] * expert(x[row])
        return out

    def rebalance(self, x, rate=1e-2):
        """Loss-free balancing: nudge the bias of the over- and underused."""
        chosen = np.argpartition(-(self.scores(x) + self.bias), self.k - 1, axis=1)[:, : self.k]
        load = np.bincount(chosen.ravel(), minlength=self.n_experts)
        self.bias += rate * np.sign(load.mean() - load)
        return load


if __name__ == "__main__":
    g = np.random.default_rng(1)
    answers = g.normal(size=(256, 16))
    router = ExpertRouter(16)
    for _ in range(50):
        load = router.rebalance(answers)
    print(load, router(answers).shape)
