"""Ranking stage of the shop: target aware user representation (after DIN, with dot products).

For each candidate item the user's history is pooled with weights that depend on how
similar the candidate is to each past item:

    a(c, j) = softmax_j( W_q c . W_k h_j / sqrt(d) ),     u(c) = sum_j a(c, j) W_v h_j

Candidates of one request come one after another, the history stays; projections of the
history are therefore kept for a while.
"""
import hashlib
from collections import OrderedDict

import numpy as np


class LRU(OrderedDict):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def fetch(self, key, make):
        if key in self:
            self.move_to_end(key)
            return self[key]
        value = self[key] = make()
        if len(self) > self.size:
            self.popitem(last=False)
        return value


def digest(a):
    return hashlib.blake2b(np.ascontiguousarray(a).tobytes(), digest_size=12).digest() + str(a.shape).encode()


class InterestPooling:
    def __init__(self, params, keep=256):
        """params: dict with W_q, W_k, W_v, each [item_dim, d]"""
        self.wq, self.wk, self.wv = params["W_q"], params["W_k"], params["W_v"]
        self.d = self.wq.shape[1]
        self._proj = LRU(keep)
        self._att = LRU(keep)

    def _history(self, hist):
        return self._proj.fetch(digest(hist), lambda: (hist @ self.wk, hist @ self.wv))

    def _weights(self, cand, k, length):
        def compute():
            s = k[:length] @ (cand @ self.wq) / np.sqrt(self.d)
            e = np.exp(s - s.max())
            return e / e.sum()
        return self._att.fetch((digest(k), length), compute)

    def __call__(self, cand, hist, length=None):
        """cand [item_dim], hist [n, item_dim] of which the first ``length`` are filled -> [d]"""
        length = len(hist) if length is None else length
        if length == 0:
            return np.zeros(self.d)
        k, v = self._history(hist)
        return self._weights(cand, k, length) @ v[:length]


class Ranker:
    def __init__(self, items, params, keep=256):
        self.items = items                       # [n_items, item_dim]
        self.pool = InterestPooling(params, keep)
        self.w1, self.b1 = params["mlp_w1"], params["mlp_b1"]
        self.w2, self.b2 = params["mlp_w2"], params["mlp_b2"]

    def features(self, item, hist_ids, context):
        cand = self.items[item]
        user = self.pool(cand, self.items[hist_ids])
        return np.concatenate([user, cand, context])

    def score(self, item, hist_ids, context):
        h = np.maximum(self.features(item, hist_ids, context) @ self.w1 + self.b1, 0.0)
        return float(1 / (1 + np.exp(-(h @ self.w2 + self.b2))))

    def rank(self, candidates, hist_ids, context, top=10):
        scored = [(self.score(c, hist_ids, context), c) for c in candidates]
        scored.sort(key=lambda t: -t[0])
        return [c for _, c in scored[:top]]


def random_params(rng, item_dim=12, d=8, context=3, hidden=16):
    n = d + item_dim + context
    mat = lambda a, b: rng.standard_normal((a, b)) / np.sqrt(a)
    return {"W_q": mat(item_dim, d), "W_k": mat(item_dim, d), "W_v": mat(item_dim, d),
            "mlp_w1": mat(n, hidden), "mlp_b1": np.zeros(hidden),
            "mlp_w2": mat(hidden, 1)[:, 0], "mlp_b2": 0.0}
