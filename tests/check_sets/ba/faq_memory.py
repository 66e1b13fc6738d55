"""FAQ assistant: soft lookup of answer vectors.

    mem = FaqMemory(dim); mem.register("billing", keys, answers); mem.attend("billing", question)

Weights are remembered because the web front asks the same thing many times.
"""
import hashlib

import numpy as np


def _digest(a: np.ndarray) -> str:
    return hashlib.sha1(np.ascontiguousarray(a).tobytes()).hexdigest()


class FaqMemory:
    def __init__(self, dim, max_memo=1000):
        self.dim = dim
        self.topics = {}
        self._memo = {}
        self.max_memo = max_memo
        self.hits = self.misses = 0

    def register(self, topic, keys, answers):
        """keys (n, dim), answers (n, e)"""
        keys = np.asarray(keys, dtype=np.float64)
        answers = np.asarray(answers, dtype=np.float64)
        if keys.ndim != 2 or keys.shape[1] != self.dim or len(keys) != len(answers):
            raise ValueError("keys and answers do not fit")
        self.topics[topic] = (keys, answers, _digest(keys))

    def append(self, topic, key, answer):
        keys, answers, _ = self.topics[topic]
        self.register(topic, np.vstack([keys, key]), np.vstack([answers, answer]))

    def weights(self, topic, question):
        """softmax(question . keys / sqrt(dim)); question (dim,) -> (n,)"""
        keys, _, stamp = self.topics[topic]
        ident = (topic, stamp)
        if ident in self._memo:
            self.hits += 1
            return self._memo[ident]
        self.misses += 1
        s = keys @ question / np.sqrt(self.dim)
        e = np.exp(s - s.max())
        w = e / e.sum()
        if len(self._memo) >= self.max_memo:
            self._memo.clear()
        self._memo[ident] = w
        return w

    def attend(self, topic, question):
        """question (dim,) -> answer vector (e,)"""
        question = np.asarray(question, dtype=np.float64)
        return self.weights(topic, question) @ self.topics[topic][1]

    def best(self, topic, question, k=3):
        w = self.weights(topic, np.asarray(question, dtype=np.float64))
        order = np.argsort(-w)[:k]
        return [(int(i), float(w[i])) for i in order]


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    mem = FaqMemory(4)
    mem.register("demo", rng.normal(size=(5, 4)), np.eye(5))
    print(mem.best("demo", rng.normal(size=4)))
