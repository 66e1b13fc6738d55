"""Mixing of station-like grid cells for a toy limited-area weather model.

Every cell looks at every other one.  On top of the content term there is a
penalty that grows linearly with the great-circle distance, so that a cell in
Norway does not care too much about Sicily.
"""
import numpy as np

EARTH_KM = 6371.0


def great_circle(lat, lon):
    """lat, lon: (N,) degrees -> (N, N) distances in km (haversine)."""
    la, lo = np.radians(lat), np.radians(lon)
    dla = la[:, None] - la[None, :]
    dlo = lo[:, None] - lo[None, :]
    h = np.sin(dla / 2) ** 2 + np.cos(la)[:, None] * np.cos(la)[None, :] * np.sin(dlo / 2) ** 2
    return 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(h, 0.0, 1.0)))


class CellMixer:
    def __init__(self, n_feat, heads=4, width=8, reach_km=800.0, seed=0):
        rng = np.random.default_rng(seed)
        self.heads, self.width = heads, width
        # every head gets its own reach: 800, 1600, 3200, ...
        self.reach = reach_km * 2.0 ** np.arange(heads)
        s = n_feat ** -0.5
        self.wq, self.wk, self.wv = (rng.normal(0, s, (n_feat, heads, width)) for _ in range(3))
        self.wo = rng.normal(0, (heads * width) ** -0.5, (heads, width, n_feat))

    def __call__(self, x, lat, lon, usable=None):
        """x: (T, N, n_feat), one slice per time step; usable: (N,) bool or None.

        Returns (T, N, n_feat); without any usable cell x comes back unchanged.
        """
        if usable is not None and not usable.any():
            return x.copy()
        q = np.einsum("tnf,fhd->thnd", x, self.wq)
        k = np.einsum("tnf,fhd->thnd", x, self.wk)
        v = np.einsum("tnf,fhd->thnd", x, self.wv)
        logit = np.einsum("thnd,thmd->thnm", q, k) / np.sqrt(self.width)
        logit = logit - great_circle(lat, lon) / self.reach[:, None, None]
        if usable is not None:
            logit = np.where(usable[None, None, None, :], logit, -np.inf)
        w = np.exp(logit - logit.max(axis=-1, keepdims=True))
        w /= w.sum(axis=-1, keepdims=True)
        y = np.einsum("thnm,thmd->thnd", w, v)
        return x + np.einsum("thnd,hdf->tnf", y, self.wo)
