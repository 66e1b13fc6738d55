"""Retention for sensor streams (Sun et al. 2023), without rotation and without group norm."""
import numpy as np


class DecayMixer:
    """out[t] = sum_{s<=t} gamma_h^(t-s) (q_t . k_s / sqrt(d)) v_s     for each head h

    gamma_h = 1 - 2^(-5-h), h = 0 .. H-1. There is no softmax in retention.
    parallel(x) and stream(x) agree; stream keeps one [d, d] state per head between calls,
    so that stream(a), stream(b) equals parallel(concat(a, b)).
    """

    def __init__(self, Wq, Wk, Wv, H):
        self.Wq, self.Wk, self.Wv, self.H = Wq, Wk, Wv, H
        self.d = Wq.shape[1] // H
        self.gamma = 1.0 - 2.0 ** (-5.0 - np.arange(H))
        self.state = np.zeros((H, self.d, self.d))

    def _split(self, x, W):
        return (x @ W).reshape(len(x), self.H, self.d)

    def parallel(self, x):
        q, k, v = (self._split(x, W) for W in (self.Wq, self.Wk, self.Wv))
        t = np.arange(len(x))
        lag = t[:, None] - t[None, :]
        decay = np.where(lag >= 0, self.gamma[:, None, None] ** np.maximum(lag, 0), 0.0)
        s = np.einsum("thd,shd->hts", q, k) / np.sqrt(self.d) * decay
        return np.einsum("hts,shd->thd", s, v).reshape(len(x), -1)

    def stream(self, x):
        q, k, v = (self._split(x, W) for W in (self.Wq, self.Wk, self.Wv))
        rows = []
        for t in range(len(x)):
            self.state = self.gamma[:, None, None] * self.state
            self.state = self.state + k[t][:, :, None] * v[t][:, None, :]
            rows.append(np.einsum("hd,hde->he", q[t], self.state).ravel() / np.sqrt(self.d))
        return np.array(rows)
