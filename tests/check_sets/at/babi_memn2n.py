# End-To-End Memory Network for the bAbI tasks (forward only).
# Batched: stories [B, M, W] of word ids, questions [B, W], 0 is padding.
import re
import numpy as np


def tokenize(sent):
    return [w for w in re.split(r"(\W+)", sent.lower()) if w.strip()]


def vectorize(stories, vocab, mem_size, sent_len):
    S = np.zeros((len(stories), mem_size, sent_len), dtype=int)
    for i, story in enumerate(stories):
        for j, sent in enumerate(story[-mem_size:]):
            ids = [vocab[w] for w in tokenize(sent)][:sent_len]
            S[i, j, :len(ids)] = ids
    return S


def position_encoding(sent_len, dim):
    """Eq. in section 4.1: l_kj = (1 - j/J) - (k/d)(1 - 2j/J)."""
    j = np.arange(1, sent_len + 1)[:, None] / sent_len
    k = np.arange(1, dim + 1)[None, :] / dim
    return (1 - j) - k * (1 - 2 * j)


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


class MemN2N:
    """Adjacent weight tying: A^{k+1} = C^k, B = A^1, W^T = C^K."""

    def __init__(self, vocab_size, dim, mem_size, sent_len, hops=3, seed=0):
        rng = np.random.default_rng(seed)
        self.E = [rng.normal(0, 0.1, (vocab_size, dim)) for _ in range(hops + 1)]
        for e in self.E:
            e[0] = 0
        self.T = [rng.normal(0, 0.1, (mem_size, dim)) for _ in range(hops + 1)]
        self.hops = hops
        self.pe = position_encoding(sent_len, dim)

    def _embed(self, ids, table):
        return (table[ids] * self.pe).sum(-2)

    def attention(self, u, m):
        """Match of the state u [B, D] with the memories m [B, M, D].
        For each story a distribution over its memories is returned."""
        score = np.einsum("bd,bmd->bm", u, m)
        return softmax(score)

    def forward(self, stories, questions):
        u = self._embed(questions, self.E[0])
        used = (stories != 0).any(-1)
        hops = []
        for h in range(self.hops):
            m = self._embed(stories, self.E[h]) + self.T[h]
            c = self._embed(stories, self.E[h + 1]) + self.T[h + 1]
            # empty slots carry no content, not even the temporal vector
            m, c = m * used[..., None], c * used[..., None]
            p = self.attention(u, m)
            o = np.einsum("bm,bmd->bd", p, c)
            u = u + o
            hops.append(p)
        return u @ self.E[self.hops].T, hops

    def answer(self, stories, questions):
        logits, _ = self.forward(stories, questions)
        return logits.argmax(-1)


def accuracy(pred, gold):
    return float((np.asarray(pred) == np.asarray(gold)).mean())
