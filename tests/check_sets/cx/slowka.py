"""Generator slow: jedna warstwa, NumPy, pamiec kluczy i wartosci."""
import numpy as np


def obrot(x, pozycje, baza=10000.0):
    """RoPE, pary sasiednich wspolrzednych (0,1), (2,3), ... x [L, h, d], pozycje [L]"""
    d = x.shape[-1]
    kat = pozycje[:, None] * baza ** (-np.arange(0, d, 2) / d)
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * kat)[:, None, :]
    wynik = np.empty_like(x)
    wynik[..., 0::2], wynik[..., 1::2] = z.real, z.imag
    return wynik


class Warstwa:
    """wagi: Wq, Wk, Wv, Wo [D, D]. poczatek(x) czyta caly poczatek [L, D] -> [L, D];
    dalej(x) dodaje jedno slowo [D] -> [D]. Wynik `dalej` jest taki sam jak ostatni wiersz
    wyniku `poczatek` dla dluzszego ciagu."""

    def __init__(self, wagi, h):
        self.wagi, self.h = wagi, h

    def rzut(self, x, nazwa):
        return (x @ self.wagi[nazwa]).reshape(len(x), self.h, -1)

    def licz(self, q, K, V, od):
        s = np.einsum("ihd,jhd->hij", q, K) / np.sqrt(q.shape[-1])
        i = od + np.arange(len(q))
        s = np.where(np.arange(len(K))[None, :] <= i[:, None], s, -np.inf)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        return np.einsum("hij,jhd->ihd", p, V).reshape(len(q), -1) @ self.wagi["Wo"]

    def poczatek(self, x):
        poz = np.arange(len(x))
        q = obrot(self.rzut(x, "Wq"), poz)
        self.K, self.V = obrot(self.rzut(x, "Wk"), poz), self.rzut(x, "Wv")
        return self.licz(q, self.K, self.V, 0)

    def dalej(self, x):
        x = x[None]
        n = len(self.K)
        poz = np.arange(len(x))
        q = obrot(self.rzut(x, "Wq"), poz)
        k = obrot(self.rzut(x, "Wk"), poz)
        self.K = np.concatenate([self.K, k])
        self.V = np.concatenate([self.V, self.rzut(x, "Wv")])
        return self.licz(q, self.K, self.V, n)[0]
