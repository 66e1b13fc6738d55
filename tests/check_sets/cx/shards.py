"""Attention over a key store which is spread over several workers (here: a list of arrays)."""
import numpy as np


def one_shard(q, k, v):
    """what a worker sends back: its own normalised answer and the log of its normaliser"""
    s = q @ k.T / np.sqrt(q.shape[1])
    top = s.max(axis=1, keepdims=True)
    e = np.exp(s - top)
    z = e.sum(axis=1, keepdims=True)
    lse = np.log2(z) + top * np.log2(np.e)
    return e @ v / z, lse[:, 0]


def combine(a, lse_a, b, lse_b):
    """answer and log-normaliser for the union of two disjoint shards"""
    top = np.maximum(lse_a, lse_b)
    wa = np.exp(lse_a - top)
    wb = np.exp(lse_b - top)
    total = wa + wb
    out = (a * wa[:, None] + b * wb[:, None]) / total[:, None]
    return out, top + np.log(total)


def spread_attention(q, keys, values):
    """q [n, d]; keys, values: lists of [m_i, d] and [m_i, e], each m_i >= 1.

    The same as softmax(q K^T / sqrt(d)) V with all the shards put together, in any number.
    """
    out, lse = one_shard(q, keys[0], values[0])
    for k, v in zip(keys[1:], values[1:]):
        out, lse = combine(out, lse, *one_shard(q, k, v))
    return out
