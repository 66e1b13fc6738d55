import numpy as np


class VielKopfAufmerksamkeit:
    # Maske: True = sichtbar, Form (B, Lq, Lk) oder (B, 1, Lk)

    def __init__(self, breite, koepfe, keim=0):
        zufall = np.random.default_rng(keim)
        self.koepfe = koepfe
        self.kopfbreite = breite // koepfe
        self.gewichte = {
            name: zufall.normal(0.0, breite**-0.5, (breite, breite)) for name in ("frage", "schluessel", "wert", "aus")
        }
        self.versatz = {name: np.zeros(breite) for name in self.gewichte}

    def _linear(self, x, name):
        return x @ self.gewichte[name] + self.versatz[name]

    def _teilen(self, x):
        b, l, _ = x.shape
        return x.reshape(b, l, self.koepfe, self.kopfbreite).swapaxes(1, 2)

    def vorwaerts(self, x, speicher=None, maske=None):
        if speicher is None:
            speicher = x
        q = self._teilen(self._linear(x, "frage"))
        k = self._teilen(self._linear(speicher, "schluessel"))
        v = self._teilen(self._linear(speicher, "wert"))

        punkte = np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(self.kopfbreite)
        if maske is not None:
            punkte = np.where(maske[:, None], punkte, np.finfo(punkte.dtype).min)
        punkte = punkte - punkte.max(axis=-1, keepdims=True)
        anteile = np.exp(punkte)
        anteile /= anteile.sum(axis=-1, keepdims=True)

        y = np.einsum("bhij,bhjd->bhid", anteile, v)
        b, _, l, _ = y.shape
        y = y.swapaxes(1, 2).reshape(b, l, -1)
        return self._linear(y, "aus"), anteile
