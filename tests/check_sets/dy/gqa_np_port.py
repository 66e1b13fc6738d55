"""NumPy port of the grouped-query reader (torch version: layout B, L, H, d throughout).

grouped_attention(q, k, v, key_len) -> (B, Lq, H, d)
    q        (B, Lq, H, d)
    k, v     (B, Lk, G, d)   G key/value heads, H = r * G
    key_len  (B,) int        1..Lk valid keys (a prefix)
Query head h attends with key/value head h // r to the valid keys; scale 1/sqrt(d).
Must stand scores of any size: the torch version does.
"""
import numpy as np


def expand_groups(t, r):
    B, L, G, d = t.shape
    return np.tile(t, (1, r, 1, 1)).reshape(B, L, r * G, d)


def softmax(s):
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def grouped_attention(q, k, v, key_len):
    r = q.shape[2] // k.shape[2]
    k = expand_groups(k, r)
    v = expand_groups(v, r)
    scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    valid = np.arange(k.shape[1])[None, :] < key_len[:, None]
    scores = np.where(valid[:, None, None, :], scores, -np.inf)
    return np.einsum("bhij,bjhd->bihd", softmax(scores), v)
