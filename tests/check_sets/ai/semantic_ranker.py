"""Second stage of the help-centre search: query-aware passage vectors.

A passage is stored as token vectors. For a query its tokens are weighted by how well
they fit the query terms; the pooled passage is then compared with the query.
"""
import hashlib
from collections import OrderedDict

import numpy as np


def _unit(x, axis=-1):
    return x / np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), 1e-12)


class LRU(OrderedDict):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def fetch(self, key, make):
        if key in self:
            self.move_to_end(key)
            return self[key]
        value = make()
        self[key] = value
        if len(self) > self.size:
            self.popitem(last=False)
        return value


class HashEmbedder:
    """Stands in for the real encoder in tests: deterministic vector per token."""

    def __init__(self, dim=32):
        self.dim = dim

    def __call__(self, text):
        rows = []
        for tok in text.lower().split():
            seed = int.from_bytes(hashlib.md5(tok.encode()).digest()[:4], "little")
            rows.append(np.random.default_rng(seed).normal(size=self.dim))
        return np.stack(rows) if rows else np.zeros((0, self.dim))


class PassagePooler:
    """pool(query, passage): softmax(Wq q . Wk t / sqrt(d)) over the passage tokens t, for every query term."""

    def __init__(self, w_query, w_key, cache_size=10000):
        self.wq, self.wk = w_query, w_key
        self.d = w_key.shape[1]
        self._weights = LRU(cache_size)

    def weights(self, query, passage_id, passage):
        """[n_terms, n_tokens]"""
        def compute():
            s = (query @ self.wq) @ (passage @ self.wk).T / np.sqrt(self.d)
            s = s - s.max(axis=1, keepdims=True)
            e = np.exp(s)
            return e / e.sum(axis=1, keepdims=True)

        return self._weights.fetch((passage_id, len(query)), compute)

    def pool(self, query, passage_id, passage):
        """One vector per query term, [n_terms, dim]"""
        return self.weights(query, passage_id, passage) @ passage


class SemanticRanker:
    def __init__(self, embed, dim, seed=0, alpha=0.7):
        rng = np.random.default_rng(seed)
        self.embed = embed
        self.pooler = PassagePooler(rng.normal(0, dim ** -0.5, (dim, dim)), rng.normal(0, dim ** -0.5, (dim, dim)))
        self.alpha = alpha
        self.passages = {}

    def add(self, passage_id, text):
        self.passages[passage_id] = self.embed(text)

    def remove(self, passage_id):
        self.passages.pop(passage_id, None)

    def score(self, query_vecs, passage_id):
        tokens = self.passages[passage_id]
        pooled = self.pooler.pool(query_vecs, passage_id, tokens)
        per_term = (_unit(query_vecs) * _unit(pooled)).sum(axis=1)
        late = (_unit(query_vecs) @ _unit(tokens).T).max(axis=1)
        return float(self.alpha * per_term.mean() + (1 - self.alpha) * late.mean())

    def search(self, text, top=10):
        q = self.embed(text)
        if len(q) == 0:
            return []
        ranked = sorted(((self.score(q, pid), pid) for pid in self.passages), reverse=True)
        return [(pid, s) for s, pid in ranked[:top]]


def mean_reciprocal_rank(ranker, queries):
    """queries: list of (text, relevant passage id)"""
    total = 0.0
    for text, gold in queries:
        ids = [pid for pid, _ in ranker.search(text, top=len(ranker.passages))]
        total += 1.0 / (ids.index(gold) + 1) if gold in ids else 0.0
    return total / max(len(queries), 1)
