"""Muzejní průvodce: návštěvník se ptá, exponáty odpovídají.

Vektory exponátů v sále se během dne nemění, ale dotazů je mnoho; aby se nic
nepočítalo dvakrát, průvodce si pamatuje, co už spočítal.
"""
import hashlib
from collections import OrderedDict

import numpy as np


def otisk(*pole):
    h = hashlib.blake2b(digest_size=16)
    for p in pole:
        h.update(str(p.shape).encode())
        h.update(np.ascontiguousarray(p).tobytes())
    return h.hexdigest()


class Pamet(OrderedDict):
    """LRU slovník s pevnou kapacitou."""

    def __init__(self, kapacita):
        super().__init__()
        self.kapacita = kapacita

    def dej(self, klic, spocti):
        if klic in self:
            self.move_to_end(klic)
            return self[klic]
        hodnota = self[klic] = spocti()
        while len(self) > self.kapacita:
            self.popitem(last=False)
        return hodnota


class Pruvodce:
    """Škálovaná pozornost dotazů nad exponáty.

    odpovez(q, k, v, otevreno):
        q [Lq, d] dotazy, k [Lk, d] klíče exponátů, v [Lk, e] popisy
        otevreno [Lk] bool, True = exponát je vystaven
    vrací [Lq, e]
    """

    def __init__(self, kapacita=64):
        self.pamet = Pamet(kapacita)
        self.dotazu = 0

    def _vahy(self, q, k, otevreno):
        s = q @ k.T * q.shape[-1] ** -0.5
        if otevreno is not None:
            s = np.where(otevreno[None, :], s, -np.inf)
        s = s - s.max(-1, keepdims=True)
        e = np.exp(s)
        return e / e.sum(-1, keepdims=True)

    def odpovez(self, q, k, v, otevreno=None):
        self.dotazu += len(q)
        stav = np.ones(len(k), bool) if otevreno is None else otevreno
        klic = (len(q), otisk(k, stav))
        w = self.pamet.dej(klic, lambda: self._vahy(q, k, otevreno))
        return w @ v

    __call__ = odpovez


class Sal:
    def __init__(self, nazev, exponaty, d=12):
        g = np.random.default_rng(abs(hash(nazev)) % 2**32)
        self.nazev, self.exponaty = nazev, list(exponaty)
        self.k = g.normal(size=(len(self.exponaty), d))
        self.v = np.eye(len(self.exponaty))

    def doporuc(self, pruvodce, dotaz, kolik=3):
        p = pruvodce(np.atleast_2d(dotaz), self.k, self.v)[0]
        return [self.exponaty[i] for i in np.argsort(-p)[:kolik]]


if __name__ == "__main__":
    sal = Sal("baroko", ["Škréta", "Brandl", "Kupecký", "Reiner", "Braun"])
    print(sal.doporuc(Pruvodce(), np.random.default_rng(0).normal(size=12)))
