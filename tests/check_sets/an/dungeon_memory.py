"""Text-adventure agent: key/value memory of seen rooms, numpy only."""
import collections

import numpy as np

Room = collections.namedtuple("Room", "name key value")


def hash_embed(text, dim, seed=0):
    """bag of hashed words, unit length"""
    v = np.zeros(dim)
    for w in text.lower().split():
        h = sum((i + 1 + seed) * ord(c) for i, c in enumerate(w))
        v[h % dim] += 1.0 if (h // dim) % 2 else -1.0
    n = np.linalg.norm(v)
    return v / n if n else v


class RoomMemory:
    """Soft recall: softmax(key . query / sqrt(dim)) weighted mean of the stored values.

    The planner asks several questions about one and the same memory in every turn, so
    attention weights are remembered until a new room is stored.
    """

    def __init__(self, dim, capacity=64):
        self.dim = dim
        self.rooms = collections.deque(maxlen=capacity)
        self._version = 0
        self._weights = {}

    def store(self, name, key, value):
        self.rooms.append(Room(name, np.asarray(key, float), np.asarray(value, float)))
        self._version += 1
        self._weights.clear()

    def weights(self, query):
        tag = self._version
        if tag not in self._weights:
            K = np.stack([r.key for r in self.rooms])
            s = K @ query / np.sqrt(self.dim)
            e = np.exp(s - s.max())
            self._weights[tag] = e / e.sum()
        return self._weights[tag]

    def recall(self, query):
        """query (dim,) -> (value, weights)"""
        if not self.rooms:
            return np.zeros(self.dim), np.zeros(0)
        w = self.weights(np.asarray(query, float))
        return w @ np.stack([r.value for r in self.rooms]), w


class Planner:
    VERBS = ("north", "south", "east", "west", "take lamp", "open door")

    def __init__(self, dim=32, rng=None):
        self.mem = RoomMemory(dim)
        self.dim = dim
        self.rng = rng or np.random.default_rng(0)
        self.W = self.rng.normal(size=(len(self.VERBS), dim)) * 0.1

    def observe(self, name, text):
        e = hash_embed(text, self.dim)
        self.mem.store(name, e, hash_embed(text, self.dim, seed=7))

    def act(self, text, greedy=True):
        q = hash_embed(text, self.dim)
        ctx, _ = self.mem.recall(q)
        s = self.W @ (q + ctx)
        if greedy:
            return self.VERBS[int(s.argmax())]
        p = np.exp(s - s.max())
        return self.VERBS[self.rng.choice(len(p), p=p / p.sum())]
