"""Modern Hopfield network: "Hopfield Networks is All You Need" in 60 lines.

Retrieval iterates  xi <- X softmax(beta X^T xi)  until nothing moves.  With
beta = 1 / sqrt(d) and one step it is transformer attention; beta here is a
free parameter and is usually larger.
"""
import numpy as np
from typing import NamedTuple


class Retrieval(NamedTuple):
    state: np.ndarray
    weights: np.ndarray
    steps: int


def log_sum_exp(x, axis=-1):
    m = x.max(axis=axis, keepdims=True)
    return np.squeeze(m, axis) + np.log(np.exp(x - m).sum(axis=axis))


class Hopfield:
    def __init__(self, beta=4.0, max_steps=20, tol=1e-8, normalize=True):
        self.beta, self.max_steps, self.tol, self.normalize = beta, max_steps, tol, normalize

    def _patterns(self, patterns):
        p = np.asarray(patterns, dtype=float)
        if self.normalize:
            p = p / np.maximum(np.linalg.norm(p, axis=-1, keepdims=True), 1e-12)
        return p

    def associate(self, state, patterns):
        """Weights of the stored patterns, one row per state."""
        logits = self.beta * state @ patterns.T
        # exp(x - logsumexp(x)) is the softmax
        return np.exp(logits - log_sum_exp(logits)[..., None])

    def energy(self, state, patterns):
        patterns = self._patterns(patterns)
        lse = log_sum_exp(self.beta * state @ patterns.T) / self.beta
        return -lse + 0.5 * (state ** 2).sum(-1)

    def __call__(self, queries, patterns):
        """queries [Q, D], patterns [N, D] -> Retrieval with state [Q, D]"""
        patterns = self._patterns(patterns)
        state = np.array(queries, dtype=float)
        for step in range(1, self.max_steps + 1):
            w = self.associate(state, patterns)
            new = w @ patterns
            moved = np.abs(new - state).max()
            state = new
            if moved < self.tol:
                break
        return Retrieval(state, w, step)


def recall(hopfield, patterns, noise=0.3, seed=0):
    """Fraction of the noisy patterns that come back to their own original."""
    rng = np.random.default_rng(seed)
    noisy = patterns + noise * rng.normal(size=patterns.shape)
    found = hopfield(noisy, patterns).weights.argmax(-1)
    return float((found == np.arange(len(patterns))).mean())
