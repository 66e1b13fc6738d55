import numpy as np


def attend_with_past(q, k, v):
    """Causal attention of the newest T tokens over all S tokens so far (S >= T; the queries are the last T of them).

    q (H, T, D), k and v (H, S, D)
    """
    t, s = q.shape[1], k.shape[1]
    visible = np.tri(t, s, dtype=bool)
    logits = np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])
    logits = np.where(visible, logits, -np.inf)
    logits = logits - np.max(logits, -1, keepdims=True)
    w = np.exp(logits)
    w /= np.sum(w, -1, keepdims=True)
    return np.einsum("hts,hsd->htd", w, v)
