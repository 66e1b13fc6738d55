"""Gärverlauf aus Sensorströmen: kausale lineare Attention als rekurrentes Netz (NumPy).

phi(x) = elu(x) + 1. Der Zustand S sammelt phi(k) v^T, z sammelt phi(k); damit kostet
jeder neue Messwert gleich viel, egal wie lange der Sud schon steht.
"""
import numpy as np


def elu_plus_eins(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


def schichtnorm(x, gamma, beta, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    s = x.var(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * gamma + beta


class LineareAttentionRNN:
    """Gewichte als Wörterbuch: wq, wk, wv, wo, alle [D, D]; Köpfe liegen hintereinander."""

    def __init__(self, gewichte, koepfe):
        self.g = gewichte
        self.koepfe = koepfe
        self.d = gewichte["wq"].shape[1] // koepfe
        self.neu()

    def neu(self):
        """Neuer Sud: Zustand leeren."""
        self.S = np.zeros((self.koepfe, self.d, self.d))
        self.z = np.zeros((self.koepfe, self.d))

    def schritt(self, x):
        """Ein Messvektor x [D] -> Ausgabe [D]."""
        q, k, v = ((x @ self.g[n]).reshape(self.koepfe, self.d) for n in ("wq", "wk", "wv"))
        q, k = elu_plus_eins(q), elu_plus_eins(k)
        self.S += k[:, :, None] * v[:, None, :]
        self.z += k
        zaehler = np.einsum("hd,hde->he", q, self.S)
        nenner = np.einsum("hd,hd->h", q, self.z)
        return (zaehler / nenner[:, None]).reshape(-1) @ self.g["wo"]

    def folge(self, xs):
        """Ganze Folge [T, D] ab dem jetzigen Zustand; entspricht T Aufrufen von schritt."""
        q, k, v = ((xs @ self.g[n]).reshape(len(xs), self.koepfe, self.d) for n in ("wq", "wk", "wv"))
        q, k = elu_plus_eins(q), elu_plus_eins(k)
        kv = self.S + np.cumsum(k[..., :, None] * v[..., None, :], axis=0)
        zk = self.z + np.cumsum(k, axis=0)
        y = np.einsum("thd,thde->the", q, kv) / np.einsum("thd,thd->th", q, zk)[..., None]
        self.S, self.z = kv[-1].copy(), zk[-1].copy()
        return y.reshape(len(xs), -1) @ self.g["wo"]


def zufallsgewichte(D, seed=0):
    r = np.random.default_rng(seed)
    return {n: r.normal(size=(D, D)) / np.sqrt(D) for n in ("wq", "wk", "wv", "wo")}


if __name__ == "__main__":
    netz = LineareAttentionRNN(zufallsgewichte(12), 3)
    sud = np.random.default_rng(1).normal(size=(20, 12))
    print(netz.folge(sud)[-1])
