"""
Dekodierschritt des Fahrplan-Modells (Verspätungsprognose), reines NumPy.

Statt Positionsvektoren wird ALiBi benutzt (Press et al. 2022): zu jedem Score kommt
``-m_h * (Abstand)`` hinzu, wobei der Abstand zwischen der Anfrage und einem früheren
Schlüssel in Zeitschritten gemessen wird.  Der Zwischenspeicher wächst mit jedem Aufruf;
neue Schritte dürfen auf alles Alte und auf sich selbst schauen.
"""
import math

import numpy as np


def steigungen(n):
    """Steigungen m_h; für n ohne Zweierpotenz wie im Code der Autoren."""

    def potenz(k):
        start = 2.0 ** (-(2.0 ** -(math.log2(k) - 3)))
        return [start * start ** i for i in range(k)]

    if math.log2(n).is_integer():
        return np.array(potenz(n))
    unten = 2 ** math.floor(math.log2(n))
    return np.array(potenz(unten) + potenz(2 * unten)[0::2][: n - unten])


class AlibiDecoder:
    def __init__(self, breite=24, koepfe=6, seed=0):
        rng = np.random.default_rng(seed)
        s = 1.0 / math.sqrt(breite)
        self.koepfe = koepfe
        self.d = breite // koepfe
        self.W_q = rng.uniform(-s, s, (breite, breite))
        self.W_k = rng.uniform(-s, s, (breite, breite))
        self.W_v = rng.uniform(-s, s, (breite, breite))
        self.W_o = rng.uniform(-s, s, (breite, breite))
        self.m = steigungen(koepfe)
        self.leeren()

    def leeren(self):
        """Vergisst die bisherige Folge."""
        self.k = np.zeros((self.koepfe, 0, self.d))
        self.v = np.zeros((self.koepfe, 0, self.d))

    def _koepfe(self, x):
        return x.reshape(len(x), self.koepfe, self.d).transpose(1, 0, 2)

    def vorwaerts(self, x):
        """x: (neue Schritte, breite). Gibt die Ausgabe für die neuen Schritte zurück."""
        n = len(x)
        alt = self.k.shape[1]
        q = self._koepfe(x @ self.W_q)
        self.k = np.concatenate([self.k, self._koepfe(x @ self.W_k)], axis=1)
        self.v = np.concatenate([self.v, self._koepfe(x @ self.W_v)], axis=1)

        pos_q = alt + np.arange(n)[:, None]
        pos_k = np.arange(alt + n)[None, :]
        abstand = pos_q - pos_k
        s = q @ self.k.transpose(0, 2, 1) / math.sqrt(self.d)
        s = s - self.m[:, None, None] * abstand
        s = np.where(abstand >= 0, s, -np.inf)

        s = np.exp(s - s.max(-1, keepdims=True))
        a = s / s.sum(-1, keepdims=True)
        y = (a @ self.v).transpose(1, 0, 2).reshape(n, -1)
        return y @ self.W_o


if __name__ == "__main__":
    dec = AlibiDecoder()
    folge = np.random.default_rng(1).normal(size=(8, 24))
    ganz = dec.vorwaerts(folge)
    dec.leeren()
    stueck = np.vstack([dec.vorwaerts(folge[:5]), dec.vorwaerts(folge[5:7]), dec.vorwaerts(folge[7:])])
    print(np.abs(ganz - stueck).max())
