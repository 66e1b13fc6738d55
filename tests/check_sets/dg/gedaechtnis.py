import numpy as np


class Gedaechtnis:
    """Assoziativspeicher (modernes Hopfield-Netz), Kosinus als Energie.

    schluessel: (M, D), werte: (M, E)
    abrufen(frage): frage (N, D) -> (N, E)
    """

    def __init__(self, dim, log_beta=2.0):
        self.dim = dim
        self.log_beta = log_beta
        self.schluessel = np.zeros((0, dim))
        self.werte = None

    def speichern(self, schluessel, werte):
        self.schluessel = np.concatenate([self.schluessel, schluessel], axis=0)
        self.werte = werte if self.werte is None else np.concatenate([self.werte, werte], axis=0)

    @staticmethod
    def _einheit(a):
        return a / (np.linalg.norm(a, axis=-1, keepdims=True) + 1e-8)

    def abrufen(self, frage):
        aehnlich = self._einheit(frage) @ self._einheit(self.schluessel).T
        e = np.exp(self.log_beta) * aehnlich
        e -= e.max(axis=1, keepdims=True)
        p = np.exp(e)
        p /= p.sum(axis=1, keepdims=True)
        return p @ self.werte


def nachschlagen(frage, schluessel, werte, log_beta=2.0):
    g = Gedaechtnis(schluessel.shape[1], log_beta)
    g.speichern(schluessel, werte)
    return g.abrufen(frage)
