# Eläinklinikan päivystys: potilaskertomuksen rivit -> oirekuva
# (kissat ja koirat, myös yksi fretti)
#
# Huomio lasketaan ensin kaikille riveille ja tyhjät rivit poistetaan vasta
# todennäköisyyksistä; sen jälkeen rivi normalisoidaan uudelleen, jolloin tulos
# on sama kuin jos tyhjät olisi suljettu pois jo pisteistä.
import numpy as np

OIREET = ["ripuli", "oksentelu", "ontuma", "kutina", "väsymys"]


def _pehmeä(x, akseli):
    x = x - x.max(axis=akseli, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=akseli, keepdims=True)


class Huomio:
    """Ristihuomio oireista kertomuksen riveihin.

    kysely  (E, K, D)   E eläintä, K oiretta
    rivit   (E, R, D)
    tyhjä   (E, R)      1.0 = rivi on tyhjä, 0.0 = rivi on kirjoitettu
    Palauttaa (E, K, D) ja painot (E, P, K, R).
    """

    def __init__(self, D=16, päitä=4, siemen=1):
        g = np.random.default_rng(siemen)
        self.päitä = päitä
        self.paino = {n: g.standard_normal((D, D)) / D ** 0.5 for n in ("q", "k", "v", "o")}

    def _jaa(self, t):
        E, L, D = t.shape
        return t.reshape(E, L, self.päitä, D // self.päitä).swapaxes(1, 2)

    def __call__(self, kysely, rivit, tyhjä=None):
        q = self._jaa(kysely @ self.paino["q"])
        k = self._jaa(rivit @ self.paino["k"])
        v = self._jaa(rivit @ self.paino["v"])
        pisteet = np.einsum("epkd,eprd->epkr", q, k) / np.sqrt(q.shape[-1])
        p = _pehmeä(pisteet, -1)
        if tyhjä is not None:
            p = p * (1.0 - tyhjä)[:, None, None, :]
            p = p / np.maximum(p.sum(-1, keepdims=True), 1e-30)
        y = np.einsum("epkr,eprd->epkd", p, v).swapaxes(1, 2)
        return y.reshape(kysely.shape[0], kysely.shape[1], -1) @ self.paino["o"], p


class Kertomus:
    def __init__(self, D=16, siemen=2):
        g = np.random.default_rng(siemen)
        self.oire = g.standard_normal((len(OIREET), D))
        self.huomio = Huomio(D)
        self.pää = g.standard_normal(D)

    @staticmethod
    def täytä(luettelot, D):
        R = max(len(l) for l in luettelot)
        x = np.zeros((len(luettelot), R, D))
        tyhjä = np.ones((len(luettelot), R))
        for i, l in enumerate(luettelot):
            x[i, : len(l)] = l
            tyhjä[i, : len(l)] = 0.0
        return x, tyhjä

    def __call__(self, luettelot):
        x, tyhjä = self.täytä(luettelot, self.oire.shape[1])
        kys = np.broadcast_to(self.oire, (len(x),) + self.oire.shape)
        y, _ = self.huomio(kys, x, tyhjä)
        return 1 / (1 + np.exp(-(y @ self.pää)))


if __name__ == "__main__":
    r = np.random.default_rng(5)
    print(Kertomus()([r.normal(size=(n, 16)) for n in (3, 7, 1)]).round(2))
