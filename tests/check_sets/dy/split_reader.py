"""Search back end, NumPy reference of split-K decoding used in the nightly comparison.

split_read(q, k, v, parts) -> (B, H, d)
    q     (B, H, d)      one new query per head
    k, v  (B, H, N, d)   the whole cache
    parts int            1..N, number of pieces the cache is cut into (need not divide N)
Whatever `parts` is, the result equals softmax(q k^T / sqrt(d)) v over all N keys.
Every piece gives its own softmax answer and its log-sum-exp; the pieces are then averaged
with weights proportional to their sums of exponentials.
"""
import numpy as np


def read_piece(q, k, v):
    s = np.einsum("bhd,bhnd->bhn", q, k) / np.sqrt(q.shape[-1])
    m = s.max(axis=-1, keepdims=True)
    e = np.exp(s - m)
    z = e.sum(axis=-1, keepdims=True)
    answer = np.einsum("bhn,bhnd->bhd", e / z, v)
    lse = m * np.log2(np.e) + np.log2(z)
    return answer, lse


def merge(answers, lses):
    top = np.max(lses, axis=0)
    w = [np.exp(l - top) for l in lses]
    norm = sum(w)
    return sum(a * (x / norm) for a, x in zip(answers, w))


def split_read(q, k, v, parts):
    pieces = zip(np.array_split(k, parts, axis=2), np.array_split(v, parts, axis=2))
    results = [read_piece(q, kk, vv) for kk, vv in pieces]
    return merge([a for a, _ in results], [l for _, l in results])
