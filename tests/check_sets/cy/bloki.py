import numpy as np


def uwaga_blokami(Q, K, V, blok=16, przyczynowa=False):
    """Softmax(Q K^T / sqrt(d)) V liczone blokami kluczy, bez pelnej macierzy wag.

    Q (..., n, d), K (..., m, d), V (..., m, dv). Gdy przyczynowa=True, ostatnie
    zapytanie widzi wszystkie klucze (wyrownanie do prawego dolnego rogu);
    wiersz, ktory nie widzi zadnego klucza, daje zera.
    """
    n, d = Q.shape[-2:]
    m = K.shape[-2]
    maks = np.full(Q.shape[:-1] + (1,), -np.inf)
    suma = np.zeros_like(maks)
    wynik = np.zeros(Q.shape[:-1] + (V.shape[-1],))
    wiersz = np.arange(n)[:, None] + (m - n)
    for p in range(0, m, blok):
        k, v = K[..., p:p + blok, :], V[..., p:p + blok, :]
        s = Q @ np.swapaxes(k, -1, -2) / np.sqrt(d)
        if przyczynowa:
            kol = np.arange(p, p + k.shape[-2])[None, :]
            s = np.where(kol <= wiersz, s, -np.inf)
        nowy = np.maximum(maks, s.max(-1, keepdims=True))
        odn = np.where(np.isneginf(nowy), 0.0, nowy)
        skala = np.exp(maks - odn)
        w = np.exp(s - odn)
        suma = suma * skala + w.sum(-1, keepdims=True)
        wynik = wynik * skala + w @ v
        maks = nowy
    return wynik / np.where(suma == 0, 1.0, suma)
