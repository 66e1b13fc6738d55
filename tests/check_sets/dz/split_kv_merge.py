"""Flash-decoding by hand: split a long KV cache into chunks, attend to each, merge.

q (H, d), K and V (L, H, d): one query token, L cached tokens, all visible.  Result (H, d) equals
plain attention softmax(q K^T / sqrt(d)) V whatever the number of splits.

Chunk results are combined by their log-sum-exp:  out = sum_c w_c out_c,  w = softmax_c(lse_c).
"""
import numpy as np

LOG2E = np.log2(np.e)


def attend_chunk(q, K, V):
    """One chunk -> (H, d) output, normalised inside the chunk, and its (H,) log-sum-exp.

    exp2 is what the GPU has in hardware, hence the scores are pre-multiplied by log2(e).
    """
    s = np.einsum("hd,lhd->hl", q, K) * (LOG2E / np.sqrt(q.shape[-1]))
    m = s.max(axis=-1)
    p = np.exp2(s - m[:, None])
    l = p.sum(axis=-1)
    out = np.einsum("hl,lhd->hd", p, V) / l[:, None]
    return out, m + np.log2(l)


def merge(outs, lses):
    """outs (C, H, d), lses (C, H) -> (H, d)"""
    w = np.exp(lses - lses.max(axis=0))
    w = w / w.sum(axis=0)
    return np.einsum("ch,chd->hd", w, outs)


def split_decode(q, K, V, splits=4):
    parts = [attend_chunk(q, k, v)
             for k, v in zip(np.array_split(K, splits), np.array_split(V, splits))]
    outs, lses = zip(*parts)
    return merge(np.stack(outs), np.stack(lses))
