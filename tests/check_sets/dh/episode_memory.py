"""Episodic memory of the household robot: look up what happened in similar situations."""
import numpy as np


class EpisodeMemory:
    """Slots are written in a ring; reading is cosine similarity, best `top` slots, softmax."""

    def __init__(self, key_dim=8, val_dim=4, slots=64, top=5, temperature=0.1):
        self.keys = np.zeros((slots, key_dim))
        self.vals = np.zeros((slots, val_dim))
        self.top, self.temperature = top, temperature
        self.count = 0

    def write(self, key, val):
        i = self.count % len(self.keys)
        self.keys[i] = key / max(np.linalg.norm(key), 1e-8)
        self.vals[i] = val
        self.count += 1

    def read(self, query):
        """query (n, key_dim) -> (n, val_dim); zeros while the memory is empty."""
        filled = min(self.count, len(self.keys))
        if filled == 0:
            return np.zeros((len(query), self.vals.shape[1]))
        norm = np.linalg.norm(query, axis=1, keepdims=True)
        sim = (query / np.maximum(norm, 1e-8)) @ self.keys[:filled].T
        t = min(self.top, filled)
        idx = np.argpartition(-sim, t - 1, axis=1)[:, :t]
        s = np.take_along_axis(sim, idx, axis=1) / self.temperature
        w = np.exp(s - s.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        return np.einsum("nt,ntv->nv", w, self.vals[idx])


def recall(query, keys, vals, top=5, temperature=0.1):
    """Same lookup without the object: keys (m, d), vals (m, e), query (n, d) -> (n, e)."""
    m = EpisodeMemory(keys.shape[1], vals.shape[1], len(keys), top, temperature)
    for k, v in zip(keys, vals):
        m.write(k, v)
    return m.read(query)
