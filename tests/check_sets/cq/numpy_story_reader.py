"""End-to-end memory network (Sukhbaatar et al. 2015) for bAbI, forward pass in NumPy.

    p_i = softmax(u . m_i),  o = sum_i p_i c_i,  u' = H u + o         (K hops)
"""
import numpy as np


def gentle_exp_ratio(z, axis=-1):
    """softmax along `axis`"""
    ceil = z.max(axis=axis, keepdims=True)
    up = np.exp(z - ceil)
    down = np.exp(z).sum(axis=axis, keepdims=True)
    return up / down


def position_encoding(words, width):
    """l_kj of the paper, (words, width)"""
    j = np.arange(1, words + 1)[:, None]
    k = np.arange(1, width + 1)[None, :]
    return (1 - j / words) - (k / width) * (1 - 2 * j / words)


class StoryReader:
    def __init__(self, vocab=30, width=16, hops=3, max_lines=20, seed=0):
        rng = np.random.default_rng(seed)
        self.hops, self.width = hops, width
        self.A = rng.normal(0, 0.3, (vocab, width))
        self.B = rng.normal(0, 0.3, (vocab, width))
        self.C = rng.normal(0, 0.3, (vocab, width))
        self.TA = rng.normal(0, 0.1, (max_lines, width))
        self.TC = rng.normal(0, 0.1, (max_lines, width))
        self.H = rng.normal(0, width ** -0.5, (width, width))
        self.W = rng.normal(0, width ** -0.5, (width, vocab))

    def encode(self, table, ids):
        """bag of words with position encoding; id 0 is empty. (..., words) -> (..., width)"""
        vecs = table[ids] * (ids != 0)[..., None]
        return (vecs * position_encoding(ids.shape[-1], self.width)).sum(axis=-2)

    def recall(self, u, m, c, lines_used):
        """One hop. u: (B, width), m and c: (B, N, width), lines_used: (B, N) bool (never empty).
        Returns o (B, width) and the probabilities p (B, N) over the lines of the story."""
        match = np.einsum("bw,bnw->bn", u, m)
        match = np.where(lines_used, match, -np.inf)
        p = gentle_exp_ratio(match, axis=1)
        return np.einsum("bn,bnw->bw", p, c), p

    def forward(self, story, question):
        """story: (B, N, words) ids, unused lines are all 0; question: (B, words) ids.
        Returns answer logits (B, vocab) and the list of p, one per hop."""
        used = (story != 0).any(axis=-1)
        n = story.shape[1]
        m = self.encode(self.A, story) + self.TA[:n]
        c = self.encode(self.C, story) + self.TC[:n]
        u = self.encode(self.B, question)
        trace = []
        for _ in range(self.hops):
            o, p = self.recall(u, m, c, used)
            u = u @ self.H + o
            trace.append(p)
        return u @ self.W, trace
