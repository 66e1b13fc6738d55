"""Suggesting the next raw material for a perfume (the shelf is called the "organ").

A formula in progress is the query, the materials on the shelf are keys and values.  A
perfumer's session asks hundreds of times about the same shelf of some 3 000 bottles, so
the expensive part is memoised.

Multi-head attention in NumPy, weights by name in a dict.
"""
import hashlib

import numpy as np

NOTES = ("top", "heart", "base")


def digest(a):
    return hashlib.blake2b(np.ascontiguousarray(a).tobytes(), digest_size=12).hexdigest()


def softmax(z, axis=-1):
    z = z - np.max(z, axis=axis, keepdims=True)
    z = np.exp(z)
    return z / np.sum(z, axis=axis, keepdims=True)


class OrganAttention:
    """formula (n, dim) attends to shelf (m, dim).

    in_stock: optional (m,) bool, False = bottle is empty, not to be used.
    Returns (n, dim) and the weights (heads, n, m).
    """

    def __init__(self, dim, heads, rng=None, memo_size=64):
        rng = rng or np.random.default_rng(0)
        self.heads, self.hd = heads, dim // heads
        self.w = {n: rng.normal(0, dim ** -0.5, (dim, dim)) for n in ("query", "key", "value", "out")}
        self._memo, self._memo_size = {}, memo_size

    def _split(self, x):
        return x.reshape(x.shape[0], self.heads, self.hd).transpose(1, 0, 2)

    def _weights(self, q, k, in_stock):
        s = np.einsum("hnd,hmd->hnm", q, k) / np.sqrt(self.hd)
        if in_stock is not None:
            s = np.where(in_stock[None, None, :], s, -np.inf)
        return softmax(s)

    def weights(self, formula, shelf, in_stock=None):
        key = (digest(shelf), formula.shape[0], None if in_stock is None else digest(in_stock))
        if key not in self._memo:
            if len(self._memo) >= self._memo_size:
                self._memo.pop(next(iter(self._memo)))
            q = self._split(formula @ self.w["query"])
            k = self._split(shelf @ self.w["key"])
            self._memo[key] = self._weights(q, k, in_stock)
        return self._memo[key]

    def __call__(self, formula, shelf, in_stock=None):
        a = self.weights(formula, shelf, in_stock)
        v = self._split(shelf @ self.w["value"])
        y = np.einsum("hnm,hmd->hnd", a, v).transpose(1, 0, 2).reshape(formula.shape[0], -1)
        return y @ self.w["out"], a


class Perfumer:
    def __init__(self, shelf, names, volatility, heads=4, seed=0):
        self.shelf, self.names = shelf, list(names)
        self.note = np.digitize(volatility, [0.33, 0.66])        # 0 base, 1 heart, 2 top
        self.att = OrganAttention(shelf.shape[1], heads, np.random.default_rng(seed))
        self.stock = np.ones(len(shelf), bool)

    def pour(self, i):
        """Take the last drop of bottle i."""
        self.stock[i] = False

    def suggest(self, formula_idx, amounts, n=3):
        f = self.shelf[formula_idx] * np.asarray(amounts)[:, None]
        y, _ = self.att(f, self.shelf, self.stock)
        mean = np.average(y, axis=0, weights=amounts)
        score = self.shelf @ mean
        score[formula_idx] = -np.inf
        score[~self.stock] = -np.inf
        best = np.argsort(-score)[:n]
        return [(self.names[i], NOTES[2 - self.note[i]], float(score[i])) for i in best]


def main():
    rng = np.random.default_rng(11)
    shelf = rng.normal(size=(12, 16))
    p = Perfumer(shelf, [f"RM-{i:03d}" for i in range(12)], rng.random(12))
    for formula, amounts in (([0, 3], [5, 1.0]), ([2, 7, 8], [1, 1, 2.0])):
        print(p.suggest(formula, amounts))


if __name__ == "__main__":
    main()
