# -*- coding: utf-8 -*-
"""Leçon 7 : traduire « 3 mars 2009 » en « 2009-03-03 » avec un décodeur attentif.

Tout est en NumPy, passe avant seulement ; les poids viennent d'un fichier .npz.
"""
import string

import numpy as np

MOIS = ("janvier février mars avril mai juin juillet août "
        "septembre octobre novembre décembre").split()
ENTREE = ["<vide>"] + list(string.ascii_lowercase + string.digits + " éû")
SORTIE = list(string.digits) + ["-"]


def encoder_texte(phrase, longueur):
    ids = [ENTREE.index(c) for c in phrase.lower() if c in ENTREE][:longueur]
    return np.array(ids + [0] * (longueur - len(ids)))


def sigmoide(x):
    return 1.0 / (1.0 + np.exp(-np.clip(x, -60, 60)))


class CelluleGRU:
    def __init__(self, n_e, n_h, rng):
        self.W = rng.normal(0, 0.2, (n_e, 3 * n_h))
        self.U = rng.normal(0, 0.2, (n_h, 3 * n_h))
        self.b = np.zeros(3 * n_h)
        self.n_h = n_h

    def pas(self, x, h):
        a, c = x @ self.W + self.b, h @ self.U
        n = self.n_h
        z = sigmoide(a[:, :n] + c[:, :n])
        r = sigmoide(a[:, n:2 * n] + c[:, n:2 * n])
        t = np.tanh(a[:, 2 * n:] + r * c[:, 2 * n:])
        return (1 - z) * h + z * t


def attention_additive(etat, annotations, Wa, Ua, va, vide=None):
    """Attention de Bahdanau.

    etat         (B, n)     dernier état du décodeur
    annotations  (B, T, m)  états de l'encodeur
    vide         (B, T)     vrai là où l'entrée est du remplissage

    score  e_j = va . tanh(Wa s + Ua h_j)
    rend   le contexte (B, m) et les poids (B, T)
    """
    energie = np.tanh((etat @ Wa)[:, None, :] + annotations @ Ua) @ va
    if vide is not None:
        energie = np.where(vide, -np.inf, energie)
    energie = energie - energie.max(axis=1, keepdims=True)
    poids = np.exp(energie)
    poids /= poids.sum(axis=1, keepdims=True)
    return np.einsum("bt,btm->bm", poids, annotations), poids


class Traducteur:
    def __init__(self, n_h=16, n_a=12, graine=0):
        r = np.random.default_rng(graine)
        self.E = r.normal(0, 0.3, (len(ENTREE), 10))
        self.D = r.normal(0, 0.3, (len(SORTIE) + 1, 10))
        self.avant, self.arriere = CelluleGRU(10, n_h, r), CelluleGRU(10, n_h, r)
        self.dec = CelluleGRU(10 + 2 * n_h, n_h, r)
        self.Wa, self.Ua = r.normal(0, 0.3, (n_h, n_a)), r.normal(0, 0.3, (2 * n_h, n_a))
        self.va = r.normal(0, 0.3, n_a)
        self.sortie = r.normal(0, 0.3, (3 * n_h, len(SORTIE)))
        self.n_h = n_h

    def encoder(self, ids):
        B, T = ids.shape
        x, plein = self.E[ids], (ids != 0)[..., None]
        av, ar = [], [None] * T
        h = g = np.zeros((B, self.n_h))
        for t in range(T):
            h = np.where(plein[:, t], self.avant.pas(x[:, t], h), h)
            av.append(h)
        for t in reversed(range(T)):
            g = np.where(plein[:, t], self.arriere.pas(x[:, t], g), g)
            ar[t] = g
        return np.concatenate([np.stack(av, 1), np.stack(ar, 1)], -1), g

    def traduire(self, ids, pas=10):
        H, s = self.encoder(ids)
        y = np.full(len(ids), len(SORTIE))
        textes, cartes = [], []
        for _ in range(pas):
            c, p = attention_additive(s, H, self.Wa, self.Ua, self.va, ids == 0)
            s = self.dec.pas(np.concatenate([self.D[y], c], -1), s)
            y = (np.concatenate([s, c], -1) @ self.sortie).argmax(-1)
            textes.append(y)
            cartes.append(p)
        lignes = ["".join(SORTIE[i] for i in l) for l in np.stack(textes, 1)]
        return lignes, np.stack(cartes, 1)


if __name__ == "__main__":
    lot = np.stack([encoder_texte(f"{j} {MOIS[m]} 2009", 18) for j, m in ((3, 2), (14, 6))])
    print(Traducteur().traduire(lot)[0])
