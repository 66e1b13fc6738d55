import numpy as np


class KeyValueMemory:
    """Key-value memory read by a batch of queries, several hops.

    queries (B, T, d), memory keys (B, M, d), memory values (B, M, dv = d)
    """

    def __init__(self, d, hops=2, seed=0):
        r = np.random.RandomState(seed)
        self.d, self.hops = d, hops
        self.R = [r.randn(d, d) / np.sqrt(d) for _ in range(hops)]
        self.A = r.randn(d, d) / np.sqrt(d)
        self.B = r.randn(d, d) / np.sqrt(d)

    def _address(self, q, keys):
        z = q.dot(self.A) @ np.swapaxes(keys.dot(self.B), 1, 2) / np.sqrt(self.d)
        z = z - z.max(axis=1, keepdims=True)
        p = np.exp(z)
        return p / p.sum(axis=1, keepdims=True)

    def read(self, q, keys, values):
        """weighted sum of the values: every query spreads a weight of one over the M slots"""
        p = self._address(q, keys)
        return p @ values

    def __call__(self, q, keys, values):
        for R in self.R:
            o = self.read(q, keys, values)
            q = (q + o) @ R
        return q
