# End-To-End Memory Networks (Sukhbaatar et al. 2015), bAbI, inference in plain numpy.
# adjacent weight tying: C_k = A_{k+1}
import numpy as np


def position_encoding(J, d):
    j = np.arange(1, J + 1)[:, None]
    k = np.arange(1, d + 1)[None, :]
    return (1 - j / J) - (k / d) * (1 - 2 * j / J)


class MemN2N:
    def __init__(self, n_words=40, d=20, hops=3, max_sents=12, seed=1):
        r = np.random.RandomState(seed)
        self.hops, self.d = hops, d
        self.E = [r.randn(n_words, d) * 0.3 for _ in range(hops + 1)]
        for e in self.E:
            e[0] = 0.0                      # <pad>
        self.T = [r.randn(max_sents, d) * 0.3 for _ in range(hops + 1)]
        self.W = r.randn(d, n_words) * 0.3

    def _sents(self, tok, table):
        # tok: [B, n_sent, J] -> [B, n_sent, d]
        return (table[tok] * position_encoding(tok.shape[-1], self.d)).sum(axis=2)

    def __call__(self, story, question):
        """
        story:    int array [B, n_sent, J], 0 = pad, an all-zero sentence is empty
        question: int array [B, J]
        returns   answer distribution [B, n_words], attention [hops, B, n_sent]
        """
        n = story.shape[1]
        used = (story != 0).any(axis=-1)
        u = (self.E[0][question] * position_encoding(question.shape[-1], self.d)).sum(axis=1)
        ps = []
        for hop in range(self.hops):
            m = self._sents(story, self.E[hop]) + self.T[hop][:n][::-1]
            c = self._sents(story, self.E[hop + 1]) + self.T[hop + 1][:n][::-1]
            s = np.einsum('bnd,bd->bn', m, u)
            s = np.where(used, s, -1e30)
            s = s - s.max(axis=1, keepdims=True)
            p = np.exp(s)
            p = p / p.sum(axis=1, keepdims=True)
            u = u + np.einsum('bn,bnd->bd', p, c)
            ps.append(p)
        z = u @ self.W
        z = np.exp(z - z.max(axis=1, keepdims=True))
        return z / z.sum(axis=1, keepdims=True), np.stack(ps)
