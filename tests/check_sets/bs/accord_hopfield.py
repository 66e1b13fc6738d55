#!/usr/bin/env python3
"""Complete a half-smelt perfume: associative memory over known accords.

Modern Hopfield network (Ramsauer et al., "Hopfield Networks is All You Need"):

    xi_new = X softmax(beta X^T xi)

The formulas (rows of ``formulas``) are keys and values at once.  ``beta`` is a free inverse
temperature that the nose sets on the console; it is deliberately not 1/sqrt(d).
Raw materials that were not measured (``known`` False) do not take part in the comparison.
"""
import sys
from dataclasses import dataclass

import numpy as np

MATERIALS = ["bergamot", "lavender", "labdanum", "oakmoss", "vetiver", "iris", "coumarin", "musk"]


@dataclass
class Recall:
    formula: np.ndarray      # [n, d]
    weights: np.ndarray      # [n, m], rows sum to 1
    steps: int


class AccordMemory:
    def __init__(self, formulas, beta=8.0, tol=1e-8, max_steps=50):
        X = np.asarray(formulas, dtype=np.float64)
        self.mean = X.mean(0)
        self.X = X - self.mean
        self.beta = float(beta)
        self.tol, self.max_steps = tol, max_steps

    def _weights(self, xi, retired):
        a = self.beta * (xi @ self.X.T)
        if retired is not None:
            a = np.where(retired, -np.inf, a)
        a -= a.max(axis=1, keepdims=True)
        np.exp(a, out=a)
        a /= a.sum(axis=1, keepdims=True)
        return a

    def recall(self, sniff, known=None, retired=None, steps=None):
        """sniff [n, d]; known [n, d] bool; retired [m] bool: formulas that IFRA has banned.

        steps: a fixed number of updates; None = until nothing moves any more."""
        s = np.atleast_2d(np.asarray(sniff, dtype=np.float64))
        known = np.ones(s.shape, bool) if known is None else np.atleast_2d(known)
        if retired is not None:
            retired = np.asarray(retired, bool)
            if retired.all():
                raise ValueError("no formula left")
        xi = np.where(known, s - self.mean, 0.0)
        limit = self.max_steps if steps is None else steps
        w = None
        for n in range(1, limit + 1):
            w = self._weights(xi, retired)
            new = w @ self.X
            moved = np.abs(new - xi).max()
            xi = new
            if steps is None and moved < self.tol:
                break
        return Recall(xi + self.mean, w, n)

    def energy(self, xi):
        xi = np.atleast_2d(xi) - self.mean
        a = self.beta * (xi @ self.X.T)
        m = a.max(1)
        return 0.5 * (xi ** 2).sum(1) - (m + np.log(np.exp(a - m[:, None]).sum(1))) / self.beta


def as_text(row, floor=0.02):
    parts = sorted(((p, n) for p, n in zip(row, MATERIALS) if p > floor), reverse=True)
    return ", ".join(f"{n} {100 * p:.0f}%" for p, n in parts)


def main(argv):
    beta = float(argv[1]) if len(argv) > 1 else 20.0
    rng = np.random.default_rng(1882)
    book = rng.dirichlet(np.full(len(MATERIALS), 0.5), size=12)
    memory = AccordMemory(book, beta=beta)
    known = np.zeros(len(MATERIALS), bool)
    known[:4] = True
    r = memory.recall(book[3], known)
    print(as_text(r.formula[0]), f"after {r.steps} steps")


if __name__ == "__main__":
    main(sys.argv)
