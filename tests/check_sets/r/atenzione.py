import numpy as np


class Attenzione:
    """Attenzione a prodotto scalare: per ogni interrogazione una distribuzione di probabilità sulle chiavi.

    interrogazioni: (n, d)    chiavi: (m, d)    valori: (m, p)    ->  (n, p)
    """

    def __init__(self, d_ingresso=7, d_testa=5, seme=0):
        caso = np.random.default_rng(seme)
        self.P_i = caso.normal(size=(d_ingresso, d_testa))
        self.P_c = caso.normal(size=(d_ingresso, d_testa))

    def pesi(self, interrogazioni, chiavi):
        a = interrogazioni @ self.P_i
        b = chiavi @ self.P_c
        punteggi = a @ b.T / np.sqrt(a.shape[1])
        e = np.exp(punteggi - np.max(punteggi))
        return e / np.sum(e)

    def __call__(self, interrogazioni, chiavi, valori):
        return self.pesi(interrogazioni, chiavi) @ valori
