"""End-to-end memory network on bAbI (Sukhbaatar et al. 2015), forward pass in NumPy."""
import numpy as np


def softmax(u):
    e = np.exp(u - np.max(u))
    return e / np.sum(np.exp(u))


class MemN2N:
    """Adjacent weight tying: A^{k+1} = C^k, B = A^1, W^T = C^K.

    ``tables`` is a list of K + 1 embedding tables (V, d); word 0 is the null word and
    its row is zero in every table.
    """

    def __init__(self, tables):
        self.tables = tables
        self.K = len(tables) - 1
        self.d = tables[0].shape[1]

    def position(self, J):
        """Position encoding of the paper, (J, d): l_kj = (1 - j/J) - (k/d)(1 - 2j/J), 1-based."""
        j = np.arange(1, J + 1)[:, None]
        k = np.arange(1, self.d + 1)[None, :]
        return (1 - j / J) - (k / self.d) * (1 - 2 * j / J)

    def bag(self, table, words):
        """words (..., J) ids -> (..., d): position-weighted sum of embeddings."""
        return np.sum(table[words] * self.position(words.shape[-1]), axis=-2)

    def answer(self, story, question):
        """story (S, J) ids of the sentences, question (J,) ids -> scores (V,) of the answer.

        Hop k:  p = softmax(M u) over the S sentences, with M = bag(A^k) of the story
                (inner product, no temperature);  o = p @ bag(C^k);  u <- u + o.
        The p of each hop are kept in ``self.trace`` (each of shape (S,), sums to one).
        Finally scores = table_K @ u.
        """
        self.trace = []
        u = self.bag(self.tables[0], question)
        for k in range(self.K):
            m = self.bag(self.tables[k], story)
            c = self.bag(self.tables[k + 1], story)
            p = softmax(m @ u)
            self.trace.append(p)
            u = u + p @ c
        return self.tables[-1] @ u
