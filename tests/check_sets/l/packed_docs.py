import numpy as np


def document_attention(q, k, v, doc):
    """Causal attention inside documents that are packed into one row.

    q, k, v (H, T, D); doc (T,) integers: position t may look at s <= t where doc[s] == doc[t].
    """
    t = np.arange(q.shape[1])
    ok = (t[:, None] >= t) & (doc[:, None] == doc)
    s = np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])
    s = np.where(ok, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return np.einsum("hts,hsd->htd", p / p.sum(-1, keepdims=True), v)
