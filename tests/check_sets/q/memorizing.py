import numpy as np


def knn_attention(q, mem_k, mem_v, top=3):
    """Attention of each query over its `top` nearest memories (largest inner product), as in retrieval-augmented models.

    q (n, d), mem_k (m, d), mem_v (m, c) -> (n, c)
    """
    out = np.zeros((len(q), mem_v.shape[1]), dtype=mem_v.dtype)
    for i, query in enumerate(q):
        sim = mem_k @ query / np.sqrt(len(query))
        idx = np.argsort(-sim)[:top]
        w = np.exp(sim[idx] - sim[idx].max())
        w /= w.sum()
        out[i] = w @ mem_v[np.sort(idx)]
    return out
