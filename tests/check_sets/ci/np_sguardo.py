"""Sguardo incrociato in NumPy: ogni parola della frase guarda le zone della foto.

``parole``: (B, P, D)    ``zone``: (B, Z, D)
``visibile``: (B, Z) booleano, vero = zona da guardare (almeno una per foto).
Ritorna le parole arricchite (B, P, D) e i pesi (B, P, Z); i pesi di ogni parola
sommano a uno.
"""
import numpy as np


class Sguardo:
    def __init__(self, D=12, interno=8, seme=0):
        g = np.random.default_rng(seme)
        self.interno = interno
        self.A = g.normal(size=(D, interno)) / np.sqrt(D)    # domande
        self.B = g.normal(size=(D, interno)) / np.sqrt(D)    # chiavi
        self.C = g.normal(size=(D, D)) / np.sqrt(D)          # valori

    @staticmethod
    def pesi(s):
        """softmax sull'ultima dimensione"""
        massimo = s.max(axis=-1, keepdims=True)
        alto = np.exp(s - massimo)
        basso = np.exp(s).sum(axis=-1, keepdims=True)
        return alto / basso

    @staticmethod
    def norma(x, eps=1e-5):
        m = x.mean(-1, keepdims=True)
        return (x - m) / np.sqrt(x.var(-1, keepdims=True) + eps)

    def __call__(self, parole, zone, visibile):
        domande = self.norma(parole) @ self.A
        chiavi = zone @ self.B
        s = np.einsum("bpi,bzi->bpz", domande, chiavi) / np.sqrt(self.interno)
        s = np.where(visibile[:, None, :], s, -1e9)
        w = self.pesi(s)
        return parole + w @ (zone @ self.C), w
