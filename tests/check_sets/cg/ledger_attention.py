"""Ledger audit: which earlier bookings explain this one?

For every booking of a day the explainer builds a softmax distribution over the
bookings of the past month that share its currency, and reconstructs the booking as the
expected past booking.  A large residual goes to the auditor.
"""
from typing import NamedTuple

import numpy as np


class Explanation(NamedTuple):
    residual: np.ndarray   # [N]
    weights: np.ndarray    # [N, M], a distribution per booking


class LedgerExplainer:
    def __init__(self, n_features: int = 8, size: int = 16, seed: int = 11):
        g = np.random.default_rng(seed)
        self.size = size
        self.proj_new = g.standard_normal((n_features, size))
        self.proj_old = g.standard_normal((n_features, size))
        self.mean = np.zeros(n_features)
        self.std = np.ones(n_features)

    def fit(self, history: np.ndarray) -> "LedgerExplainer":
        self.mean = history.mean(0)
        self.std = history.std(0) + 1e-9
        return self

    def _z(self, x: np.ndarray) -> np.ndarray:
        return (x - self.mean) / self.std

    @staticmethod
    def _distribution(scores: np.ndarray, comparable: np.ndarray) -> np.ndarray:
        """Row-wise softmax of ``scores`` over the comparable entries.

        A booking with nothing comparable gets a row of zeros.
        """
        scores = np.where(comparable, scores, -1e30)
        top = scores.max(axis=1, keepdims=True)
        up = np.exp(scores - top) * comparable
        down = (np.exp(scores) * comparable).sum(axis=1, keepdims=True)
        return np.divide(up, down, out=np.zeros_like(up), where=down > 0)

    def explain(self, today, today_currency, past, past_currency) -> Explanation:
        a, b = self._z(today), self._z(past)
        scores = (a @ self.proj_new) @ (b @ self.proj_old).T / np.sqrt(self.size)
        comparable = today_currency[:, None] == past_currency[None, :]
        w = self._distribution(scores, comparable)
        residual = np.linalg.norm(a - w @ b, axis=1)
        return Explanation(residual, w)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    past = g.standard_normal((12, 8))
    model = LedgerExplainer().fit(past)
    r = model.explain(past[:3] + 0.1, np.array([0, 1, 0]), past, g.integers(0, 2, 12))
    print(r.residual.round(3), r.weights.shape)
