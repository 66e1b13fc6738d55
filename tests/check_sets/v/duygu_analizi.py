# Yorumlardan duygu analizi: tek katmanlı öz-dikkat + ortalama (saf NumPy, eğitim yok)
import numpy as np


class Gomme:
    def __init__(self, sozluk, boyut, uzunluk, rng):
        self.kelime = rng.standard_normal((sozluk, boyut)) * 0.3
        konum = np.arange(uzunluk)[:, None]
        kat = np.exp(-np.log(10000.0) * np.arange(0, boyut, 2) / boyut)
        self.konum = np.zeros((uzunluk, boyut))
        self.konum[:, 0::2] = np.sin(konum * kat)
        self.konum[:, 1::2] = np.cos(konum * kat)

    def __call__(self, kimlik):
        return self.kelime[kimlik] + self.konum[: kimlik.shape[1]]


class OzDikkat:
    def __init__(self, boyut, rng):
        olcek = 1 / np.sqrt(boyut)
        self.Ws = rng.standard_normal((boyut, boyut)) * olcek  # sorgu
        self.Wa = rng.standard_normal((boyut, boyut)) * olcek  # anahtar
        self.Wd = rng.standard_normal((boyut, boyut)) * olcek  # deger
        self.boyut = boyut

    def ileri(self, x):
        """x: (yigin, uzunluk, boyut)"""
        sorgu, anahtar, deger = x @ self.Ws, x @ self.Wa, x @ self.Wd
        puan = sorgu @ anahtar.transpose(0, 2, 1) / np.sqrt(self.boyut)
        puan = np.exp(puan - puan.max(axis=1, keepdims=True))
        agirlik = puan / puan.sum(axis=1, keepdims=True)
        return agirlik @ deger, agirlik


class DuyguModeli:
    def __init__(self, sozluk=40, boyut=12, uzunluk=16, sinif=3, tohum=0):
        rng = np.random.default_rng(tohum)
        self.gomme = Gomme(sozluk, boyut, uzunluk, rng)
        self.dikkat = OzDikkat(boyut, rng)
        self.W = rng.standard_normal((boyut, sinif))
        self.b = np.zeros(sinif)

    def tahmin(self, kimlik):
        x = self.gomme(kimlik)
        y, _ = self.dikkat.ileri(x)
        ortalama = (x + y).mean(axis=1)
        logit = ortalama @ self.W + self.b
        e = np.exp(logit - logit.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    print(DuyguModeli().tahmin(rng.integers(0, 40, (4, 9))).round(3))
