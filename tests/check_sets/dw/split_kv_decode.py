"""Flash-decoding in NumPy: the KV cache is cut into splits, each split is attended to on its own,
and the partial results are merged with their log-sum-exps.

decode(q, k_cache, v_cache, n_splits=4, softcap=None)
    q        (H, d)       query of the newest token
    k_cache  (L, H, d)    v_cache the same; all L entries are valid, n_splits <= L
    softcap  None, or a positive number c: scaled logits s become c * tanh(s / c)
returns (H, d): softmax over all L entries of the (capped) logits q.k/sqrt(d), times v -- the same
number for every n_splits.
"""
import numpy as np


def one_split(q, k, v, scale, softcap):
    """-> partial output (H, d), already normalised, and the lse (H,) of the split"""
    s = np.einsum("hd,lhd->hl", q, k) * scale
    m = s.max(axis=1)
    w = np.exp(s - m[:, None])
    total = w.sum(axis=1)
    o = np.einsum("hl,lhd->hd", w, v) / total[:, None]
    lse = m * np.log2(np.e) + np.log2(total)
    return o, lse


def merge(parts):
    os = np.stack([o for o, _ in parts])             # n, H, d
    lses = np.stack([l for _, l in parts])           # n, H
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return np.einsum("nh,nhd->hd", w, os)


def decode(q, k_cache, v_cache, n_splits=4, softcap=None):
    scale = 1.0 / np.sqrt(q.shape[-1])
    pieces = zip(np.array_split(k_cache, n_splits), np.array_split(v_cache, n_splits))
    return merge([one_split(q, k, v, scale, softcap) for k, v in pieces])
