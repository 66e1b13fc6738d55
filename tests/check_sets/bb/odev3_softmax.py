# -*- coding: utf-8 -*-
# BIL 586 - Ödev 3: "Attention is all you need" kodlaması (sadece NumPy)
# Öğrenci: grup 7
import numpy as np

rng = np.random.default_rng(586)


def katman_norm(x, eps=1e-6):
    """son eksende normalize eder"""
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps)


def kararli_softmax(x):
    """Son eksen üzerinde sayısal olarak kararlı softmax (satırların toplamı 1)."""
    enb = np.max(x, axis=-1, keepdims=True)
    ust = np.exp(x - enb)
    return ust / np.sum(np.exp(x), axis=-1, keepdims=True)


def dikkat(Q, K, V, maske=None):
    """
    Ölçekli nokta çarpım dikkati.

    Q: (..., n, d)   K: (..., m, d)   V: (..., m, e)
    maske: (..., n, m), 1 -> görülebilir, 0 -> gizli. Her satırda en az bir tane 1 vardır.
    Dönen: çıktı (..., n, e), ağırlıklar (..., n, m)
    """
    d = Q.shape[-1]
    skor = np.matmul(Q, np.swapaxes(K, -1, -2)) / np.sqrt(d)
    if maske is not None:
        skor = np.where(maske == 0, -np.inf, skor)
    agirlik = kararli_softmax(skor)
    return np.matmul(agirlik, V), agirlik


class CokBasliDikkat:
    def __init__(self, boyut, bas_sayisi):
        assert boyut % bas_sayisi == 0
        self.h = bas_sayisi
        olcek = boyut ** -0.5
        self.Wq, self.Wk, self.Wv, self.Wo = (
            rng.normal(0, olcek, (boyut, boyut)) for _ in range(4))

    def bol(self, x):
        b, n, d = x.shape
        return x.reshape(b, n, self.h, d // self.h).transpose(0, 2, 1, 3)

    def __call__(self, x, y=None, maske=None):
        y = x if y is None else y
        o, _ = dikkat(self.bol(x @ self.Wq), self.bol(y @ self.Wk), self.bol(y @ self.Wv), maske)
        b, h, n, e = o.shape
        return o.transpose(0, 2, 1, 3).reshape(b, n, h * e) @ self.Wo


def nedensel(n):
    return np.tril(np.ones((n, n)))


def kodlayici(x, katmanlar, maske=None):
    for kat in katmanlar:
        x = katman_norm(x + kat(x, maske=maske))
    return x


if __name__ == "__main__":
    x = rng.normal(size=(2, 5, 16))
    y = kodlayici(x, [CokBasliDikkat(16, 4) for _ in range(2)], nedensel(5))
    print(y.shape, float(y.std()))
