"""Question answering with an external memory of short facts (several hops)."""
import numpy as np


class FactHops:
    """End-to-end memory network, inference part.

    facts (M, W) and question (W,) hold word ids, 0 = no word; a fact with no word at all is an
    empty slot and is skipped. Sentences are bags of words. Hop: p = softmax(u . m_i),
    o = sum p_i c_i, u <- u + o. Without any usable fact o is zero. Returns (scores over
    words, list of p per hop).
    """

    def __init__(self, vocab, dim, hops=3, slots=50, seed=1):
        r = np.random.default_rng(seed)
        self.hops = hops
        # adjacent tying: the output table of hop h is the input table of hop h + 1
        self.tables = r.normal(0, 0.4, (hops + 1, vocab, dim))
        self.tables[:, 0] = 0.0
        self.when = r.normal(0, 0.1, (hops + 1, slots, dim))

    def __call__(self, facts, question):
        used = (facts != 0).any(axis=1)
        age = np.arange(len(facts))[::-1]
        u = self.tables[0][question].sum(axis=0)
        trace = []
        for h in range(self.hops):
            m = self.tables[h][facts].sum(axis=1) + self.when[h][age]
            c = self.tables[h + 1][facts].sum(axis=1) + self.when[h + 1][age]
            p = np.zeros(len(facts))
            if used.any():
                s = m[used] @ u
                e = np.exp(s - s.max())
                p[used] = e / e.sum()
            trace.append(p)
            u = u + p @ c
        return self.tables[-1] @ u, trace
