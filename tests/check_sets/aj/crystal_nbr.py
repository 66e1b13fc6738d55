"""Neighbour-list attention for crystals, numpy only (used to cross-check the Fortran code).

For each atom i the file gives up to M neighbours inside the cutoff (periodic images counted
as separate neighbours):
    nbr   int   [N, M]      atom index of the neighbour, -1 = free slot
    dist  float [N, M]      distance in Angstrom
"""
import numpy as np


def gaussian_basis(dist, cutoff=6.0, n=16):
    mu = np.linspace(0.0, cutoff, n)
    sig = mu[1] - mu[0]
    return np.exp(-((dist[..., None] - mu) ** 2) / (2 * sig ** 2))


def cosine_cutoff(dist, cutoff=6.0):
    return np.where(dist < cutoff, 0.5 * (np.cos(np.pi * dist / cutoff) + 1.0), 0.0)


def masked_softmax(s, keep, axis):
    """rows without any kept entry give zeros"""
    s = np.where(keep, s, -np.inf)
    top = s.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.where(keep, np.exp(s - top), 0.0)
    z = e.sum(axis=axis, keepdims=True)
    return e / np.where(z > 0, z, 1.0)


def neighbour_attention(h, nbr, dist, P, heads):
    """One head-wise attention over the neighbour slots.

    h [N, C] -> [N, C].  P holds Wq, Wk, Wv, Wo [C, C] and the radial maps
    Rk [n_basis, C] (multiplies keys) and Rb [n_basis, heads] (added to the logits).
    """
    N, C = h.shape
    M = nbr.shape[1]
    d = C // heads
    keep = nbr >= 0
    j = np.where(keep, nbr, 0)
    rbf = gaussian_basis(dist)

    q = (h @ P["Wq"]).reshape(N, heads, d)
    k = ((h @ P["Wk"])[j] * (rbf @ P["Rk"])).reshape(N, M, heads, d)
    v = (h @ P["Wv"])[j].reshape(N, M, heads, d)

    logit = np.einsum("nhd,nmhd->nmh", q, k) / np.sqrt(d) + rbf @ P["Rb"]
    a = masked_softmax(logit, keep[:, :, None], axis=1)
    # smooth switch-off at the cutoff radius, after the normalisation (energies stay continuous)
    a = a * cosine_cutoff(dist)[:, :, None]
    out = np.einsum("nmh,nmhd->nhd", a, v).reshape(N, C)
    return out @ P["Wo"]


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


class CrystalModel:
    def __init__(self, params, heads=4):
        self.p = params
        self.heads = heads

    def energy(self, Z, nbr, dist):
        h = self.p["embed"][Z]
        for blk in self.p["blocks"]:
            h = h + neighbour_attention(layer_norm(h), nbr, dist, blk, self.heads)
            u = layer_norm(h) @ blk["W1"] + blk["b1"]
            h = h + (u / (1 + np.exp(-u))) @ blk["W2"] + blk["b2"]
        return float((h @ self.p["readout"]).sum())


def neighbour_list(frac, cell, cutoff=6.0, M=24, images=1):
    n = len(frac)
    rng = range(-images, images + 1)
    shifts = np.array([(a, b, c) for a in rng for b in rng for c in rng])
    nbr = np.full((n, M), -1)
    dist = np.full((n, M), cutoff)
    for i in range(n):
        r = np.linalg.norm((frac[None] + shifts[:, None] - frac[i]) @ cell, axis=-1)
        s, j = np.nonzero((r < cutoff) & (r > 1e-8))
        order = np.argsort(r[s, j])[:M]
        nbr[i, : len(order)] = j[order]
        dist[i, : len(order)] = r[s, j][order]
    return nbr, dist


def init(C=32, n_blocks=2, heads=4, n_basis=16, seed=0):
    r = np.random.default_rng(seed)
    g = lambda *s: r.normal(0, s[0] ** -0.5, s)
    blocks = [dict(Wq=g(C, C), Wk=g(C, C), Wv=g(C, C), Wo=g(C, C), Rk=g(n_basis, C), Rb=g(n_basis, heads),
                   W1=g(C, 2 * C), b1=np.zeros(2 * C), W2=g(2 * C, C), b2=np.zeros(C)) for _ in range(n_blocks)]
    return dict(embed=r.normal(size=(100, C)), blocks=blocks, readout=g(C))
