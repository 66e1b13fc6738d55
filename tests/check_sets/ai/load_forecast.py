# -*- coding: utf-8 -*-
"""Lastprognose: sucht zu den letzten Stunden ähnliche Tage in der Historie.

Der Dienst läuft ohne Deep-Learning-Bibliothek. Die Gewichte kommen aus dem Training
(npz) und sind einfache Matrizen.
"""
import numpy as np

STUNDEN = 24


def fenster(reihe, breite):
    """Alle Fenster der Breite `breite` mit Schrittweite eines Tages, [n, breite]"""
    starts = range(0, len(reihe) - breite + 1, STUNDEN)
    return np.stack([reihe[s:s + breite] for s in starts])


def kalender(tage):
    """Wochentag und Jahreszeit als Kreis, [n, 4]"""
    t = np.asarray(tage, dtype=float)
    w, j = 2 * np.pi * (t % 7) / 7, 2 * np.pi * t / 365.25
    return np.stack([np.sin(w), np.cos(w), np.sin(j), np.cos(j)], axis=1)


class Normierer:
    def fit(self, x):
        self.mitte = float(np.mean(x))
        self.breite = float(np.std(x)) or 1.0
        return self

    def hin(self, x):
        return (x - self.mitte) / self.breite

    def zurueck(self, x):
        return x * self.breite + self.mitte


class AehnlicheTage:
    """Skalarprodukt-Aufmerksamkeit über die Tage der Historie (Vaswani et al., mehrere Köpfe).

    anfrage    [m, f]  Merkmale der Tage, die vorhergesagt werden
    historie   [n, f]  Merkmale der bekannten Tage
    verlauf    [n, 24] Last an diesen Tagen
    gesperrt   [m, n]  True = Tag darf nicht benutzt werden (z. B. Feiertag, liegt in der Zukunft)
    """

    def __init__(self, gewichte, koepfe):
        self.wq, self.wk = gewichte["wq"], gewichte["wk"]
        self.mischung = gewichte["mix"]          # [koepfe], summiert sich zu 1
        self.koepfe = koepfe

    def gewichtung(self, anfrage, historie, gesperrt=None):
        m, n = len(anfrage), len(historie)
        q = (anfrage @ self.wq).reshape(m, self.koepfe, -1)
        k = (historie @ self.wk).reshape(n, self.koepfe, -1)
        punkte = np.einsum("mhd,nhd->hmn", q, k)
        punkte = punkte / np.sqrt(k.shape[0])
        if gesperrt is not None:
            if gesperrt.all(axis=1).any():
                raise ValueError("für einen Tag ist die ganze Historie gesperrt")
            punkte = np.where(gesperrt[None], -np.inf, punkte)
        punkte = punkte - punkte.max(axis=2, keepdims=True)
        g = np.exp(punkte)
        return g / g.sum(axis=2, keepdims=True)

    def __call__(self, anfrage, historie, verlauf, gesperrt=None):
        g = self.gewichtung(anfrage, historie, gesperrt)
        je_kopf = np.einsum("hmn,nt->hmt", g, verlauf)
        return np.einsum("h,hmt->mt", self.mischung, je_kopf)


class Lastprognose:
    def __init__(self, gewichte, koepfe=4, rueckblick=48):
        self.kern = AehnlicheTage(gewichte, koepfe)
        self.rueckblick = rueckblick
        self.norm = Normierer()

    def merkmale(self, reihe, tage):
        """Merkmale eines Tages: die `rueckblick` Stunden davor und der Kalender"""
        vorher = np.stack([reihe[t * STUNDEN - self.rueckblick:t * STUNDEN] for t in tage])
        return np.concatenate([vorher, kalender(tage)], axis=1)

    def vorhersage(self, reihe, feiertage=()):
        """Prognose für den Tag nach dem Ende der Reihe, [24]"""
        x = self.norm.fit(reihe).hin(np.asarray(reihe, dtype=float))
        n_tage = len(x) // STUNDEN
        erster = -(-self.rueckblick // STUNDEN)
        bekannt = np.arange(erster, n_tage)
        verlauf = np.stack([x[t * STUNDEN:(t + 1) * STUNDEN] for t in bekannt])
        sperre = np.isin(bekannt, list(feiertage))[None, :]
        y = self.kern(self.merkmale(x, [n_tage]), self.merkmale(x, bekannt), verlauf, sperre)
        return self.norm.zurueck(y[0])


def mape(wahr, prognose):
    return float(np.mean(np.abs((wahr - prognose) / np.maximum(np.abs(wahr), 1e-9))))


def zufallsgewichte(merkmale, koepfe=4, d=8, seed=1):
    r = np.random.default_rng(seed)
    return {"wq": r.normal(0, merkmale ** -0.5, (merkmale, koepfe * d)),
            "wk": r.normal(0, merkmale ** -0.5, (merkmale, koepfe * d)),
            "mix": np.full(koepfe, 1.0 / koepfe)}
