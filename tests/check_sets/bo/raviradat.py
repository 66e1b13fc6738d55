"""Ravikilpailun etenemismalli: kierrosajat 100 m välein, NumPy.

Päättely on tilallinen: `Ravimuisti` kerää hevosen aiemmat väliajat ja uudet
väliajat katsovat kaikkea mennyttä sekä itseään.
"""
import numpy as np

ETÄISYYDET = (1609, 2100, 2640, 3140)


def alibi_kulmat(n):
    """n on kahden potenssi: 2^(-8/n), 2^(-16/n), ..."""
    return 2.0 ** (-8.0 * np.arange(1, n + 1) / n)


def kausaalinen_huomio(q, k, v, kulmat):
    """Kausaalinen huomio lineaarisella etäisyyssakolla (ALiBi).

    q [H, Lq, d]; k, v [H, Lk, d], Lk >= Lq.  Kyselyt ovat jonon viimeiset Lq
    kohtaa: kysely i on kohdassa Lk - Lq + i.  Mitä kauempana avain on, sitä
    pienemmän painon se saa.
    """
    H, Lq, d = q.shape
    Lk = k.shape[1]
    s = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(d)
    i = np.arange(Lk - Lq, Lk)[:, None]
    j = np.arange(Lk)[None, :]
    s = s + kulmat[:, None, None] * (i - j)
    näkyy = np.tril(np.ones((Lq, Lk), dtype=bool))
    s = np.where(näkyy, s, -np.inf)
    s = s - s.max(axis=-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=-1, keepdims=True)
    return p @ v


class Ravimuisti:
    def __init__(self, D=16, H=4, siemen=11):
        g = np.random.default_rng(siemen)
        self.H, self.d = H, D // H
        self.W = {n: g.normal(0, D ** -0.5, (D, D)) for n in "qkvo"}
        self.kulmat = alibi_kulmat(H)
        self.nollaa()

    def nollaa(self):
        self.k = np.zeros((self.H, 0, self.d))
        self.v = np.zeros((self.H, 0, self.d))

    def _päät(self, x):
        return x.reshape(len(x), self.H, self.d).transpose(1, 0, 2)

    def syötä(self, x):
        """x [L, D] uusia väliaikoja -> [L, D]"""
        q = self._päät(x @ self.W["q"])
        self.k = np.concatenate([self.k, self._päät(x @ self.W["k"])], axis=1)
        self.v = np.concatenate([self.v, self._päät(x @ self.W["v"])], axis=1)
        y = kausaalinen_huomio(q, self.k, self.v, self.kulmat)
        return y.transpose(1, 0, 2).reshape(len(x), -1) @ self.W["o"]


def kilometriaika(sekunnit, metrit):
    """1.15,3 -tyyppinen merkintä"""
    t = sekunnit / metrit * 1000
    m, s = divmod(t, 60)
    return f"{int(m)}." + f"{s:04.1f}".replace(".", ",")


if __name__ == "__main__":
    r = np.random.default_rng(0)
    m = Ravimuisti()
    print(m.syötä(r.normal(size=(5, 16))).shape, m.syötä(r.normal(size=(2, 16))).shape)
    print(kilometriaika(158.4, 2100))
