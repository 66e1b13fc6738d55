# Mehrkopf-Aufmerksamkeit mit Zwischenspeicher, nur NumPy.
# Gewichte kommen als verschachteltes dict aus dem Export (siehe lade_gewichte im Hauptprojekt):
#   gewichte["abfrage"]["W"]  (d_modell, koepfe * breite)
#   gewichte["abfrage"]["b"]  (koepfe * breite,)
# ebenso "schluessel", "wert" und "ausgang".
import numpy as np


def _linear(x, schicht):
    return x @ schicht["W"] + schicht["b"]


class MehrkopfAufmerksamkeit:
    def __init__(self, gewichte, koepfe):
        self.g = gewichte
        self.koepfe = koepfe
        self.breite = gewichte["abfrage"]["W"].shape[1] // koepfe

    def _zerlege(self, x):
        b, l, _ = x.shape
        return x.reshape(b, l, self.koepfe, self.breite)

    def vorwaerts(self, x, speicher=None):
        """x (B, L, d_modell); speicher ist None oder das Paar (K, V) der frueheren Schritte.

        Gibt (Ausgabe, neuer Speicher) zurueck. Immer kausal.
        """
        q = self._zerlege(_linear(x, self.g["abfrage"]))
        k = self._zerlege(_linear(x, self.g["schluessel"]))
        v = self._zerlege(_linear(x, self.g["wert"]))
        if speicher is not None:
            k = np.concatenate((speicher[0], k), axis=1)
            v = np.concatenate((speicher[1], v), axis=1)

        neu, alle = q.shape[1], k.shape[1]
        # Zeile i der neuen Abfragen steht an Stelle alle - neu + i
        stelle = np.arange(alle - neu, alle)[:, None]
        zukunft = np.arange(alle)[None, :] > stelle

        s = np.einsum("bihd,bjhd->bhij", q, k) * self.breite ** -0.5
        s[:, :, zukunft] = -np.inf
        s -= s.max(-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(-1, keepdims=True)

        o = np.einsum("bhij,bjhd->bihd", s, v)
        o = o.reshape(x.shape[0], neu, -1)
        return _linear(o, self.g["ausgang"]), (k, v)

    __call__ = vorwaerts
