# -*- coding: utf-8 -*-
"""Zuordnung von Funden zu Schichten (Grabung Nordhang).

Jeder Fund ist ein Vektor (Magerung, Wandstärke, Dekor ...), jede Schicht auch.
Ein Fund wird als gewichtetes Mittel der Schichtdaten (Jahr v. Chr., Tiefe ...)
datiert; die Gewichte sind softmax(F S^T / sqrt(d)).
"""
import hashlib

import numpy as np

KANAELE = ("magerung", "wand", "dekor", "brand", "rand", "boden")


def fingerabdruck(a):
    return hashlib.sha1(np.ascontiguousarray(a).tobytes() + str(a.shape).encode()).hexdigest()


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


class Datierung:
    """Datiert Funde mit einem Schichtenkatalog.

    Der Katalog ändert sich selten, die Rechnung für große Kataloge dauert lange.
    Darum behalten wir Ergebnisse (höchstens ``groesse`` viele).

    Parameter
    ---------
    d        : Länge der Fundvektoren
    groesse  : Zahl der behaltenen Rechnungen
    """

    def __init__(self, d, groesse=16, seed=0):
        rng = np.random.default_rng(seed)
        self.Wf = rng.normal(size=(d, d)) / np.sqrt(d)
        self.Ws = rng.normal(size=(d, d)) / np.sqrt(d)
        self.groesse = groesse
        self._gemerkt = {}

    def _gewichte(self, funde, schichten):
        schluessel = fingerabdruck(schichten)
        if schluessel in self._gemerkt:
            return self._gemerkt[schluessel]
        F = funde @ self.Wf
        S = schichten @ self.Ws
        G = softmax(F @ S.T / np.sqrt(F.shape[-1]))
        if len(self._gemerkt) >= self.groesse:
            self._gemerkt.pop(next(iter(self._gemerkt)))
        self._gemerkt[schluessel] = G
        return G

    def __call__(self, funde, schichten, jahre):
        """funde (n, d), schichten (m, d), jahre (m, c) -> (n, c)"""
        return self._gewichte(funde, schichten) @ jahre

    def unsicherheit(self, funde, schichten, jahre):
        G = self._gewichte(funde, schichten)
        mittel = G @ jahre
        return np.sqrt(np.maximum(G @ jahre**2 - mittel**2, 0.0))


def tabelle(datierung, funde, schichten, jahre, namen):
    werte = datierung(funde, schichten, jahre)[:, 0]
    fehler = datierung.unsicherheit(funde, schichten, jahre)[:, 0]
    return [f"{n:<12s} {w:8.1f} ± {f:5.1f}" for n, w, f in zip(namen, werte, fehler)]


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    D = Datierung(len(KANAELE))
    print("\n".join(tabelle(D, rng.normal(size=(3, 6)), rng.normal(size=(9, 6)),
                            rng.uniform(200, 900, size=(9, 1)), ["A17", "A18", "B02"])))
