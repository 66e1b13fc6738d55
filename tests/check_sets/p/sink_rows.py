import numpy as np


def attention_with_sink(q, k, v, sink):
    """softmax over the keys and one more logit, `sink` (H,), which takes weight and gives nothing.

    q (H, T, D), k and v (H, S, D)
    """
    s = np.einsum("htd,hsd->hts", q, k) / np.sqrt(q.shape[-1])
    m = np.maximum(s.max(axis=-1), sink[:, None])
    e = np.exp(s - m[..., None])
    z = e.sum(axis=-1) + np.exp(sink[:, None])
    return np.einsum("hts,hsd->htd", e / z[..., None], v)
