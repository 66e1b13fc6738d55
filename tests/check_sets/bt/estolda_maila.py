# Estolda-sareko maila-sentsoreak: iragarpena mikrokontrolagailuan.
# Softmax-ik ez: arreta lineala, phi(x) = elu(x) + 1, eta egoera finko bat (S, z).
# Urrats bakoitzean: S <- S + phi(k) v^T ; z <- z + phi(k) ; y = phi(q) S / (phi(q) . z)
# Beraz t uneak t eta aurrekoak ikusten ditu.
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class Egoera:
    __slots__ = ("S", "z")

    def __init__(self, buruak, d, e):
        self.S = np.zeros((buruak, d, e))
        self.z = np.zeros((buruak, d))

    def kopia(self):
        k = Egoera(*self.S.shape)
        k.S[:], k.z[:] = self.S, self.z
        return k


class EstoldaArreta:
    """pisuak: {'q','k','v': [H, D, d], 'o': [H*d, D]};  deia: x [T, D] -> [T, D]."""

    def __init__(self, pisuak):
        self.p = pisuak
        self.H, self.D, self.d = pisuak["q"].shape

    def urratsa(self, x, egoera):
        q, k, v = (np.einsum("d,hde->he", x, self.p[n]) for n in "qkv")
        fq, fk = phi(q), phi(k)
        egoera.S += fk[:, :, None] * v[:, None, :]
        egoera.z += fk
        goia = np.einsum("hd,hde->he", fq, egoera.S)
        behea = (fq * egoera.z).sum(-1, keepdims=True)
        return (goia / behea).reshape(-1) @ self.p["o"]

    def __call__(self, x, egoera=None):
        if egoera is None:
            egoera = Egoera(self.H, self.d, self.d)
        return np.stack([self.urratsa(xt, egoera) for xt in x])


class Iragarlea:
    def __init__(self, arreta, w):
        self.arreta, self.w = arreta, w

    def aurrera(self, historia, ordu_kop):
        """Etorkizuneko `ordu_kop` maila, bata bestearen atzetik."""
        e = Egoera(self.arreta.H, self.arreta.d, self.arreta.d)
        y = self.arreta(historia, e)[-1]
        irteera = []
        for _ in range(ordu_kop):
            maila = float(y @ self.w)
            irteera.append(maila)
            x = np.r_[maila, historia[-1, 1:]]
            y = self.arreta.urratsa(x, e)
        return np.array(irteera)


def pisu_berriak(rng, D=6, H=2, d=4):
    p = {n: rng.normal(size=(H, D, d)) / D ** 0.5 for n in "qkv"}
    p["o"] = rng.normal(size=(H * d, D)) / (H * d) ** 0.5
    return p


if __name__ == "__main__":
    r = np.random.default_rng(9)
    a = EstoldaArreta(pisu_berriak(r))
    print(Iragarlea(a, r.normal(size=6)).aurrera(r.normal(size=(24, 6)), 5))
