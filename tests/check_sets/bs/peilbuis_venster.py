"""Peilbuizen langs de dijk: korte-termijnvoorspelling van de stijghoogte.

Eén laag met lokale causale aandacht in NumPy, gewichten uit een .npz.  Elk uur kijkt naar
precies `venster` uren: het uur zelf en de venster - 1 uren ervoor (minder aan het begin van
de reeks).  venster=1 betekent dus: alleen het uur zelf.

Gebruik:  python peilbuis_venster.py [venster]
"""
import sys

import numpy as np

KENMERKEN = ["stijghoogte", "rivierstand", "neerslag", "verdamping", "temperatuur"]


def softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    z = np.exp(z)
    return z / np.sum(z, axis=-1, keepdims=True)


def venstermasker(n, venster):
    """True waar uur i (rij) naar uur j (kolom) mag kijken."""
    i, j = np.indices((n, n))
    terug = i - j
    return (terug >= 0) & (terug <= venster)


def lokale_aandacht(q, k, v, venster):
    """q, k, v: [buizen, uren, koppen, d] -> [buizen, uren, koppen, d]"""
    d = q.shape[-1]
    s = np.einsum("bikd,bjkd->bkij", q, k) / np.sqrt(d)
    s = np.where(venstermasker(q.shape[1], venster), s, -np.inf)
    return np.einsum("bkij,bjkd->bikd", softmax(s), v)


class Peilmodel:
    def __init__(self, gewichten, koppen=2, venster=6):
        self.g = gewichten
        self.koppen = koppen
        self.venster = venster

    @classmethod
    def willekeurig(cls, breedte=16, zaad=1953, **kw):
        r = np.random.default_rng(zaad)
        n = len(KENMERKEN)
        g = {"in": r.normal(0, n ** -0.5, (n, breedte)), "uit": r.normal(0, breedte ** -0.5, (breedte, 1))}
        for naam in ("q", "k", "v", "o"):
            g[naam] = r.normal(0, breedte ** -0.5, (breedte, breedte))
        return cls(g, **kw)

    @classmethod
    def laden(cls, pad, **kw):
        with np.load(pad) as f:
            return cls({k: f[k] for k in f.files}, **kw)

    def _koppen(self, x):
        b, t, c = x.shape
        return x.reshape(b, t, self.koppen, c // self.koppen)

    def __call__(self, reeks):
        """reeks [buizen, uren, kenmerken] -> verwachte verandering in het volgende uur [buizen, uren]"""
        h = reeks @ self.g["in"]
        y = lokale_aandacht(*(self._koppen(h @ self.g[n]) for n in "qkv"), self.venster)
        h = h + y.reshape(h.shape) @ self.g["o"]
        return (np.tanh(h) @ self.g["uit"])[..., 0]

    def vooruit(self, reeks, uren):
        """Schuift de reeks op en vult de stijghoogte met de eigen voorspelling."""
        reeks = reeks.copy()
        for _ in range(uren):
            delta = self(reeks)[:, -1]
            nieuw = reeks[:, -1:].copy()
            nieuw[:, 0, 0] += delta
            reeks = np.concatenate([reeks[:, 1:], nieuw], axis=1)
        return reeks[:, -uren:, 0]


def hoofd(argv):
    venster = int(argv[1]) if len(argv) > 1 else 6
    r = np.random.default_rng(0)
    reeks = r.normal(size=(3, 24, len(KENMERKEN))).cumsum(1) * 0.1
    print(Peilmodel.willekeurig(venster=venster).vooruit(reeks, 4).round(3))


if __name__ == "__main__":
    hoofd(sys.argv)
