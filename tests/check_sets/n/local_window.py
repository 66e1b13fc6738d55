import numpy as np


def local_causal_attention(q, k, v, window):
    """Causal attention in a sliding window.

    Each position attends to the `window` most recent positions, counting itself: window=1 is the position alone.
    q, k, v: (heads, length, dim)
    """
    length = q.shape[1]
    i = np.arange(length)[:, None]
    j = np.arange(length)[None, :]
    allowed = (j <= i) & (i - j <= window)
    logits = np.matmul(q, np.transpose(k, (0, 2, 1))) / np.sqrt(q.shape[2])
    logits = np.where(allowed, logits, np.finfo(logits.dtype).min)
    logits = logits - logits.max(axis=2, keepdims=True)
    w = np.exp(logits)
    return np.matmul(w / w.sum(axis=2, keepdims=True), v)
