# -*- coding: utf-8 -*-
"""Kleiner Übersetzer: ein Transformer (Encoder + Decoder) nur mit NumPy.

Formen:   B Stapel, L Zielwörter, S Quellwörter, M Modellbreite, K Köpfe
Masken:   True heißt „gesperrt“ (Auffüllung bzw. Zukunft).
"""
import numpy as np


def positionstafel(laenge, breite):
    pos = np.arange(laenge)[:, None]
    i = np.arange(0, breite, 2)[None, :]
    winkel = pos / 10000.0 ** (i / breite)
    tafel = np.zeros((laenge, breite))
    tafel[:, 0::2] = np.sin(winkel)
    tafel[:, 1::2] = np.cos(winkel)
    return tafel


def normieren(x, eps=1e-6):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def zukunft_gesperrt(L):
    zeile, spalte = np.indices((L, L))
    return spalte > zeile


class Aufmerksamkeit:
    """Mehrköpfige Aufmerksamkeit. Dient als Selbst- und als Queraufmerksamkeit."""

    def __init__(self, breite, koepfe, zufall):
        if breite % koepfe:
            raise ValueError("Breite muss durch die Zahl der Köpfe teilbar sein")
        self.koepfe = koepfe
        self.kopfbreite = breite // koepfe
        g = 1.0 / np.sqrt(breite)
        self.wf, self.ws, self.ww, self.wa = (zufall.uniform(-g, g, (breite, breite)) for _ in range(4))

    def _zerlegen(self, x):
        B, N, _ = x.shape
        return np.moveaxis(x.reshape(B, N, self.koepfe, self.kopfbreite), 2, 1)

    def __call__(self, frage, gedaechtnis, gesperrt=None):
        """frage [B, L, M]; gedaechtnis [B, S, M]; gesperrt [B, L, S] oder dazu passend.

        Zurück kommen die Ausgabe [B, L, M] und die Gewichte [B, K, L, S].
        Eine Zeile, in der alles gesperrt ist, bekommt überall das Gewicht 0.
        """
        f = self._zerlegen(frage @ self.wf) * self.kopfbreite ** -0.5
        s = self._zerlegen(gedaechtnis @ self.ws)
        w = self._zerlegen(gedaechtnis @ self.ww)

        punkte = np.einsum("bkld,bksd->bkls", f, s)
        if gesperrt is None:
            offen = np.ones(punkte.shape, dtype=bool)
        else:
            offen = np.broadcast_to(~gesperrt[:, None], punkte.shape)
        spitze = np.max(punkte, axis=-1, keepdims=True, where=offen, initial=-1e300)
        roh = np.where(offen, np.exp(np.where(offen, punkte - spitze, 0.0)), 0.0)
        summe = roh.sum(axis=-1, keepdims=True)
        gewicht = np.divide(roh, summe, out=np.zeros_like(roh), where=summe > 0)

        ergebnis = np.einsum("bkls,bksd->blkd", gewicht, w)
        B, L = ergebnis.shape[:2]
        return ergebnis.reshape(B, L, -1) @ self.wa, gewicht


class Vorwaerts:
    def __init__(self, breite, innen, zufall):
        self.w1 = zufall.normal(0, 0.05, (breite, innen))
        self.w2 = zufall.normal(0, 0.05, (innen, breite))

    def __call__(self, x):
        return np.maximum(x @ self.w1, 0) @ self.w2


class Uebersetzer:
    def __init__(self, n_quelle, n_ziel, breite=32, koepfe=4, lagen=2, max_laenge=64, saat=1):
        z = np.random.default_rng(saat)
        self.breite = breite
        self.ein_q = z.normal(0, breite ** -0.5, (n_quelle, breite))
        self.ein_z = z.normal(0, breite ** -0.5, (n_ziel, breite))
        self.tafel = positionstafel(max_laenge, breite)
        self.enc = [(Aufmerksamkeit(breite, koepfe, z), Vorwaerts(breite, 4 * breite, z)) for _ in range(lagen)]
        self.dec = [(Aufmerksamkeit(breite, koepfe, z), Aufmerksamkeit(breite, koepfe, z),
                     Vorwaerts(breite, 4 * breite, z)) for _ in range(lagen)]

    def _einbetten(self, tabelle, ids):
        return tabelle[ids] * np.sqrt(self.breite) + self.tafel[:ids.shape[1]]

    def kodieren(self, quelle, fuell):
        x = self._einbetten(self.ein_q, quelle)
        sperre = np.repeat(fuell[:, None, :], quelle.shape[1], axis=1)
        for auf, vor in self.enc:
            x = normieren(x + auf(x, x, sperre)[0])
            x = normieren(x + vor(x))
        return x

    def dekodieren(self, ziel, gedaechtnis, fuell):
        y = self._einbetten(self.ein_z, ziel)
        L = ziel.shape[1]
        zukunft = zukunft_gesperrt(L)[None]
        quer = np.repeat(fuell[:, None, :], L, axis=1)
        for selbst, queratt, vor in self.dec:
            y = normieren(y + selbst(y, y, zukunft)[0])
            y = normieren(y + queratt(y, gedaechtnis, quer)[0])
            y = normieren(y + vor(y))
        return y @ self.ein_z.T

    def uebersetze(self, quelle, anfang=1, ende=2, leer=0, hoechstens=20):
        fuell = quelle == leer
        ged = self.kodieren(quelle, fuell)
        ziel = np.full((quelle.shape[0], 1), anfang)
        for _ in range(hoechstens):
            naechstes = self.dekodieren(ziel, ged, fuell)[:, -1].argmax(-1)
            ziel = np.concatenate([ziel, naechstes[:, None]], axis=1)
            if np.all((ziel == ende).any(axis=1)):
                break
        return ziel


if __name__ == "__main__":
    u = Uebersetzer(11, 13)
    print(u.uebersetze(np.array([[3, 4, 5, 2, 0], [6, 7, 2, 0, 0]])))
