"""Search over very long court rulings: the key/value memory is kept on disk in shards.

Each shard is attended separately and the partial results are combined with the
log-sum-exp trick, which gives the attention over the whole memory.
"""
import os
import numpy as np

LOG2E = 1.4426950408889634


class ShardStore:
    """folder with k_000.npy, v_000.npy, ...; or a list of (k, v) for tests"""

    def __init__(self, source):
        self.source = source

    def __iter__(self):
        if isinstance(self.source, (list, tuple)):
            yield from self.source
            return
        names = sorted(n for n in os.listdir(self.source) if n.startswith("k_"))
        for n in names:
            k = np.load(os.path.join(self.source, n), mmap_mode="r")
            v = np.load(os.path.join(self.source, "v" + n[1:]), mmap_mode="r")
            yield k, v


def partial_attention(q, k, v):
    """q [n, d], k [m, d], v [m, e] -> (o [n, e], lse [n])

    scores are taken to base 2 beforehand, as exp2 is what the GPU twin of this code uses
    """
    s = (q @ np.asarray(k).T) * (LOG2E / np.sqrt(q.shape[1]))
    top = s.max(axis=1)
    p = np.exp2(s - top[:, None])
    den = p.sum(axis=1)
    return (p / den[:, None]) @ np.asarray(v), top + np.log2(den)


def combine(o_a, lse_a, o_b, lse_b):
    top = np.maximum(lse_a, lse_b)
    wa, wb = np.exp(lse_a - top), np.exp(lse_b - top)
    den = wa + wb
    o = (wa[:, None] * o_a + wb[:, None] * o_b) / den[:, None]
    return o, top + np.log(den)


def read_shards(q, store):
    """softmax(q K^T / sqrt(d)) V where K and V are all shards one after another"""
    out = None
    for k, v in store:
        part = partial_attention(q, k, v)
        out = part if out is None else combine(*out, *part)
    return out[0]


def chunk_text(text, size=400, overlap=50):
    words = text.split()
    step = size - overlap
    return [" ".join(words[i:i + size]) for i in range(0, max(1, len(words) - overlap), step)]


class RulingReader:
    def __init__(self, weights, store):
        self.w, self.store = weights, store

    def answer_vector(self, question_states):
        q = question_states @ self.w["q"]
        mem = read_shards(q, self.store)
        x = question_states + mem @ self.w["o"]
        return x.mean(axis=0)

    def rank(self, question_states, candidates):
        a = self.answer_vector(question_states)
        c = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
        return np.argsort(-(c @ a))
