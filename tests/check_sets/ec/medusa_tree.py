"""Medusa-style candidate tree, one forward pass of the attention core in NumPy.

The tree is given as paths: each candidate is a tuple of top-k choices, for example
[(0,), (1,), (0, 0), (0, 1), (0, 0, 0)].  Every prefix of a listed path is listed as well.
Node 0 of the tree is the root (the token just accepted), node 1 + n is the n-th path
after sorting by (length, path).

A candidate has to be evaluated as if the tokens along its path had been decoded one by
one: it reads the cached tokens, every node on the way from the root to itself, and itself.
"""
import numpy as np


def sort_paths(paths):
    return sorted(paths, key=lambda p: (len(p), p))


def tree_mask(paths):
    """(N, N) bool, True = row node may read column node; N = 1 + number of paths."""
    paths = sort_paths(paths)
    number = {(): 0}
    for n, p in enumerate(paths):
        number[p] = n + 1
    mask = np.eye(len(number), dtype=bool)
    for p in paths:
        mask[number[p], number[p[:-1]]] = True
    mask[:, 0] = True
    return mask


def tree_positions(paths, length):
    """Position id of every node: cache length + depth."""
    return length + np.array([0] + [len(p) for p in sort_paths(paths)])


def tree_attention(q, k, v, past_k, past_v, paths):
    """q, k, v (H, N, d) of the tree nodes; past_k, past_v (H, P, d).  -> (H, N, d)

    Positions must already be applied to q and the keys.
    """
    H, N, d = q.shape
    keys = np.concatenate([past_k, k], axis=1)
    vals = np.concatenate([past_v, v], axis=1)
    s = np.einsum("hnd,hmd->hnm", q, keys) / np.sqrt(d)
    seen = np.concatenate([np.ones((N, past_k.shape[1]), bool), tree_mask(paths)], axis=1)
    s = np.where(seen, s, -np.inf)
    s = s - s.max(axis=-1, keepdims=True)
    w = np.exp(s)
    w = w / w.sum(axis=-1, keepdims=True)
    return np.einsum("hnm,hmd->hnd", w, vals)
