"""Haircut monitor for bilateral repo: which past margin calls explain today's?

Causal attention over a counterparty's margin-call history with linear position biases
instead of position embeddings (ALiBi, Press et al.). For n heads (n a power of two here)
the slopes form the geometric sequence that starts at 2^(-8/n) and has that same ratio.
"""
from __future__ import annotations

from typing import Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Slopes:
    """Per-head slope m_h, largest first."""

    def __init__(self, heads: int) -> None:
        if heads & (heads - 1):
            raise ValueError("use 1, 2, 4, 8, ... heads")
        self.m: Array = np.array([2.0 ** (-8.0 * h / heads) for h in range(heads)])

    def bias(self, n: int) -> Array:
        gap = np.arange(n)[:, None] - np.arange(n)[None, :]
        return -self.m[:, None, None] * gap


class Book:
    """Margin calls of one counterparty, oldest first."""

    columns = ("haircut", "vix", "days_since", "collateral_grade", "notional_log")

    def __init__(self, rows: Array) -> None:
        self.rows = (rows - rows.mean(0)) / (rows.std(0) + 1e-9)

    def __len__(self) -> int:
        return len(self.rows)


class MarginAttention:
    """x [N, D] -> [N, D]; call i reads calls 0..i."""

    def __init__(self, params: Mapping[str, Array], heads: int) -> None:
        self.p = params
        self.heads = heads
        self.slopes = Slopes(heads)

    def _split(self, x: Array) -> Array:
        n, width = x.shape
        return x.reshape(n, self.heads, width // self.heads).swapaxes(0, 1)

    def weights(self, x: Array) -> Array:
        q, k = self._split(x @ self.p["wq"]), self._split(x @ self.p["wk"])
        n = len(x)
        logits = np.matmul(q, k.swapaxes(1, 2)) / np.sqrt(q.shape[-1]) + self.slopes.bias(n)
        logits[:, np.triu(np.ones((n, n), dtype=bool), k=1)] = -np.inf
        logits -= logits.max(axis=-1, keepdims=True)
        e = np.exp(logits)
        return e / e.sum(axis=-1, keepdims=True)

    def __call__(self, x: Array) -> Array:
        mixed = np.matmul(self.weights(x), self._split(x @ self.p["wv"]))
        return mixed.swapaxes(0, 1).reshape(x.shape) @ self.p["wo"]


class HaircutModel:
    def __init__(self, seed: int = 0, width: int = 16, heads: int = 4) -> None:
        g = np.random.default_rng(seed)
        self.lift = g.normal(size=(len(Book.columns), width)) * 0.4
        self.attn = MarginAttention({n: g.normal(size=(width, width)) * width ** -0.5 for n in ("wq", "wk", "wv", "wo")}, heads)
        self.head = g.normal(size=width) * 0.1

    def next_haircut(self, book: Book) -> float:
        h = book.rows @ self.lift
        return float(1.0 / (1.0 + np.exp(-(h + self.attn(h))[-1] @ self.head)))


if __name__ == "__main__":
    print(HaircutModel().next_haircut(Book(np.random.default_rng(1).normal(size=(14, 5)))))
