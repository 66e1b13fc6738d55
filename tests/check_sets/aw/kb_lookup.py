"""Soft lookup in a product knowledge base (chat bot of a hardware shop).  numpy only.

Many questions hit the same shelf of facts, so work that was done once is kept.
"""
import hashlib

import numpy as np


def embed(words, dim=16):
    """feature hashing, good enough for part numbers"""
    out = np.zeros((len(words), dim))
    for i, w in enumerate(words):
        h = hashlib.md5(w.encode()).digest()
        out[i] = np.frombuffer((h * (dim // 16 + 1))[:dim], dtype=np.uint8) / 127.5 - 1.0
    return out


def row_softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    z = np.exp(z)
    return z / z.sum(axis=-1, keepdims=True)


class SoftShelf:
    """lookup(questions (Q, d), keys (N, d), values (N, dv)) -> (Q, dv)"""

    def __init__(self, temperature=1.0, capacity=64):
        self.temperature = temperature
        self.capacity = capacity
        self._memo = {}

    def _tag(self, *arrays):
        return tuple((a.shape, hashlib.sha1(np.ascontiguousarray(a).tobytes()).hexdigest()) for a in arrays)

    def weights(self, questions, keys):
        tag = self._tag(keys)
        if tag in self._memo and self._memo[tag].shape[0] == len(questions):
            return self._memo[tag]
        logits = questions @ keys.T / (self.temperature * np.sqrt(keys.shape[1]))
        w = row_softmax(logits)
        if len(self._memo) >= self.capacity:
            self._memo.pop(next(iter(self._memo)))
        self._memo[tag] = w
        return w

    def lookup(self, questions, keys, values):
        return self.weights(questions, keys) @ values


class Shop:
    def __init__(self, facts):
        self.names = [n for n, _ in facts]
        self.keys = embed(self.names)
        self.values = np.array([v for _, v in facts], dtype=float)
        self.shelf = SoftShelf(temperature=0.25)

    def ask(self, words):
        return self.shelf.lookup(embed(words), self.keys, self.values)

    def closest(self, word):
        return self.names[int(np.argmax(self.shelf.weights(embed([word]), self.keys)[0]))]
