"""Strukturierte Satzeinbettung nach Lin et al. (ICLR 2017), nur NumPy.

Übungsblatt 5, Aufgabe 2. Aus den verborgenen Zuständen H (n x u) eines Satzes
entstehen r Blickwinkel:

    A = softmax(W_s2 tanh(W_s1 H^T))      (r x n, jeder Blickwinkel ist eine
                                           Verteilung über die n Wörter)
    M = A H                               (r x u)

Dazu der Strafterm ||A A^T - I||_F^2, der die Blickwinkel auseinandertreibt.
Alle Funktionen arbeiten auf einem Stapel gleich langer Sätze.
"""
import numpy as np


def softmax_letzte_achse(x):
    x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return x / np.sum(x, axis=-1, keepdims=True)


class Elman:
    """Einfaches bidirektionales RNN als Ersatz für das BiLSTM des Artikels."""

    def __init__(self, eingang, verborgen, rng):
        self.Wx = rng.normal(0, eingang ** -0.5, (2, eingang, verborgen))
        self.Wh = rng.normal(0, 0.5 * verborgen ** -0.5, (2, verborgen, verborgen))

    def _lauf(self, X, richtung):
        h = np.zeros((X.shape[0], self.Wh.shape[-1]))
        folge = []
        for t in range(X.shape[1]):
            h = np.tanh(X[:, t] @ self.Wx[richtung] + h @ self.Wh[richtung])
            folge.append(h)
        return np.stack(folge, axis=1)

    def __call__(self, X):
        vor = self._lauf(X, 0)
        zurueck = self._lauf(X[:, ::-1], 1)[:, ::-1]
        return np.concatenate([vor, zurueck], axis=-1)


class SatzEinbettung:
    def __init__(self, woerter=50, dim=12, verborgen=8, d_a=10, r=4, seed=0):
        rng = np.random.default_rng(seed)
        self.tabelle = rng.normal(0, 1, (woerter, dim))
        self.rnn = Elman(dim, verborgen, rng)
        self.W_s1 = rng.normal(0, (2 * verborgen) ** -0.5, (d_a, 2 * verborgen))
        self.W_s2 = rng.normal(0, d_a ** -0.5, (r, d_a))

    def aufmerksamkeit(self, H):
        B, n, _ = H.shape
        e = np.tanh(H @ self.W_s1.T) @ self.W_s2.T          # B x n x r
        e = np.swapaxes(e, 1, 2)
        r = e.shape[1]
        A = softmax_letzte_achse(e.reshape(B, r * n))
        return A.reshape(B, r, n)

    def __call__(self, ids):
        """ids (B, n) -> M (B, r, u), A (B, r, n)"""
        H = self.rnn(self.tabelle[ids])
        A = self.aufmerksamkeit(H)
        return A @ H, A


def strafterm(A):
    G = A @ np.swapaxes(A, -1, -2) - np.eye(A.shape[1])
    return np.sum(G ** 2, axis=(1, 2))
