"""Lokale Mischung auf dem Gitter (Breite x Länge), die Länge ist periodisch."""
import numpy as np


def _normiere(z):
    z = np.exp(z - z.max())
    return z / z.sum()


def lokale_mischung(feld, w_frage, w_schluessel, w_wert, radius=1):
    """Jeder Gitterpunkt befragt seine Nachbarn im Quadrat mit dem gegebenen Radius.

    feld                    (n_breite, n_laenge, c)
    w_frage, w_schluessel   (c, d)
    w_wert                  (c, e)
    Rückgabe                (n_breite, n_laenge, e)

    Am Pol wird das Fenster abgeschnitten, über die Datumsgrenze läuft es weiter.
    Voraussetzung: 2 * radius + 1 <= n_laenge.
    """
    nb, nl, _ = feld.shape
    assert 2 * radius + 1 <= nl
    f, s, w = feld @ w_frage, feld @ w_schluessel, feld @ w_wert
    wurzel = np.sqrt(f.shape[-1])
    aus = np.empty((nb, nl, w.shape[-1]))
    versatz = np.arange(-radius, radius + 1)
    for i in range(nb):
        zeilen = np.arange(max(0, i - radius), min(nb, i + radius + 1))
        for j in range(nl):
            spalten = (j + versatz) % nl
            block = np.ix_(zeilen, spalten)
            kk = s[block].reshape(-1, s.shape[-1])
            vv = w[block].reshape(-1, w.shape[-1])
            aus[i, j] = _normiere(kk @ f[i, j] / wurzel) @ vv
    return aus
