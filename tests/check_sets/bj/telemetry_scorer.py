"""Détection d'anomalies sur télémétrie : attention causale en NumPy pur.

Le modèle est figé (poids appris ailleurs) ; ce module tourne sur la
passerelle, sans PyTorch.  Le biais causal est construit une seule fois, à la
taille maximale de la fenêtre, puis découpé pour chaque appel.
"""
import numpy as np


class AttentionCausale:
    """Une tête d'attention causale avec capteurs manquants.

    Paramètres
    ----------
    poids : dict avec 'Wq', 'Wk', 'Wv' (formes [c, d])
    n_max : longueur maximale d'une fenêtre
    """

    def __init__(self, poids, n_max=128):
        self.Wq = np.asarray(poids["Wq"], dtype=np.float64)
        self.Wk = np.asarray(poids["Wk"], dtype=np.float64)
        self.Wv = np.asarray(poids["Wv"], dtype=np.float64)
        self.n_max = n_max
        futur = np.triu(np.ones((n_max, n_max), dtype=bool), k=1)
        self._biais = np.where(futur, -np.inf, 0.0)

    def __call__(self, x, manquant=None):
        """x : [n, c] ; manquant : bool [n], True = mesure absente.

        Une mesure absente n'est vue par personne, sauf par elle-même (sa
        propre ligne garde la diagonale, pour ne jamais être vide).
        Renvoie (sortie [n, d], poids [n, n]).
        """
        n = x.shape[0]
        if n > self.n_max:
            raise ValueError("fenêtre trop longue")
        q, k, v = x @ self.Wq, x @ self.Wk, x @ self.Wv
        biais = self._biais[:n, :n]
        if manquant is not None:
            biais[:, manquant] = -np.inf
            np.fill_diagonal(biais, 0.0)
        s = q @ k.T / np.sqrt(q.shape[1]) + biais
        s = s - s.max(axis=1, keepdims=True)
        a = np.exp(s)
        a = a / a.sum(axis=1, keepdims=True)
        return a @ v, a


class Detecteur:
    """Prédit la mesure suivante et compare avec ce qui arrive."""

    def __init__(self, poids, seuil=3.0, n_max=128):
        self.att = AttentionCausale(poids, n_max)
        self.Wo = np.asarray(poids["Wo"], dtype=np.float64)
        self.seuil = seuil
        self.residus = []

    def observer(self, fenetre):
        """fenetre : [n, c], NaN pour une mesure absente. Renvoie (score, alarme)."""
        absent = np.isnan(fenetre).any(axis=1)
        x = np.nan_to_num(fenetre)
        sortie, _ = self.att(x[:-1], absent[:-1])
        prevu = sortie[-1] @ self.Wo
        if absent[-1]:
            return 0.0, False
        r = float(np.linalg.norm(prevu - x[-1]))
        self.residus.append(r)
        hist = np.array(self.residus[-200:])
        z = (r - hist.mean()) / (hist.std() + 1e-9)
        return z, z > self.seuil


def poids_aleatoires(c, d, graine=0):
    g = np.random.default_rng(graine)
    p = {n: g.normal(size=(c, d)) / np.sqrt(c) for n in ("Wq", "Wk", "Wv")}
    p["Wo"] = g.normal(size=(d, c)) / np.sqrt(d)
    return p


if __name__ == "__main__":
    det = Detecteur(poids_aleatoires(5, 8))
    flux = np.random.default_rng(3).normal(size=(40, 5))
    for t in range(10, 40):
        det.observer(flux[t - 10 : t])
    print(len(det.residus))
