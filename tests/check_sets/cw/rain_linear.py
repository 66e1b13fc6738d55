import numpy as np


def feature(x):
    """elu(x) + 1, always positive."""
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class RainMemory:
    """Kernel (linear) attention over a weather station's history, running forward in time.

    For every hour t the result is
        sum_{s<=t} f(q_t).f(k_s) v_s / sum_{s<=t} f(q_t).f(k_s)
    ``step`` consumes one hour, ``run`` a whole series (T, D); they agree.
    """

    def __init__(self, d_in, d_key, d_val, rng=None):
        rng = rng or np.random.default_rng(3)
        self.A = rng.standard_normal((d_in, d_key)) / np.sqrt(d_in)
        self.B = rng.standard_normal((d_in, d_key)) / np.sqrt(d_in)
        self.C = rng.standard_normal((d_in, d_val)) / np.sqrt(d_in)
        self.reset()

    def reset(self):
        self.S = np.zeros((self.A.shape[1], self.C.shape[1]))
        self.z = np.zeros(self.A.shape[1])

    def step(self, hour):
        q, k = feature(hour @ self.A), feature(hour @ self.B)
        self.S = self.S + np.outer(k, hour @ self.C)
        self.z = self.z + k
        return (q @ self.S) / (q @ self.z)

    def run(self, series):
        q, k, v = feature(series @ self.A), feature(series @ self.B), series @ self.C
        kv = np.cumsum(k[:, :, None] * v[:, None, :], axis=0)
        norm = np.einsum("tk,tk->t", q, np.cumsum(k, axis=0))
        return np.einsum("tk,tkv->tv", q, kv) / norm[:, None]
