"""End-to-end memory network for the bAbI tasks; plain NumPy inference.

Weights come as a dict, adjacent tying: memory of hop k is read with
emb[k] as input and emb[k + 1] as output embedding.  Index 0 is the pad word.
"""
import numpy as np


def position_encoding(words, dim):
    """l_kj = (1 - j/J) - (k/d)(1 - 2j/J), j = 1..J, k = 1..d"""
    j = np.arange(1, words + 1)[:, None] / words
    k = np.arange(1, dim + 1)[None, :] / dim
    return (1 - j) - k * (1 - 2 * j)


def embed_sentences(table, ids):
    """ids [..., J] to sentence vectors [..., d]"""
    vec = table[ids] * position_encoding(ids.shape[-1], table.shape[1])
    return (vec * (ids != 0)[..., None]).sum(axis=-2)


def read_memory(u, m, c, alive):
    """One hop.  u [B,d], m and c [B,S,d], alive [B,S]; p_i = softmax(u . m_i), no scale (as published).

    A story without any sentence reads zero.
    """
    z = np.einsum("bd,bsd->bs", u, m)
    z = np.where(alive, z, -np.inf)
    top = z.max(axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(z - top)
    tot = e.sum(axis=1, keepdims=True)
    p = e / np.where(tot == 0, 1.0, tot)
    return np.einsum("bs,bsd->bd", p, c), p


class MemN2N:
    def __init__(self, weights, hops=3):
        self.w = weights
        self.hops = hops

    @classmethod
    def random(cls, vocab, dim, max_story=50, hops=3, seed=0):
        g = np.random.default_rng(seed)
        w = {f"emb{i}": g.normal(0, 0.1, (vocab, dim)) for i in range(hops + 1)}
        w.update({f"time{i}": g.normal(0, 0.1, (max_story, dim)) for i in range(hops + 1)})
        return cls(w, hops)

    def answer(self, story, question):
        """story [B,S,J] (most recent sentence first), question [B,J]; logits over the words."""
        alive = (story != 0).any(-1)
        s = story.shape[1]
        u = embed_sentences(self.w["emb0"], question)
        maps = []
        for hop in range(self.hops):
            m = embed_sentences(self.w[f"emb{hop}"], story) + self.w[f"time{hop}"][:s]
            c = embed_sentences(self.w[f"emb{hop + 1}"], story) + self.w[f"time{hop + 1}"][:s]
            o, p = read_memory(u, m, c, alive)
            maps.append(p)
            u = u + o
        return u @ self.w[f"emb{self.hops}"].T, maps


def accuracy(logits, gold):
    return float((logits.argmax(-1) == gold).mean())
