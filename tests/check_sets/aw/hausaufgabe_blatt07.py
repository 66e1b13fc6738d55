"""
Blatt 07, Aufgabe 3 -- Mehrkopf-Aufmerksamkeit in NumPy.
Gruppe 12 (Maschinelles Lernen II, Sommersemester)

Formen:
    X        (N, T, D)
    maske    (N, T)      1 = echtes Wort, 0 = Auffuellung
"""
import numpy as np


def xavier(rng, ein, aus):
    grenze = np.sqrt(6.0 / (ein + aus))
    return rng.uniform(-grenze, grenze, size=(ein, aus))


def schicht_norm(x, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    s = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps)


class Aufmerksamkeit:
    def __init__(self, D, koepfe, seed=0):
        assert D % koepfe == 0
        rng = np.random.default_rng(seed)
        self.D, self.h, self.d = D, koepfe, D // koepfe
        self.Wq, self.Wk, self.Wv, self.Wo = (xavier(rng, D, D) for _ in range(4))

    def _teile(self, x):
        N, T, _ = x.shape
        return np.moveaxis(x.reshape(N, T, self.h, self.d), 2, 0)   # (h, N, T, d)

    def vorwaerts(self, X, maske=None):
        q, k, v = (self._teile(X @ W) for W in (self.Wq, self.Wk, self.Wv))
        # (h, N, T, T)
        punkte = np.einsum("hnqd,hnkd->hnqk", q, k) * self.d ** -0.5
        if maske is not None:
            punkte = np.where(maske[None, :, None, :] > 0, punkte, -np.inf)
        hoch = punkte.max(axis=-1, keepdims=True)
        hoch = np.where(np.isfinite(hoch), hoch, 0.0)
        e = np.exp(punkte - hoch)
        nenner = e.sum(axis=-1, keepdims=True)
        gewichte = e / np.where(nenner == 0, 1.0, nenner)
        z = gewichte @ v
        z = np.moveaxis(z, 0, 2).reshape(X.shape[0], X.shape[1], self.D)
        return z @ self.Wo, gewichte

    __call__ = vorwaerts


class Block:
    def __init__(self, D, koepfe, innen, seed=0):
        rng = np.random.default_rng(seed + 1)
        self.att = Aufmerksamkeit(D, koepfe, seed)
        self.W1, self.W2 = xavier(rng, D, innen), xavier(rng, innen, D)

    def __call__(self, X, maske=None):
        a, _ = self.att(schicht_norm(X), maske)
        X = X + a
        return X + np.maximum(schicht_norm(X) @ self.W1, 0) @ self.W2


if __name__ == "__main__":
    b = Block(16, 4, 32)
    print(b(np.random.randn(2, 5, 16)).shape)
