import numpy as np


class Gedaechtnis:
    """Gedächtnisnetz mit mehreren Sprüngen über gespeicherte Sätze.

    saetze: (N, dim) Satzvektoren, frage: (dim,). In jedem Sprung wird eine
    Wahrscheinlichkeit über die N Sätze gebildet und die Frage ergänzt.
    """

    def __init__(self, dim, spruenge=3, keim=0):
        z = np.random.default_rng(keim)
        self.spruenge = spruenge
        self.A = z.normal(0, dim ** -0.5, (dim, dim))
        self.C = z.normal(0, dim ** -0.5, (dim, dim))
        self.H = z.normal(0, dim ** -0.5, (dim, dim))

    @staticmethod
    def wahrscheinlich(wert):
        oben = np.max(wert)
        zaehler = np.exp(wert - oben)
        nenner = np.exp(wert).sum()
        return zaehler / nenner

    def __call__(self, saetze, frage):
        m = saetze @ self.A
        c = saetze @ self.C
        u = frage
        verlauf = []
        for _ in range(self.spruenge):
            p = self.wahrscheinlich(m @ u / np.sqrt(len(u)))
            u = u @ self.H + p @ c
            verlauf.append(p)
        return u, np.stack(verlauf)
