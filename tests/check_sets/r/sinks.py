import numpy as np


def attend_with_sinks(q, k, v, sinks, sliding_window=0):
    """Causal grouped attention with a learned sink per head, as gpt-oss has it.

    q: [tokens, kv_heads, group, d]     k, v: [tokens, kv_heads, d]     sinks: [kv_heads * group]
    -> [tokens, kv_heads * group * d]

    A sink is one more logit in the denominator to which no value belongs: rows of weights sum to less than one.
    sliding_window > 0: a token sees that many tokens, itself among them.
    """
    n, hk, g, d = q.shape
    qk = np.einsum("qhmd,khd->hmqk", q, k) * (1.0 / np.sqrt(d))
    i, j = np.ogrid[:n, :n]
    hidden = j > i
    if sliding_window > 0:
        hidden = hidden | (j <= i - sliding_window)
    qk = np.where(hidden, -np.inf, qk)

    s = np.broadcast_to(sinks.reshape(hk, g, 1, 1), (hk, g, n, 1))
    qk = np.concatenate([qk, s], axis=-1)
    qk = np.exp(qk - qk.max(axis=-1, keepdims=True))
    w = (qk / qk.sum(axis=-1, keepdims=True))[..., :-1]
    return np.einsum("hmqk,khd->qhmd", w, v).reshape(n, -1)
