"""Pure numpy forward pass of the beacon localisation model (runs on the gateway, no torch there)."""
import numpy as np


def _softmax(a):
    a = a - a.max(axis=-1, keepdims=True)
    np.exp(a, out=a)
    a /= a.sum(axis=-1, keepdims=True)
    return a


class BeaconEncoder:
    """Self-attention over the beacons heard in one scan.

    scan    float (batch, beacons, features)
    count   int (batch,), number of beacons really heard (>= 1); the rest is filler
            at the end and must not influence anything

    __call__ gives one vector per scan: the mean over real beacons, (batch, dim).
    """

    def __init__(self, features=4, dim=16, heads=2, seed=0):
        rng = np.random.default_rng(seed)
        s = 1.0 / np.sqrt(dim)
        self.heads = heads
        self.w_in = rng.normal(0, 0.5, (features, dim))
        self.wq = rng.normal(0, s, (dim, dim))
        self.wk = rng.normal(0, s, (dim, dim))
        self.wv = rng.normal(0, s, (dim, dim))
        self.wo = rng.normal(0, s, (dim, dim))

    def _split(self, x):
        b, n, d = x.shape
        return x.reshape(b, n, self.heads, d // self.heads).swapaxes(1, 2)

    def attention(self, x, heard):
        q, k, v = self._split(x @ self.wq), self._split(x @ self.wk), self._split(x @ self.wv)
        score = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        score = np.where(heard[:, None, None, :], score, -np.inf)
        mixed = _softmax(score) @ v
        b, h, n, d = mixed.shape
        return mixed.swapaxes(1, 2).reshape(b, n, h * d) @ self.wo

    def __call__(self, scan, count):
        scan = np.asarray(scan, dtype=np.float64)
        heard = np.arange(scan.shape[1])[None, :] < np.asarray(count)[:, None]
        x = np.tanh(scan @ self.w_in)
        x = x + self.attention(x, heard)
        x = x * heard[..., None]
        return x.sum(axis=1) / heard.sum(axis=1, keepdims=True)
