import numpy as np


def normalise(s):
    s = np.exp(s - s.max(axis=-1, keepdims=True))
    return s / s.sum()


def sdpa(q, k, v, valid):
    """softmax(q k' / sqrt(d)) v for one sentence pair.

    q (Lq, d), k (Lk, d), v (Lk, e)
    valid (Lk,): 1 for words of the sentence, 0 for filler, which must get no weight
    """
    s = q @ k.T / np.sqrt(q.shape[-1])
    s = s + valid
    return normalise(s) @ v


def translate_step(target, source, valid, W):
    """Cross-attention with residual. target (Lq, d), source (Lk, d), W = dict with q, k, v, o, all (d, d)."""
    out = sdpa(target @ W["q"], source @ W["k"], source @ W["v"], valid)
    return target + out @ W["o"]
