"""End-to-end memory network for the bAbI stories (Sukhbaatar et al., 2015), inference."""
import numpy as np


def softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=1, keepdims=True)


def position_encoding(n_words, d):
    """l_kj = (1 - j/J) - (k/d) (1 - 2j/J), j and k counted from 1"""
    j = np.arange(1, n_words + 1)[:, None] / n_words
    k = np.arange(1, d + 1)[None, :] / d
    return (1 - j) - k * (1 - 2 * j)


class MemN2N:
    """
    Adjacent weight tying: the output embedding of a hop is the input embedding of the next,
    the question uses the first one and the answer matrix is the last one.
    """

    def __init__(self, vocab, d=20, hops=3, max_sent=10, seed=0):
        rng = np.random.RandomState(seed)
        self.hops, self.d = hops, d
        self.E = [rng.normal(0, 0.3, (vocab, d)) for _ in range(hops + 1)]
        for e in self.E:
            e[0] = 0.0                       # nil word
        self.T = [rng.normal(0, 0.3, (max_sent, d)) for _ in range(hops + 1)]

    def _bow(self, ids, table):
        pe = position_encoding(ids.shape[-1], self.d)
        return (table[ids] * pe).sum(axis=-2)

    def hop(self, u, story, level):
        """u: (B, d) controller state, story: (B, S, W) word ids, all-zero sentences are padding"""
        n = story.shape[1]
        age = np.arange(n)[::-1]             # 0 = the newest sentence
        m = self._bow(story, self.E[level]) + self.T[level][age]
        c = self._bow(story, self.E[level + 1]) + self.T[level + 1][age]
        match = np.einsum("bd,bsd->bs", u, m)
        match = np.where((story > 0).any(-1), match, -1e30)
        p = softmax(match)                   # p_i = Softmax(u^T m_i)
        o = np.einsum("bs,bsd->bd", p, c)
        return u + o, p

    def forward(self, story, question, return_attention=False):
        u = self._bow(question, self.E[0])
        ps = []
        for k in range(self.hops):
            u, p = self.hop(u, story, k)
            ps.append(p)
        probs = softmax(u @ self.E[-1].T)
        return (probs, ps) if return_attention else probs


class Vocab(dict):
    def id(self, w):
        return self.setdefault(w.lower(), len(self) + 1)


def vectorize(sentences, vocab, width):
    out = np.zeros((len(sentences), width), dtype=int)
    for i, s in enumerate(sentences):
        for j, w in enumerate(s.split()[:width]):
            out[i, j] = vocab.id(w)
    return out
