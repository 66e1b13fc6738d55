"""Parcel-sorting simulator: a mixture of small experts, NumPy.

Every parcel is a feature vector.  A router compares it with one key per sorting line
("expert"), takes the best two and mixes what the two lines say.  Lines have a capacity; a
parcel that finds its line full loses that part (first come, first served, as on the real
belt), and the weights of what is left are normalised again.
"""
from dataclasses import dataclass, field

import numpy as np


@dataclass
class RouterStats:
    load: np.ndarray
    importance: np.ndarray
    dropped: int = 0
    history: list = field(default_factory=list)

    def balance_loss(self, parcels):
        """Switch-style: n_lines * sum(share of parcels * mean probability)."""
        return len(self.load) * float((self.load / parcels) @ (self.importance / parcels))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


class LineRouter:
    """scores of parcel queries against line keys -> who goes where with which weight."""

    def __init__(self, dim, lines, top=2, slack=1.25, seed=0):
        r = np.random.default_rng(seed)
        self.query = r.normal(0, dim ** -0.5, (dim, dim))
        self.keys = r.normal(0, 1.0, (lines, dim))
        self.top, self.slack = top, slack

    def capacity(self, parcels):
        return int(np.ceil(self.slack * self.top * parcels / len(self.keys)))

    def __call__(self, x):
        """x (n, dim) -> index (n, top), weight (n, top), stats.  Weight 0 = dropped."""
        n, dim = x.shape
        probs = softmax((x @ self.query) @ self.keys.T / np.sqrt(dim))
        index = np.argsort(-probs, axis=-1)[:, : self.top]
        weight = np.take_along_axis(probs, index, -1)
        stats = RouterStats(np.zeros(len(self.keys), int), probs.sum(0))
        room = self.capacity(n)
        for choice in range(self.top):                 # all first choices before all second ones
            for i in range(n):
                line = index[i, choice]
                if stats.load[line] < room:
                    stats.load[line] += 1
                else:
                    weight[i, choice] = 0.0
                    stats.dropped += 1
        total = weight.sum(-1, keepdims=True)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
        return index, weight, stats


class SortingHall:
    """Router plus experts: two-layer perceptrons, one per line, with a residual path."""

    def __init__(self, dim=16, lines=6, hidden=24, seed=1):
        r = np.random.default_rng(seed)
        self.router = LineRouter(dim, lines, seed=seed + 1)
        self.values_in = r.normal(0, dim ** -0.5, (lines, dim, hidden))
        self.values_out = r.normal(0, hidden ** -0.5, (lines, hidden, dim))

    def __call__(self, x):
        index, weight, stats = self.router(x)
        y = x.copy()
        for line in range(len(self.values_in)):
            who, which = np.nonzero((index == line) & (weight > 0))
            if len(who):
                h = np.maximum(x[who] @ self.values_in[line], 0) @ self.values_out[line]
                y[who] += weight[who, which][:, None] * h
        return y, stats


def shift(hall, hours=3, per_hour=40, seed=9):
    r = np.random.default_rng(seed)
    for h in range(hours):
        _, st = hall(r.normal(size=(per_hour, hall.router.keys.shape[1])))
        yield h, st.load.tolist(), st.dropped, st.balance_loss(per_hour)


if __name__ == "__main__":
    for row in shift(SortingHall()):
        print(*row)
