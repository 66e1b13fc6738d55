"""Sprachsteuerung auf dem Mikrocontroller: Dekoder mit Ringpuffer (Referenz in NumPy).

Es werden nur die letzten `fenster` Token behalten (das aktuelle eingeschlossen). Der Puffer
wird reihum ueberschrieben; die Reihenfolge der Plaetze ist fuer Softmax ohne Belang, weil die
Drehung (RoPE, Haelften) die absolute Position schon im Schluessel traegt.
"""
import numpy as np


def drehen(x, pos, basis=10000.0):
    """x [H, d], d gerade; Paare (i, i + d/2)."""
    h = x.shape[-1] // 2
    w = pos * basis ** (-np.arange(h) / h)
    c, s = np.cos(w), np.sin(w)
    a, b = x[..., :h], x[..., h:]
    return np.concatenate([a * c - b * s, a * s + b * c], -1)


class RingAufmerksamkeit:
    """schritt(x) verarbeitet ein Token x [D] und gibt [D] zurueck."""

    def __init__(self, D, koepfe, fenster, seed=0):
        r = np.random.default_rng(seed)
        self.H, self.d, self.W = koepfe, D // koepfe, fenster
        self.Wq, self.Wk, self.Wv, self.Wo = r.normal(0, D ** -0.5, (4, D, D))
        self.neu()

    def neu(self):
        self.K = np.zeros((self.W, self.H, self.d))
        self.V = np.zeros((self.W, self.H, self.d))
        self.t = 0

    def schritt(self, x):
        q, k, v = ((x @ w).reshape(self.H, self.d) for w in (self.Wq, self.Wk, self.Wv))
        platz = self.t % self.W
        self.K[platz] = drehen(k, self.t)
        self.V[platz] = v
        belegt = min(self.t + 1, self.W)
        s = np.einsum("hd,nhd->hn", drehen(q, self.t), self.K[:belegt]) / np.sqrt(self.d)
        self.t += 1
        s = np.exp(s - s.max(1, keepdims=True))
        s /= s.sum(1, keepdims=True)
        return np.einsum("hn,nhd->hd", s, self.V[:belegt]).reshape(-1) @ self.Wo

    def folge(self, X):
        self.neu()
        return np.stack([self.schritt(x) for x in X])


BEFEHLE = ("licht an", "licht aus", "waermer", "kaelter")


class Sprachsteuerung:
    def __init__(self, D=16):
        self.att = RingAufmerksamkeit(D, 2, 8)
        self.kopf = np.random.default_rng(9).normal(size=(D, len(BEFEHLE)))

    def erkenne(self, merkmale):
        return BEFEHLE[int(np.argmax(self.att.folge(merkmale)[-1] @ self.kopf))]


if __name__ == "__main__":
    print(Sprachsteuerung().erkenne(np.random.default_rng(2).normal(size=(20, 16))))
