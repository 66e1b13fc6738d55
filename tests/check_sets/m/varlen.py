import numpy as np


def varlen_attention(q, k, v, cu_seqlens):
    """Sequences of different lengths, one after the other without padding.

    q, k, v: (total, heads, dim); cu_seqlens: (n + 1,) offsets, sequence i is cu_seqlens[i]:cu_seqlens[i + 1].
    """
    out = np.empty((q.shape[0], q.shape[1], v.shape[2]))
    for a, b in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        logits = np.einsum("thd,shd->hts", q[a:b], k[a:b]) / np.sqrt(q.shape[2])
        logits = logits - np.amax(logits, axis=2, keepdims=True)
        probs = np.exp(logits)
        probs = probs / np.sum(probs, axis=2, keepdims=True)
        out[a:b] = np.einsum("hts,shd->thd", probs, v[a:b])
    return out
