# Correlator-side attention over very long baselines.
#
# No single site holds all visibilities, so each site attends over its own part
# and ships back (output, lse). The hub then combines the partial results
# weighted by exp(lse), which equals attention over the union of all sites.
#
# The kernels at the sites work with powers of two, as their DSP has only exp2.

from typing import Iterable, List, Sequence, Tuple

import numpy as np

LOG2E = 1.4426950408889634
SITES = ("Effelsberg", "Onsala", "Medicina", "Yebes", "Sardinia")
C_M_PER_S = 299792458.0

Partial = Tuple[np.ndarray, np.ndarray]


def baseline_delay(xyz_a, xyz_b, source):
    """geometric delay in seconds; source is a unit vector"""
    return float(np.dot(np.asarray(xyz_b) - np.asarray(xyz_a), source)) / C_M_PER_S


def site_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> Partial:
    """Attention of q (h, n, d) over one site's k (h, m, d), v (h, m, e).

    Returns the normalised output (h, n, e) and the log-sum-exp (h, n).
    """
    s = np.einsum("hnd,hmd->hnm", q, k) * (LOG2E / np.sqrt(q.shape[-1]))
    top = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(axis=-1, keepdims=True)
    out = (p / total) @ v
    lse = (top + np.log2(total))[..., 0]
    return out, lse


def merge(parts: Sequence[Partial]) -> np.ndarray:
    lses = np.stack([lse for _, lse in parts])
    outs = np.stack([out for out, _ in parts])
    w = np.exp(lses - lses.max(axis=0))
    w /= w.sum(axis=0)
    return np.einsum("shn,shne->hne", w, outs)


def attend_over_sites(q, keys: Sequence, values: Sequence) -> np.ndarray:
    """q (h, n, d); keys[i] (h, m_i, d), values[i] (h, m_i, e) live at site i.

    Same result as softmax attention over all keys concatenated; sites that
    recorded nothing (m_i = 0) are left out.
    """
    q = np.asarray(q, dtype=np.float64)
    parts: List[Partial] = []
    for k, v in zip(keys, values):
        k, v = np.asarray(k, np.float64), np.asarray(v, np.float64)
        if k.shape[1]:
            parts.append(site_attention(q, k, v))
    if not parts:
        raise ValueError("no site has recorded anything")
    return merge(parts)


class Hub:
    """keeps one projection for the queries and one per site for its receiver"""

    def __init__(self, heads=2, channels=32, d=8, sites: Iterable[str] = SITES, seed=1):
        g = np.random.default_rng(seed)
        self.heads, self.d = heads, d
        self.wq = g.normal(size=(channels, heads * d)) / np.sqrt(channels)
        self.rx = {s: g.normal(size=(2, channels, heads * d)) / np.sqrt(channels) for s in sites}

    def _split(self, x):
        return x.reshape(x.shape[0], self.heads, self.d).transpose(1, 0, 2)

    def fringe_context(self, scan, recorded):
        """scan (n, channels); recorded {site: (m, channels)} -> (n, heads*d)"""
        q = self._split(scan @ self.wq)
        ks, vs = [], []
        for site, x in recorded.items():
            wk, wv = self.rx[site]
            ks.append(self._split(x @ wk))
            vs.append(self._split(x @ wv))
        y = attend_over_sites(q, ks, vs)
        return y.transpose(1, 0, 2).reshape(len(scan), -1)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    rec = {s: g.normal(size=(5 + i, 32)) for i, s in enumerate(SITES)}
    print(Hub().fringe_context(g.normal(size=(4, 32)), rec).shape)
