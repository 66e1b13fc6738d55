"""Soft nearest-neighbour lookup of recipe substitutes.

"What can I use instead of buttermilk?" -- the ingredient is embedded and the
answer is an attention-weighted mixture over the memory of the chosen cuisine.
Memories are large and reused by many questions, so the expensive part is kept
in a small LRU table.
"""
import hashlib
from collections import OrderedDict

import numpy as np


def fingerprint(a: np.ndarray) -> str:
    return hashlib.sha1(np.ascontiguousarray(a).tobytes()).hexdigest()


class LRU(OrderedDict):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def put(self, key, value):
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.size:
            self.popitem(last=False)


class SoftLookup:
    """read(query, keys, values) -> (answer, weights)

    query:  (Q, D)
    keys:   (N, D) embeddings of the ingredients of a cuisine
    values: (N, E) what to mix (nutrition, flavour vector, ...)
    weights are softmax(query keys^T / (sqrt(D) * temperature)).
    """

    def __init__(self, temperature=1.0, cache_size=8):
        self.temperature = temperature
        self._lru = LRU(cache_size)
        self.hits = self.misses = 0

    def _weights(self, query, keys):
        tag = fingerprint(keys)
        if tag in self._lru and self._lru[tag].shape[0] == len(query):
            self.hits += 1
            self._lru.move_to_end(tag)
            return self._lru[tag]
        self.misses += 1
        logits = query @ keys.T / (np.sqrt(keys.shape[1]) * self.temperature)
        logits -= logits.max(axis=1, keepdims=True)
        w = np.exp(logits)
        w /= w.sum(axis=1, keepdims=True)
        self._lru.put(tag, w)
        return w

    def read(self, query, keys, values):
        w = self._weights(query, keys)
        return w @ values, w


class Pantry:
    def __init__(self, table, dim=16, seed=0):
        """table: cuisine -> list of (name, flavour vector)"""
        rng = np.random.default_rng(seed)
        self.names = {c: [n for n, _ in rows] for c, rows in table.items()}
        self.keys = {c: rng.normal(size=(len(rows), dim)) for c, rows in table.items()}
        self.vals = {c: np.array([f for _, f in rows]) for c, rows in table.items()}
        self.lookup = SoftLookup(temperature=0.5)

    def substitutes(self, cuisine, vec, k=3):
        _, w = self.lookup.read(vec[None], self.keys[cuisine], self.vals[cuisine])
        best = np.argsort(-w[0])[:k]
        return [(self.names[cuisine][i], float(w[0, i])) for i in best]


if __name__ == "__main__":
    pantry = Pantry({"indian": [("yoghurt", [0.2, 0.9]), ("lemon", [0.9, 0.1]),
                                ("paneer", [0.1, 0.8]), ("tamarind", [0.8, 0.3])]})
    print(pantry.substitutes("indian", np.ones(16)))
