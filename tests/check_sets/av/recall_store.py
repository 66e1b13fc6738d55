"""Recall of former patient episodes for the triage assistant (NumPy, CPU only)."""
from __future__ import annotations

import hashlib
from collections import OrderedDict

import numpy as np


def fingerprint(a: np.ndarray) -> str:
    h = hashlib.sha1(np.ascontiguousarray(a).tobytes())
    h.update(str(a.shape).encode())
    return h.hexdigest()


class LRU:
    def __init__(self, size: int = 64) -> None:
        self._d: OrderedDict[str, np.ndarray] = OrderedDict()
        self.size = size
        self.hits = 0

    def get(self, key):
        if key in self._d:
            self._d.move_to_end(key)
            self.hits += 1
            return self._d[key]
        return None

    def put(self, key, value):
        self._d[key] = value
        self._d.move_to_end(key)
        while len(self._d) > self.size:
            self._d.popitem(last=False)


class EpisodeRecall:
    """softmax(Q K^T / sqrt(d)) V over stored episodes.

    Softmax rows are costly with many episodes, so weights that were worked out before
    are kept and used again.
    """

    def __init__(self, cache_size: int = 64) -> None:
        self.cache = LRU(cache_size)

    def weights(self, queries: np.ndarray, keys: np.ndarray, usable: np.ndarray | None = None) -> np.ndarray:
        """queries [n, d], keys [m, d], usable bool [m] (False = consent withdrawn)."""
        tag = fingerprint(keys)
        if usable is not None:
            tag += fingerprint(usable)
        known = self.cache.get(tag)
        if known is not None and known.shape[0] == queries.shape[0]:
            return known
        s = queries @ keys.T / np.sqrt(keys.shape[1])
        if usable is not None:
            s = np.where(usable[None, :], s, -1e30)
        s = s - s.max(axis=1, keepdims=True)
        w = np.exp(s)
        w /= w.sum(axis=1, keepdims=True)
        self.cache.put(tag, w)
        return w

    def __call__(self, queries, keys, values, usable=None):
        return self.weights(queries, keys, usable) @ values


def embed_vitals(rows, means, stds):
    z = (np.asarray(rows, float) - means) / np.maximum(stds, 1e-9)
    return np.clip(z, -5, 5)


def top_episodes(w: np.ndarray, names: list[str], n: int = 3) -> list[list[tuple[str, float]]]:
    order = np.argsort(-w, axis=1)[:, :n]
    return [[(names[j], float(w[i, j])) for j in row] for i, row in enumerate(order)]
