"""Memory network for recipe question answering.

    hops: u <- u + sum_i p_i c_i ,  p = softmax(u . m_i)

End-to-end memory network (Sukhbaatar et al. 2015), "adjacent" weight tying:
the output embedding of a hop is the input embedding of the next.  The plain dot
product, without a factor, is what the paper defines.
"""
import re

import numpy as np


def tokens(text):
    return re.findall(r"[a-zäöüß]+", text.lower())


class Vocabulary:
    def __init__(self):
        self.ids = {"<pad>": 0}

    def __call__(self, word):
        return self.ids.setdefault(word, len(self.ids))

    def __len__(self):
        return len(self.ids)


def position_encoding(n_words, dim):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J), with j and k starting at 1."""
    j = np.arange(1, n_words + 1)[:, None] / n_words
    k = np.arange(1, dim + 1)[None, :] / dim
    return (1 - j) - k * (1 - 2 * j)


def softmax(x, axis=-1):
    x = x - np.max(x, axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class MemoryReader:
    """tables: list of hops + 1 matrices [vocab, dim]; times: the same number of [max_sent, dim]."""

    def __init__(self, tables, times):
        assert len(tables) == len(times) >= 2
        self.tables, self.times = tables, times
        self.dim = tables[0].shape[1]

    def bag(self, table, sent):
        ids = [i for i in sent if i != 0]
        if not ids:
            return np.zeros(self.dim)
        return (table[ids] * position_encoding(len(ids), self.dim)).sum(0)

    def memory(self, hop, story):
        rows = np.stack([self.bag(self.tables[hop], s) for s in story])
        return rows + self.times[hop][: len(story)][::-1]     # the newest sentence gets index 0

    def read(self, story, question):
        """story: list of lists of ids, question: list of ids -> (u [dim], weights [hops, sentences])"""
        u = self.bag(self.tables[0], question)
        trace = []
        for hop in range(len(self.tables) - 1):
            m = self.memory(hop, story)
            c = self.memory(hop + 1, story)
            p = softmax(m @ u)
            u = u + p @ c
            trace.append(p)
        return u, np.array(trace)

    def answer(self, story, question):
        u, _ = self.read(story, question)
        return softmax(self.tables[-1] @ u)


if __name__ == "__main__":
    voc = Vocabulary()
    story = [[voc(w) for w in tokens(s)] for s in ("Melt the butter", "Add sugar", "Bake it for an hour")]
    q = [voc(w) for w in tokens("What comes after the butter")]
    rng = np.random.default_rng(0)
    net = MemoryReader([rng.normal(0, .1, (len(voc), 20)) for _ in range(4)],
                       [rng.normal(0, .1, (10, 20)) for _ in range(4)])
    print(net.read(story, q)[1].round(3))
