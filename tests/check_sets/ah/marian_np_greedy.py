"""Traducteur neuronal minimal : décodeur post-norm façon Marian, en NumPy, poids dans un dict plat.

Noms des poids : dec.{i}.self.Wq, dec.{i}.croise.Wk, ... (forme [entree, sortie], biais bq, bk, ...).
masque_src : [lot, Ls], 1.0 pour un mot, 0.0 pour le bourrage.
"""
import numpy as np


def norme(x, g, b, eps=1e-6):
    m = x.mean(-1, keepdims=True)
    return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + eps) * g + b


def doux_max(s):
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


def sinus(pos, dim):
    i = np.arange(dim // 2)
    ang = np.asarray(pos)[:, None] / 10000 ** (2 * i / dim)
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=-1)     # ordre Marian : sinus puis cosinus


class Decodeur:
    def __init__(self, poids, couches, tetes):
        self.p, self.couches, self.tetes = poids, couches, tetes
        self.dim = poids["emb"].shape[1]

    def _aff(self, x, nom, quoi):
        return x @ self.p[f"{nom}.W{quoi}"] + self.p[f"{nom}.b{quoi}"]

    def _tetes(self, x):
        lot, L, _ = x.shape
        return x.reshape(lot, L, self.tetes, -1).transpose(0, 2, 1, 3)

    def attention(self, nom, x, cles, valeurs, masque=None):
        """x [lot, 1, dim] ; cles, valeurs [lot, tetes, L, d] ; masque [lot, L]"""
        q = self._tetes(self._aff(x, nom, "q"))
        s = np.einsum("bhqd,bhkd->bhqk", q, cles) / np.sqrt(self.dim // self.tetes)
        if masque is not None:
            s = np.where(masque[:, None, None, :] > 0, s, -1e30)
        c = np.einsum("bhqk,bhkd->bqhd", doux_max(s), valeurs)
        return self._aff(c.reshape(x.shape), nom, "o")

    def debut(self, memoire, masque_src):
        etat = {"t": 0, "masque": masque_src, "soi": [None] * self.couches, "src": []}
        for i in range(self.couches):
            n = f"dec.{i}.croise"
            etat["src"].append((self._tetes(self._aff(memoire, n, "k")), self._tetes(self._aff(memoire, n, "v"))))
        return etat

    def pas(self, mots, etat):
        """un mot par phrase -> log-probabilités [lot, vocabulaire]"""
        x = self.p["emb"][mots][:, None] * np.sqrt(self.dim) + sinus([etat["t"]], self.dim)
        for i in range(self.couches):
            n = f"dec.{i}.self"
            k, v = self._tetes(self._aff(x, n, "k")), self._tetes(self._aff(x, n, "v"))
            if etat["soi"][i] is not None:
                k = np.concatenate([etat["soi"][i][0], k], axis=2)
                v = np.concatenate([etat["soi"][i][1], v], axis=2)
            etat["soi"][i] = (k, v)
            x = norme(x + self.attention(n, x, k, v), self.p[f"dec.{i}.n1g"], self.p[f"dec.{i}.n1b"])
            n = f"dec.{i}.croise"
            y = self.attention(n, x, *etat["src"][i], masque=etat["masque"])
            x = norme(x + y, self.p[f"dec.{i}.n2g"], self.p[f"dec.{i}.n2b"])
            f = np.maximum(x @ self.p[f"dec.{i}.f1"], 0) @ self.p[f"dec.{i}.f2"]
            x = norme(x + f, self.p[f"dec.{i}.n3g"], self.p[f"dec.{i}.n3b"])
        etat["t"] += 1
        z = x[:, 0] @ self.p["emb"].T
        z = z - z.max(-1, keepdims=True)
        return z - np.log(np.exp(z).sum(-1, keepdims=True))


def poids_au_hasard(dim=16, voc=30, couches=2, graine=0):
    r = np.random.default_rng(graine)
    p = {"emb": r.standard_normal((voc, dim)) * dim**-0.5}
    for i in range(couches):
        for a in ("self", "croise"):
            for q in "qkvo":
                p[f"dec.{i}.{a}.W{q}"] = r.standard_normal((dim, dim)) * dim**-0.5
                p[f"dec.{i}.{a}.b{q}"] = r.standard_normal(dim) * 0.1
        for n in "123":
            p[f"dec.{i}.n{n}g"], p[f"dec.{i}.n{n}b"] = np.ones(dim), np.zeros(dim)
        p[f"dec.{i}.f1"] = r.standard_normal((dim, 2 * dim)) * dim**-0.5
        p[f"dec.{i}.f2"] = r.standard_normal((2 * dim, dim)) * (2 * dim) ** -0.5
    return p


def traduire(dec, memoire, masque_src, bos=1, eos=2, maxi=40):
    mots = np.full(len(memoire), bos)
    etat, sortie = dec.debut(memoire, masque_src), []
    fini = np.zeros(len(memoire), bool)
    for _ in range(maxi):
        mots = np.where(fini, eos, dec.pas(mots, etat).argmax(-1))
        sortie.append(mots)
        fini |= mots == eos
        if fini.all():
            break
    return np.stack(sortie, 1)
