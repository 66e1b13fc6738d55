"""End-to-end memory network on bAbI, prediction side only (NumPy notebook, cell 9-12 pasted together).

p_i = softmax(u . m_i)  -- for each question a distribution over ITS story's sentences
o   = sum_i p_i c_i
u'  = u + o             -- next hop
No scaling in front of the dot product (as in Sukhbaatar et al. 2015).
"""
import numpy as np


def bag(story, table):
    """story [B, S, W] word ids (0 = nothing), table [V, D], row 0 is zeros -> [B, S, D]"""
    return table[story].sum(axis=2)


def soft(x):
    e = np.exp(x - np.max(x))
    return e / e.sum()


class MemN2N:
    def __init__(self, vocab, dim, hops, seed=0):
        r = np.random.default_rng(seed)
        # adjacent weight tying: C of hop k is A of hop k+1
        self.T = [r.normal(0, 0.3, (vocab, dim)) for _ in range(hops + 1)]
        for t in self.T:
            t[0] = 0
        self.hops = hops

    def forward(self, story, question):
        """
        story    [B, S, W] int, every story has exactly S sentences
        question [B, W] int
        returns answer probabilities [B, vocab] (each row sums to 1) and the list of p, each [B, S]
        """
        u = self.T[0][question].sum(axis=1)
        ps = []
        for hop in range(self.hops):
            m = bag(story, self.T[hop])
            c = bag(story, self.T[hop + 1])
            p = soft(np.einsum("bd,bsd->bs", u, m))
            o = np.einsum("bs,bsd->bd", p, c)
            u = u + o
            ps.append(p)
        z = u @ self.T[self.hops].T
        z = np.exp(z - z.max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True), ps
