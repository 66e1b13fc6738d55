"""Soft lookup in the FAQ index.  Used by the support bot."""
import numpy as np


def softmax(x, axis=-1):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class FaqReader:
    """Holds named shelves of (key, value) rows and reads them softly.

    >>> r = FaqReader(); r.add("billing", K, V); r.read("billing", Q)
    """

    def __init__(self):
        self.shelves = {}
        self.memo = {}

    def add(self, name, keys, values):
        """keys (N, d), values (N, e).  Replaces the shelf and forgets what was memoised."""
        self.shelves[name] = (np.asarray(keys), np.asarray(values))
        self.memo.pop(name, None)

    def weights(self, name, questions):
        """(M, N) softmax(questions keys^T / sqrt(d)) over the N rows of the shelf.

        The shelves are long, so results are memoised.
        """
        if name in self.memo:
            return self.memo[name]
        keys, _ = self.shelves[name]
        w = softmax(questions @ keys.T / np.sqrt(keys.shape[1]))
        self.memo[name] = w
        return w

    def read(self, name, questions):
        """questions (M, d) -> (M, e): for each question the weighted mean of the values.

        May be called any number of times with different questions.
        """
        _, values = self.shelves[name]
        return self.weights(name, questions) @ values
