# Rückblick für die Lastprognose. Absichtlich mit Schleifen, damit man mitrechnen kann.
import numpy as np


def weich(werte):
    werte = np.asarray(werte, dtype=float)
    e = np.exp(werte - np.max(werte))
    return e / np.sum(e)


def rueckblick(frage, schluessel, wert, koepfe):
    """Kausale Mehrkopf-Aufmerksamkeit für ein Fenster.

    frage       (m, koepfe*b)   die letzten m Zeitschritte
    schluessel  (n, koepfe*b)   alle n >= m Zeitschritte
    wert        (n, koepfe*b)

    Zeile i der Frage ist Zeitschritt n-m+i und sieht alles bis zu sich selbst.
    """
    m, breite = frage.shape
    n = schluessel.shape[0]
    b = breite // koepfe
    ergebnis = np.zeros((m, breite))
    for kopf in range(koepfe):
        spalten = slice(kopf * b, (kopf + 1) * b)
        for i in range(m):
            jetzt = n - m + i
            punkte = []
            for j in range(jetzt + 1):
                punkte.append(np.dot(frage[i, spalten], schluessel[j, spalten]) / b ** 0.5)
            anteile = weich(punkte)
            for j in range(jetzt + 1):
                ergebnis[i, spalten] += anteile[j] * wert[j, spalten]
    return ergebnis


def prognose(reihe, wq, wk, wv, wo, koepfe=2, letzte=24):
    f = reihe[-letzte:] @ wq
    return rueckblick(f, reihe @ wk, reihe @ wv, koepfe) @ wo
