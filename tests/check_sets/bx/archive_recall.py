"""Recall service of the municipal archive: answer vector for a query vector.

The index holds one key and one value row per card.  For a query, the `top`
cards with the greatest scaled dot product are taken; a softmax over those
gives the weights, and the answer is the weighted mean of the cards' values.
For the reading room the cards are also listed, best first, with their weights.
"""
import numpy as np


class ArchiveRecall:
    def __init__(self, keys, values, top=5):
        if len(keys) != len(values):
            raise ValueError("one value per key")
        self.keys = np.asarray(keys, float)
        self.values = np.asarray(values, float)
        self.top = min(top, len(keys))
        self.scale = self.keys.shape[1] ** -0.5

    def add(self, keys, values):
        self.keys = np.concatenate([self.keys, keys])
        self.values = np.concatenate([self.values, values])

    def recall(self, queries):
        """queries (Q, d) -> answers (Q, dv), cards (Q, top), weights (Q, top)"""
        queries = np.atleast_2d(queries)
        scores = queries @ self.keys.T * self.scale
        found = np.argpartition(-scores, self.top - 1, axis=1)[:, : self.top]
        found.sort(axis=1)                      # shelf order: the values may be a memory map
        best = np.take_along_axis(scores, found, axis=1)
        order = np.argsort(-best, axis=1)
        cards = np.take_along_axis(found, order, axis=1)
        best = np.take_along_axis(best, order, axis=1)
        weights = np.exp(best - best[:, :1])
        weights /= weights.sum(axis=1, keepdims=True)
        answers = np.einsum("qt,qtd->qd", weights, self.values[found])
        return answers, cards, weights


if __name__ == "__main__":
    g = np.random.default_rng(7)
    service = ArchiveRecall(g.normal(size=(40, 8)), g.normal(size=(40, 6)))
    a, c, w = service.recall(g.normal(size=(2, 8)))
    print(a.shape)
    for cards, weights in zip(c, w):
        print([f"{i}:{p:.2f}" for i, p in zip(cards, weights)])
