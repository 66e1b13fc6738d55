"""Fenologia delle falene: dalle trappole luminose alle date di volo.

Ogni notte di cattura è un vettore (meteo + conteggi).  Per stimare una notte
mancante si guardano tutte le notti con dati, pesate dalla somiglianza appresa.
Solo NumPy, i pesi arrivano da un file .npz.
"""
import datetime as dt

import numpy as np


def giorno_ciclico(data):
    """Giorno dell'anno come (sen, cos)."""
    g = data.timetuple().tm_yday
    a = 2 * np.pi * (g - 1) / 365.25
    return np.array([np.sin(a), np.cos(a)])


def fase_lunare(data):
    """Frazione del ciclo, 0 = luna nuova (approssimata)."""
    giorni = (data - dt.date(2000, 1, 6)).days
    return (giorni % 29.530588) / 29.530588


def caratteristiche(data, tmin, vento, pioggia, conteggi):
    s, c = giorno_ciclico(data)
    return np.concatenate([[s, c, fase_lunare(data), tmin / 20, vento / 10, np.log1p(pioggia)],
                           np.log1p(np.asarray(conteggi, float))])


def softmax(punti, asse=-1):
    """Esponenziale normalizzato; si toglie il massimo per non uscire dai limiti del float."""
    num = np.exp(punti - punti.max(axis=asse, keepdims=True))
    return num / np.exp(punti).sum(axis=asse, keepdims=True)


class RiempiNotti:
    """
    pesi: dict con
        Wq (d, h*e), Wk (d, h*e), Wv (d, h*e), Wo (h*e, d), bo (d,)
    teste: h
    """

    def __init__(self, pesi, teste):
        self.p = {n: np.asarray(w, dtype=np.float64) for n, w in pesi.items()}
        self.h = teste

    def _teste(self, x, nome):
        y = x @ self.p[nome]
        return y.reshape(x.shape[0], self.h, -1).transpose(1, 0, 2)     # h, n, e

    def __call__(self, notti, con_dati):
        """notti (n, d); con_dati (n,) bool: True se la trappola ha funzionato.

        Le notti senza dati chiedono, ma non rispondono. Almeno una notte deve avere dati.
        """
        con_dati = np.asarray(con_dati, bool)
        if not con_dati.any():
            raise ValueError("nessuna notte con dati")
        q = self._teste(notti, "Wq")
        k = self._teste(notti, "Wk")
        v = self._teste(notti, "Wv")
        s = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(q.shape[-1])
        s = np.where(con_dati[None, None, :], s, -np.inf)
        a = softmax(s)
        y = np.matmul(a, v).transpose(1, 0, 2).reshape(len(notti), -1)
        return y @ self.p["Wo"] + self.p["bo"], a


def picco_di_volo(date, stima):
    """Data mediana pesata con i conteggi stimati."""
    w = np.cumsum(np.maximum(stima, 0))
    return date[int(np.searchsorted(w, w[-1] / 2))]


if __name__ == "__main__":
    g = np.random.default_rng(5)
    inizio = dt.date(2023, 5, 1)
    date = [inizio + dt.timedelta(days=i) for i in range(20)]
    X = np.stack([caratteristiche(d, g.normal(12, 3), g.gamma(2), g.gamma(1), g.poisson(4, 6)) for d in date])
    d = X.shape[1]
    pesi = {n: g.normal(0, d ** -0.5, (d, 12)) for n in ("Wq", "Wk", "Wv")}
    pesi |= {"Wo": g.normal(0, 12 ** -0.5, (12, d)), "bo": np.zeros(d)}
    y, a = RiempiNotti(pesi, 3)(X, g.random(20) > 0.3)
    print(picco_di_volo(date, np.expm1(y[:, 6:]).sum(1)), a.shape)
