"""Late-interaction reranker over precomputed token embeddings (NumPy, memory-mapped index)."""
import json
from pathlib import Path
import numpy as np


def unit(x, eps=1e-12):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), eps)


class TokenIndex:
    """all token vectors of all documents one after another, with offsets"""

    def __init__(self, vectors, offsets, ids):
        self.vectors, self.offsets, self.ids = vectors, offsets, ids

    @classmethod
    def build(cls, docs):
        ids = list(docs)
        lens = [len(docs[i]) for i in ids]
        off = np.concatenate([[0], np.cumsum(lens)])
        return cls(unit(np.concatenate([docs[i] for i in ids])), off, ids)

    @classmethod
    def load(cls, folder):
        folder = Path(folder)
        meta = json.loads((folder / "meta.json").read_text())
        vec = np.load(folder / "vectors.npy", mmap_mode="r")
        return cls(vec, np.asarray(meta["offsets"]), meta["ids"])

    def doc(self, n):
        return self.vectors[self.offsets[n]: self.offsets[n + 1]]


class MaxSimReranker:
    """score(q, d) = sum over query tokens of the best cosine with a document token"""

    def __init__(self, index, skip=None):
        self.index = index
        self.skip = skip or {}

    def score(self, query, n):
        sim = query @ self.index.doc(n).T
        bad = self.skip.get(self.index.ids[n])
        if bad is not None:
            sim = np.where(bad[None, :], -1.0, sim)
        return float(sim.max(axis=1).sum())

    def rerank(self, query, candidates, k=10):
        q = unit(query)
        pos = {d: i for i, d in enumerate(self.index.ids)}
        scored = [(self.score(q, pos[c]), c) for c in candidates if c in pos]
        scored.sort(key=lambda t: (-t[0], t[1]))
        return [(c, s) for s, c in scored[:k]]


def mrr(rankings, gold):
    total = 0.0
    for qid, docs in rankings.items():
        for r, (d, _) in enumerate(docs, 1):
            if d in gold[qid]:
                total += 1.0 / r
                break
    return total / max(1, len(rankings))
