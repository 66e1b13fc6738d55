"""Mixture-of-experts feed-forward layer in NumPy, to check our C++ runtime against."""
import numpy as np


def silu(x):
    return x / (1.0 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class Expert:
    def __init__(self, rng, dim, hidden):
        self.w1 = rng.normal(0, dim**-0.5, (dim, hidden))
        self.w2 = rng.normal(0, hidden**-0.5, (hidden, dim))
        self.w3 = rng.normal(0, dim**-0.5, (dim, hidden))

    def __call__(self, x):
        return (silu(x @ self.w1) * (x @ self.w3)) @ self.w2


class MixtureRouter:
    """Each token goes to its k best experts; gates are the softmax over those k scores
    (Mixtral style)."""

    def __init__(self, dim=16, n_experts=6, k=2, hidden=24, seed=0):
        rng = np.random.default_rng(seed)
        self.k = k
        self.keys = rng.normal(0, dim**-0.5, (n_experts, dim))
        self.experts = [Expert(rng, dim, hidden) for _ in range(n_experts)]

    def route(self, x):
        scores = x @ self.keys.T
        top = np.argsort(-scores, axis=-1)[:, : self.k]
        gates = softmax(np.take_along_axis(scores, top, axis=-1))
        return top, gates, scores

    def __call__(self, x):
        """x (tokens, dim) -> (tokens, dim)"""
        top, gates, _ = self.route(x)
        out = np.zeros_like(x)
        for e, expert in enumerate(self.experts):
            tok, slot = np.nonzero(top == e)
            if len(tok):
                out[tok] += gates[tok, slot, None] * expert(x[tok])
        return out

    def balance_loss(self, x):
        top, _, scores = self.route(x)
        n = len(self.experts)
        load = np.bincount(top.ravel(), minlength=n) / top.size
        return n * float(load @ softmax(scores).mean(0))
