"""
Risk score over a patient's visits. numpy only: this is the reference that the
hospital's validation team reads line by line.
"""
import numpy as np


def softmax_rows(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    e = np.exp(z)
    return e / np.sum(e, axis=-1, keepdims=True)


class VisitAttention:
    def __init__(self, n_codes=12, dim=8, seed=11):
        r = np.random.RandomState(seed)
        self.E = r.randn(n_codes, dim) * 0.4
        self.Wq = r.randn(dim, dim) / np.sqrt(dim)
        self.Wk = r.randn(dim, dim) / np.sqrt(dim)
        self.Wv = r.randn(dim, dim) / np.sqrt(dim)
        self.w_risk = r.randn(dim) * 0.5
        self.dim = dim

    def weights(self, h, valid):
        """Weights of visit i over the visits j, (patients, visits, visits).

        Each row is a distribution over the valid visits: invalid ones (cancelled,
        or filler up to the longest history) get zero.
        """
        q = h @ self.Wq
        k = h @ self.Wk
        logits = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(self.dim)
        p = softmax_rows(logits)
        return p * valid[:, None, :]

    def forward(self, codes, valid):
        """
        codes: (patients, visits, n_codes) multi-hot diagnosis codes
        valid: (patients, visits) 1/0
        returns the risk at each visit, (patients, visits), in 0..1
        """
        valid = np.asarray(valid, dtype=float)
        h = codes @ self.E
        p = self.weights(h, valid)
        h = h + np.matmul(p, h @ self.Wv)
        return 1.0 / (1.0 + np.exp(-(h @ self.w_risk)))
