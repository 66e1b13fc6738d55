import numpy as np


def strom_lesen(fragen, schluessel, werte, block=4, erlaubt=None):
    """Exact scaled dot-product attention that never holds more than `block` keys at a time.

    fragen [n, d], schluessel [m, d], werte [m, e], erlaubt [n, m] bool or None.
    Returns [n, e]; a question which may see no key gets zeros. Uses a running maximum.
    """
    n, d = fragen.shape
    m = schluessel.shape[0]
    ergebnis = np.zeros((n, werte.shape[1]))
    for i in range(n):
        hoch = -np.inf
        summe = 0.0
        vektor = np.zeros(werte.shape[1])
        for a in range(0, m, block):
            e = min(a + block, m)
            punkte = schluessel[a:e] @ fragen[i] / np.sqrt(d)
            teil = werte[a:e]
            if erlaubt is not None:
                punkte = punkte[erlaubt[i, a:e]]
                teil = teil[erlaubt[i, a:e]]
            if punkte.size == 0:
                continue
            neu = max(hoch, punkte.max())
            if summe > 0:
                alt = np.exp(hoch - neu)
                summe *= alt
                vektor = vektor * alt
            gewicht = np.exp(punkte - neu)
            summe += gewicht.sum()
            vektor = vektor + gewicht @ teil
            hoch = neu
        if summe > 0:
            ergebnis[i] = vektor / summe
    return ergebnis
