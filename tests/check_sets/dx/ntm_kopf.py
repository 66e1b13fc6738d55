"""Lesekopf einer Neural Turing Machine (Graves et al. 2014), nur NumPy, nur vorwärts.

Speicher: (N, W), N Zeilen zu je W Zahlen. Der Kopf merkt sich seine Gewichte (N,) vom letzten
Zeitschritt; am Anfang zeigt er ganz auf Zeile 0. Ein Schritt lies(speicher, ...) braucht

    schluessel  (W,)       Suchmuster
    schaerfe    > 0        beta, Schärfe der inhaltlichen Suche
    tor         in [0, 1]  g, 1 = nur Inhalt, 0 = nur die alten Gewichte
    schub       (3,)       Verteilung über die Verschiebungen -1, 0, +1 (im Kreis)
    gamma       >= 1       Nachschärfung

und rechnet wie im Aufsatz (Gl. 5-9):
    w_c(i) = softmax_i(beta * cos(schluessel, Speicher_i))
    w_g    = g w_c + (1 - g) w_alt
    w_s(i) = sum_j w_g(j) s(i - j)
    w(i)   = w_s(i)^gamma / sum_j w_s(j)^gamma
Rückgabe: der gelesene Vektor sum_i w(i) Speicher_i, Form (W,).
"""
import numpy as np


class Lesekopf:
    def __init__(self, zeilen):
        self.zeilen = zeilen
        self.zuruecksetzen()

    def zuruecksetzen(self):
        self.gewichte = np.zeros(self.zeilen)
        self.gewichte[0] = 1.0

    @staticmethod
    def aehnlichkeit(speicher, schluessel):
        oben = speicher @ schluessel
        unten = np.linalg.norm(speicher, axis=1) * np.linalg.norm(schluessel)
        return oben / (unten + 1e-12)

    def lies(self, speicher, schluessel, schaerfe, tor, schub, gamma):
        z = schaerfe * self.aehnlichkeit(speicher, schluessel)
        e = np.exp(z - z.max())
        inhalt = e / e.sum()

        gemischt = tor * inhalt + (1.0 - tor) * self.gewichte

        # np.roll(+1) schiebt das Gewicht von Zeile j nach Zeile j + 1
        verschoben = np.zeros_like(gemischt)
        for weite, anteil in zip((-1, 0, 1), schub):
            verschoben += anteil * np.roll(gemischt, weite)

        spitz = verschoben ** gamma
        self.gewichte = spitz / spitz.sum()
        return self.gewichte @ speicher
