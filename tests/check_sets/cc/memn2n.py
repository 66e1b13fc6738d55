"""End-to-end memory network (bAbI), forward pass.

Each hop reads the memory with softmax(u . m_i); the inner product is not scaled, as in
Sukhbaatar et al. 2015.  Adjacent weight tying: C of a hop is A of the next.
Sentences are bags of words with position encoding; id 0 is the null word and an
all-zero sentence is an empty slot, which is never read.
"""
import numpy as np


def position_encoding(sentence_size, dim):
    j = np.arange(1, sentence_size + 1)[:, None]
    k = np.arange(1, dim + 1)[None, :]
    return (1 - j / sentence_size) - (k / dim) * (1 - 2 * j / sentence_size)


class MemN2N:
    def __init__(self, vocab, dim, hops, memory_size, sentence_size, rng=None):
        rng = rng or np.random.RandomState(7)
        self.hops = hops
        self.E = rng.normal(0, 0.4, size=(hops + 1, vocab, dim))
        self.E[:, 0] = 0.0
        self.T = rng.normal(0, 0.1, size=(hops + 1, memory_size, dim))
        self.pe = position_encoding(sentence_size, dim)

    def _embed(self, ids, level):
        return (self.E[level][ids] * self.pe).sum(axis=-2)

    def _read(self, u, story, hop, empty):
        m = self._embed(story, hop) + self.T[hop]
        c = self._embed(story, hop + 1) + self.T[hop + 1]
        score = np.einsum("bd,bsd->bs", u, m)
        score[empty] = -np.inf
        score -= score.max(axis=1, keepdims=True)
        p = np.exp(score)
        p /= p.sum(axis=1, keepdims=True)
        return np.einsum("bs,bsd->bd", p, c), p

    def forward(self, story, query):
        """story [B, S, words], query [B, words] -> logits [B, vocab], list of weights

        Every story needs at least one sentence.
        """
        u = self._embed(query, 0)
        empty = (story == 0).all(axis=-1)
        probs = []
        for hop in range(self.hops):
            o, p = self._read(u, story, hop, empty)
            u = u + o
            probs.append(p)
        return u @ self.E[self.hops].T, probs

    def answer(self, story, query):
        return self.forward(story, query)[0].argmax(-1)


if __name__ == "__main__":
    net = MemN2N(vocab=20, dim=8, hops=3, memory_size=5, sentence_size=4)
    s = np.random.randint(1, 20, (2, 5, 4))
    s[1, 3:] = 0
    logits, p = net.forward(s, np.random.randint(1, 20, (2, 4)))
    print(logits.shape, p[0])
