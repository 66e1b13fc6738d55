"""End-to-end memory network (Sukhbaatar et al. 2015) in NumPy, forward only, adjacent weight tying.

hop:  p_i = softmax_i(u . m_i),   o = sum_i p_i c_i,   u <- u + o
"""
import numpy as np


def softmax(t, axis=-1):
    t = t - t.max(axis=axis, keepdims=True)
    t = np.exp(t)
    return t / t.sum(axis=axis, keepdims=True)


def position_encoding(n_words, dim):
    """l_kj of sec. 4.1"""
    j = np.arange(1, n_words + 1)[:, None] / n_words
    k = np.arange(1, dim + 1)[None, :] / dim
    return (1 - j) - k * (1 - 2 * j)


class Reader:
    def __init__(self, n_vocab=40, dim=16, hops=3, seed=7):
        rng = np.random.default_rng(seed)
        # table[h] is A of hop h and C of hop h - 1; row 0 (nil word) is zero
        self.table = [rng.normal(0, 0.3, (n_vocab, dim)) for _ in range(hops + 1)]
        for t in self.table:
            t[0] = 0.0
        self.hops, self.dim = hops, dim

    def sentence(self, ids, h):
        """ids (..., words) -> (..., dim)"""
        return (self.table[h][ids] * position_encoding(ids.shape[-1], self.dim)).sum(axis=-2)

    def recall(self, u, m, told):
        """how well each told fact fits the inner state: u (B, dim), m (B, facts, dim), told (B, facts) bool"""
        fit = np.einsum("bd,bfd->bf", u, m)
        fit = np.where(told, fit, -np.inf)
        return softmax(fit)

    def hop(self, u, m, c, told):
        p = softmax(self.recall(u, m, told))
        o = np.einsum("bf,bfd->bd", p, c)
        return u + o, p

    def answer(self, story, question, told):
        """
        story    (B, facts, words) word ids
        question (B, words)
        told     (B, facts) True for real facts (at least one), False for filler
        returns word distribution (B, n_vocab), weights over the facts per hop (B, hops, facts)
        """
        u = self.sentence(question, 0)
        trace = []
        for h in range(self.hops):
            u, p = self.hop(u, self.sentence(story, h), self.sentence(story, h + 1), told)
            trace.append(p)
        return softmax(u @ self.table[-1].T), np.stack(trace, axis=1)
