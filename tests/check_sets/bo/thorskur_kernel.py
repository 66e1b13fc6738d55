"""Þorskafli eftir staðsetningu: Nadaraya-Watson sem athygli.

Spurning = fyrirhugaður togstaður (lengd, breidd, dýpi), lyklar = fyrri tog,
gildi = afli.  Vægi = softmax(-|q-k|^2 / (2 h^2)) með lærðri bandbreidd á vídd.
Enginn innfeldismargfaldari, því fjarlægðin er einkunnin.
"""
import numpy as np

VIDDIR = ("lengd", "breidd", "dypi")
TEGUNDIR = ("þorskur", "ýsa", "ufsi", "karfi")


def kvarda(x, medal=None, fravik=None):
    x = np.asarray(x, dtype=np.float64)
    if medal is None:
        medal, fravik = x.mean(0), x.std(0) + 1e-9
    return (x - medal) / fravik, medal, fravik


class AflaAthygli:
    """
    spurn  [Q, 3]
    lyklar [N, 3]
    gildi  [N, T]
    dagar  [Q, N] eða None: dagar milli togs og spurningar; aðeins tog sem eru
           eldri en spurningin (dagar > 0) mega telja.  Ef ekkert slíkt er til
           skilar línan NaN, svo að skipstjórinn sjái að gögn vantar.
    """

    def __init__(self, bandbreidd=(1.0, 1.0, 1.0), gleymska=0.0):
        self.h = np.asarray(bandbreidd, float)
        self.gleymska = gleymska          # vægi dofnar sem exp(-gleymska * dagar)

    def vaegi(self, spurn, lyklar, dagar=None):
        mism = (spurn[:, None, :] - lyklar[None, :, :]) / self.h
        e = -0.5 * (mism ** 2).sum(-1)
        if dagar is not None:
            e = e - self.gleymska * dagar
            e = np.where(dagar > 0, e, -np.inf)
        haest = e.max(1, keepdims=True)
        with np.errstate(invalid="ignore"):
            w = np.exp(e - haest)
            return w / w.sum(1, keepdims=True)

    def __call__(self, spurn, lyklar, gildi, dagar=None):
        return self.vaegi(spurn, lyklar, dagar) @ gildi


def krossprofun(lyklar, gildi, bandbreiddir):
    """Skilja-einn-eftir; velur bestu sameiginlegu bandbreidd."""
    N = len(lyklar)
    best = (np.inf, None)
    for h in bandbreiddir:
        a = AflaAthygli((h,) * len(VIDDIR))
        ekki_sjalf = 1.0 - np.eye(N)      # eigið tog fær dagar = 0 og fellur út
        spa = a(lyklar, lyklar, gildi, ekki_sjalf)
        villa = float(((spa - gildi) ** 2).mean())
        best = min(best, (villa, h))
    return best


if __name__ == "__main__":
    g = np.random.default_rng(0)
    k, m, s = kvarda(g.normal(size=(60, 3)) * [2, 1, 90] + [-22, 65, 180])
    afli = np.exp(g.normal(size=(60, len(TEGUNDIR))))
    print(krossprofun(k, afli, [0.2, 0.5, 1.0, 2.0]))
