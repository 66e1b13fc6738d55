"""Packing short documents into one training row - numpy demo for the team wiki.

`doc_id` has one integer per token.  A token may look at earlier tokens and
itself, and only inside its own document, so that packing changes nothing
compared with running the documents one by one (positions restart as well).
"""
import numpy as np


def pack(docs, row_length):
    """docs: list of [n_i, D] arrays -> (row [row_length, D], doc_id [row_length]).

    The rest of the row is filled with zeros and gets the id -1.
    """
    used = sum(len(d) for d in docs)
    if used > row_length:
        raise ValueError("documents do not fit")
    row = np.zeros((row_length, docs[0].shape[1]))
    ids = np.full(row_length, -1)
    row[:used] = np.concatenate(docs)
    ids[:used] = np.repeat(np.arange(len(docs)), [len(d) for d in docs])
    return row, ids


def positions(doc_id):
    out = np.zeros(len(doc_id), dtype=int)
    for t in range(1, len(doc_id)):
        out[t] = out[t - 1] + 1 if doc_id[t] == doc_id[t - 1] else 0
    return out


class PackedLayer:
    def __init__(self, dim=12, n_heads=3, max_len=64, seed=1):
        rs = np.random.RandomState(seed)
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = rs.randn(4, dim, dim) / np.sqrt(dim)
        self.pos_table = rs.randn(max_len, dim) * 0.1

    def visible(self, doc_id):
        n = len(doc_id)
        same = doc_id[:, None] == doc_id[None, :]
        return (same & np.tri(n, dtype=bool)).astype(float)

    def forward(self, row, doc_id):
        """row [L, D], doc_id [L] -> [L, D]"""
        L, D = row.shape
        x = row + self.pos_table[positions(doc_id)]
        split = (L, self.n_heads, D // self.n_heads)
        q = (x @ self.wq).reshape(split).swapaxes(0, 1)
        k = (x @ self.wk).reshape(split).swapaxes(0, 1)
        v = (x @ self.wv).reshape(split).swapaxes(0, 1)

        scores = q @ k.swapaxes(1, 2) / np.sqrt(split[2])
        scores = scores * self.visible(doc_id)[None]
        scores = scores - scores.max(axis=2, keepdims=True)
        probs = np.exp(scores)
        probs /= probs.sum(axis=2, keepdims=True)
        y = (probs @ v).swapaxes(0, 1).reshape(L, D)
        return row + y @ self.wo
