"""Attention over river gauges whose records live on several workers (NumPy).

Each worker holds a shard of keys and values and answers a query batch with
(partial output, log2-sum): the normalised output over its own shard and the
logarithm *to base 2* of the sum of exp(score) over its shard, since the
kernels on the workers work with exp2.

combine() joins the answers; the result is exact attention over all gauges:
    softmax(q K^T / sqrt(d)) V   with K, V the concatenation of the shards.

q (n, d), shard = (K (m, d), V (m, e)), m >= 1 may differ between the shards.
"""
import numpy as np

LOG2E = np.log2(np.e)


def worker_answer(q, K, V):
    s = q @ K.T / np.sqrt(q.shape[1]) * LOG2E
    top = s.max(axis=1, keepdims=True)
    p = np.exp2(s - top)
    z = p.sum(axis=1, keepdims=True)
    return (p / z) @ V, (top + np.log2(z))[:, 0]


def combine(outs, lses):
    """outs: list of (n, e); lses: list of (n,) as the workers send them"""
    L = np.stack(lses)                                   # workers, n
    top = L.max(axis=0)
    w = np.exp(L - top)
    w = w / w.sum(axis=0)
    return np.einsum("wn,wne->ne", w, np.stack(outs))


def sharded_attention(q, shards):
    answers = [worker_answer(q, K, V) for K, V in shards]
    return combine([a[0] for a in answers], [a[1] for a in answers])


def flood_level(q, shards, w):
    """w (e,) -> predicted level (n,)"""
    return sharded_attention(q, shards) @ w
