"""
Wektor sesji wyszukiwania: uwaga addytywna (Bahdanau) nad klikniętymi dokumentami.

    e_j = v . tanh(W_q q + W_k h_j + b),   a = softmax(e),   s = sum_j a_j h_j

``q`` to bieżące zapytanie, ``h_j`` dokumenty sesji.  Sesje mają różną długość
(``dlugosci``), dalsze pozycje to dopełnienie.  Pusta sesja daje wektor zerowy.
"""
import numpy as np


def softmax_z_maska(e, maska):
    """Softmax po ostatniej osi, tylko tam gdzie maska; pusty wiersz -> same zera."""
    e = np.where(maska, e, -np.inf)
    szczyt = e.max(axis=-1, keepdims=True)
    szczyt[~np.isfinite(szczyt)] = 0.0
    w = np.exp(e - szczyt)
    suma = w.sum(axis=-1, keepdims=True)
    return w / np.where(suma > 0, suma, 1.0)


class SesjaEncoder:
    def __init__(self, dim_zapytania=8, dim_dokumentu=10, dim_uwagi=6, ziarno=0):
        los = np.random.default_rng(ziarno)
        self.W_q = los.normal(0, dim_zapytania ** -0.5, (dim_zapytania, dim_uwagi))
        self.W_k = los.normal(0, dim_dokumentu ** -0.5, (dim_dokumentu, dim_uwagi))
        self.b = los.normal(0, 0.1, dim_uwagi)
        self.v = los.normal(0, 1.0, dim_uwagi)

    def wagi(self, zapytania, dokumenty, dlugosci):
        # zapytania [B, Dq], dokumenty [B, N, Dd], dlugosci [B]
        ukryte = np.tanh((zapytania @ self.W_q)[:, None, :] + dokumenty @ self.W_k + self.b)
        e = ukryte @ self.v
        maska = np.arange(dokumenty.shape[1])[None, :] < np.asarray(dlugosci)[:, None]
        return softmax_z_maska(e, maska)

    def koduj(self, zapytania, dokumenty, dlugosci):
        """Zwraca [B, Dq + Dd]: zapytanie sklejone z wektorem sesji."""
        a = self.wagi(zapytania, dokumenty, dlugosci)
        sesja = np.einsum("bn,bnd->bd", a, dokumenty)
        return np.concatenate([zapytania, sesja], axis=-1)

    __call__ = koduj


def ranking(encoder, zapytania, dokumenty, dlugosci, kandydaci, W):
    """Oceny kandydatów [B, C] z iloczynu dwuliniowego z wektorem sesji."""
    s = encoder(zapytania, dokumenty, dlugosci)
    return np.einsum("bs,sd,bcd->bc", s, W, kandydaci)
