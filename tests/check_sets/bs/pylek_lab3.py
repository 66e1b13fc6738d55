# -*- coding: utf-8 -*-
# Laboratorium 3 -- mechanizm uwagi "od zera" (tylko NumPy)
# Dane: zliczenia pyłków z pułapki Hirsta, godzina po godzinie.
# Zadanie: zaimplementować scaled dot-product attention i policzyć kontekst dla każdej godziny.
#
#        Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
import numpy as np

TAKSONY = ["brzoza", "olcha", "leszczyna", "trawy", "bylica", "ambrozja"]

rng = np.random.RandomState(21)


def softmax(x):
    """stabilny numerycznie softmax po ostatniej osi"""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(np.exp(x), axis=-1, keepdims=True)


class Uwaga:
    """Jedna głowica uwagi.

    Q: (partia, n, d_k), K: (partia, m, d_k), V: (partia, m, d_v)
    maska: (partia, m), 1 = godzina z pomiarem, 0 = awaria pułapki
    zwraca (kontekst, wagi)
    """

    def __init__(self):
        self.wagi = None

    def __call__(self, Q, K, V, maska=None):
        d_k = K.shape[1]
        wynik = np.matmul(Q, np.transpose(K, (0, 2, 1))) / np.sqrt(d_k)
        if maska is not None:
            wynik = np.where(maska[:, None, :] == 1, wynik, -1e9)
        self.wagi = softmax(wynik)
        return np.matmul(self.wagi, V), self.wagi


class ModelPylkowy:
    def __init__(self, we=len(TAKSONY), d=10):
        self.Wq = rng.randn(we, d) * 0.3
        self.Wk = rng.randn(we, d) * 0.3
        self.Wv = rng.randn(we, d) * 0.3
        self.Wy = rng.randn(d, we) * 0.1
        self.uwaga = Uwaga()

    def przod(self, x, maska=None):
        kontekst, _ = self.uwaga(x @ self.Wq, x @ self.Wk, x @ self.Wv, maska)
        return x + kontekst @ self.Wy

    def strata(self, x, y, maska=None):
        r = (self.przod(x, maska) - y) ** 2
        return r.mean()


def normalizuj(x):
    mu = x.mean(axis=(0, 1), keepdims=True)
    sd = x.std(axis=(0, 1), keepdims=True) + 1e-8
    return (x - mu) / sd


def sztuczne_dane(dni=3, godziny=24):
    baza = rng.gamma(1.5, 20.0, size=(dni, godziny, len(TAKSONY)))
    pora = 1 + np.sin(np.arange(godziny) / 24.0 * 2 * np.pi)
    return np.log1p(baza * pora[None, :, None])


def main():
    x = normalizuj(sztuczne_dane())
    maska = np.ones(x.shape[:2])
    maska[1, 5:9] = 0
    model = ModelPylkowy()
    print("strata:", model.strata(x[:, :-1], x[:, 1:], maska[:, :-1]))
    print("najwazniejsza godzina:", model.uwaga.wagi.argmax(-1)[0])


if __name__ == "__main__":
    main()
