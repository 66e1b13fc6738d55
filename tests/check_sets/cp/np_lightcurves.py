"""Multi-head attention on stellar light curves, plain NumPy (inference only).

Used on the telescope control PC where we are not allowed to install torch; the
weights are exported from the training cluster as an .npz with keys
wq, wk, wv, wo, all (d_model, d_model), applied as x @ w.
"""
import numpy as np


class LightCurveAttention:
    """Causal self attention with quality flags.

    Cadence t may use cadences 0..t whose flag is good. If there is no good
    cadence yet (start of a bad run) the attention output of that row is zero.
    """

    def __init__(self, d_model=16, n_heads=4, seed=0):
        assert d_model % n_heads == 0
        self.h = n_heads
        self.dh = d_model // n_heads
        rng = np.random.default_rng(seed)
        self.wq, self.wk, self.wv, self.wo = rng.normal(0, d_model ** -0.5, (4, d_model, d_model))

    def load(self, path):
        with np.load(path) as z:
            self.wq, self.wk, self.wv, self.wo = z["wq"], z["wk"], z["wv"], z["wo"]

    def _heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.h, self.dh).transpose(0, 2, 1, 3)

    @staticmethod
    def _masked_softmax(s, keep):
        s = np.where(keep, s, -np.inf)
        m = s.max(axis=-1, keepdims=True)
        m = np.where(np.isfinite(m), m, 0.0)
        e = np.exp(s - m)
        z = e.sum(axis=-1, keepdims=True)
        return e / np.where(z > 0, z, 1.0)

    def __call__(self, flux, good=None):
        """flux: (batch, cadences, d_model); good: (batch, cadences) bool, True = usable."""
        b, t, d = flux.shape
        q, k, v = (self._heads(flux @ w) for w in (self.wq, self.wk, self.wv))
        scores = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.dh)

        keep = np.tril(np.ones((t, t), dtype=bool))[None, None]
        if good is not None:
            keep = keep & np.asarray(good, dtype=bool)[:, None, None, :]
        p = self._masked_softmax(scores, keep)

        y = np.einsum("bhij,bhjd->bhid", p, v)
        y = y.transpose(0, 2, 1, 3).reshape(b, t, d)
        return y @ self.wo
