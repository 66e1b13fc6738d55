"""Κατάταξη παλμών σε καταγραφή Holter 24 ωρών.

Ένας παλμός κοιτά τους προηγούμενους (και τον εαυτό του). Η θέση μπαίνει μόνο ως ALiBi:
αφαιρείται κλίση * απόσταση. Οι κλίσεις είναι της δημοσίευσης (Press κ.ά. 2022): για n
δύναμη του 2 η ακολουθία 2^(-8/n), 2^(-16/n), ...· αλλιώς η μεγαλύτερη δύναμη p <= n και
συμπλήρωμα από τις περιττές θέσεις της ακολουθίας για 2p.
"""
from math import floor, log2

import numpy as np

KLASEIS = ("N", "S", "V", "F", "Q")


def kliseis(n):
    def geom(m):
        r = 2.0 ** (-8.0 / m)
        return [r ** (i + 1) for i in range(m)]

    p = 2 ** floor(log2(n))
    return np.array(geom(p) + geom(2 * p)[0::2][: n - p])


def softmax(s):
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def prosochi_palmon(x, W, kefalia):
    """x [B, L, D], W = dict(q,k,v,o: [D, D]) -> (y [B, L, D], βάρη [B, H, L, L])"""
    B, L, D = x.shape
    d = D // kefalia

    def moirase(t):
        return t.reshape(B, L, kefalia, d).transpose(0, 2, 1, 3)

    q, k, v = moirase(x @ W["q"]), moirase(x @ W["k"]), moirase(x @ W["v"])
    apostasi = np.arange(L)[:, None] - np.arange(L)[None, :]
    s = q @ k.swapaxes(-1, -2) / np.sqrt(d)
    s = s - kliseis(kefalia)[:, None, None] * apostasi
    s = np.where(apostasi < 0, -np.inf, s)          # το μέλλον
    a = softmax(s)
    y = (a @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    return y @ W["o"], a


class Taxinomitis:
    def __init__(self, D=24, kefalia=6, sporos=0):
        r = np.random.default_rng(sporos)
        self.kefalia = kefalia
        self.eisodos = r.normal(size=(12, D)) / 12 ** 0.5
        self.W = {n: r.normal(size=(D, D)) / D ** 0.5 for n in "qkvo"}
        self.exodos = r.normal(size=(D, len(KLASEIS))) / D ** 0.5

    def provlepse(self, kymatomorfes):
        h = kymatomorfes @ self.eisodos
        y, _ = prosochi_palmon(h, self.W, self.kefalia)
        return softmax((h + y) @ self.exodos)


if __name__ == "__main__":
    print(kliseis(6))
    p = Taxinomitis().provlepse(np.random.default_rng(1).normal(size=(1, 9, 12)))
    print([KLASEIS[i] for i in p[0].argmax(-1)])
