# Adsorptionsenergi på katalysatoroverflader: molekylets atomer kigger på overfladens pladser.
# Ren NumPy, så den kan køre på gruppens gamle klynge.
import numpy as np

R_CUT = 5.0


def stabil_softmax(a, akse=-1):
    a = a - a.max(axis=akse, keepdims=True)
    e = np.exp(a)
    return e / e.sum(axis=akse, keepdims=True)


class Plads:
    """Element, koordinationstal og afstand til nærmeste trin."""

    tabel = {"Pt": 0, "Pd": 1, "Ni": 2, "Cu": 3, "Ru": 4}

    def __init__(self, symbol, kn, trin):
        self.x = np.zeros(7)
        self.x[self.tabel[symbol]] = 1
        self.x[5], self.x[6] = kn / 12, np.exp(-trin / R_CUT)


class OverfladeBlik:
    """Krydsopmærksomhed atom -> plads med H hoveder.

    Hvert hoved fordeler én hel opmærksomhed over pladserne: vægte[h, i].sum() == 1.
    atomer [A, D], pladser [P, Dp]  ->  (ud [A, D], vægte [H, A, P])
    """

    def __init__(self, rng, D, Dp, H):
        assert D % H == 0
        self.H, self.d = H, D // H
        self.Wq = rng.normal(0, D ** -0.5, (D, D))
        self.Wk = rng.normal(0, Dp ** -0.5, (Dp, D))
        self.Wv = rng.normal(0, Dp ** -0.5, (Dp, D))
        self.Wo = rng.normal(0, D ** -0.5, (D, D))

    def hoveder(self, t):
        return t.reshape(len(t), self.H, self.d).transpose(1, 0, 2)

    def __call__(self, atomer, pladser):
        A, P = len(atomer), len(pladser)
        q = self.hoveder(atomer @ self.Wq)
        k = self.hoveder(pladser @ self.Wk)
        v = self.hoveder(pladser @ self.Wv)
        s = q @ k.transpose(0, 2, 1) / self.d ** 0.5              # [H, A, P]
        rk = s.transpose(1, 0, 2).reshape(A, self.H * P)
        w = stabil_softmax(rk).reshape(A, self.H, P).transpose(1, 0, 2)
        ud = (w @ v).transpose(1, 0, 2).reshape(A, self.H * self.d)
        return ud @ self.Wo, w


class Energi:
    def __init__(self, frø=0, D=16):
        r = np.random.default_rng(frø)
        self.atom = r.normal(size=(10, D))           # H, C, N, O, ...
        self.blik = OverfladeBlik(r, D, 7, 4)
        self.ud = r.normal(0, D ** -0.5, D)

    def __call__(self, numre, pladser):
        h = self.atom[numre]
        kontekst, _ = self.blik(h, np.stack([p.x for p in pladser]))
        return float(np.tanh(h + kontekst).sum(0) @ self.ud)


if __name__ == "__main__":
    flade = [Plads("Pt", 9, 3.0), Plads("Pt", 7, 0.0), Plads("Ru", 9, 2.1)]
    print("E_ads (eV):", Energi()([1, 3], flade))
