"""Kaupungin neuvontabotin sivutettu KV-välimuisti (NumPy-viitetoteutus).

Avaimet ja arvot ovat fyysisillä sivuilla; jokaisella keskustelulla on sivutaulu, joka
kertoo missä sen looginen sivu 0, 1, 2, ... sijaitsee. Sivut jaetaan takaisin vapaiden
listalle, kun kansalainen sulkee ikkunan, joten fyysinen järjestys on sattumanvarainen.
"""
from dataclasses import dataclass, field

import numpy as np


class Loppu(RuntimeError):
    """Vapaita sivuja ei ole."""


class Sivusto:
    def __init__(self, sivuja, koko, kv_paat, d):
        self.koko = koko
        self.k = np.zeros((sivuja, koko, kv_paat, d))
        self.v = np.zeros((sivuja, koko, kv_paat, d))
        self.vapaat = list(range(sivuja))[::-1]

    def varaa(self):
        if not self.vapaat:
            raise Loppu
        return self.vapaat.pop()


@dataclass
class Keskustelu:
    taulu: list = field(default_factory=list)
    pituus: int = 0

    def lisaa(self, sivusto, k, v):
        """k, v [kv_paat, d]: yksi token."""
        kohta = self.pituus % sivusto.koko
        if kohta == 0:
            self.taulu.append(sivusto.varaa())
        sivusto.k[self.taulu[-1], kohta] = k
        sivusto.v[self.taulu[-1], kohta] = v
        self.pituus += 1

    def vapauta(self, sivusto):
        sivusto.vapaat += self.taulu
        self.taulu, self.pituus = [], 0


def sivuhuomio(q, sivusto, keskustelut):
    """q [B, H, d]: kunkin keskustelun uusin token, jonka k ja v on jo lisätty.

    Kyselypää h lukee kv-päätä h // (H // kv_paat). Palauttaa [B, H, d].
    Jokaisessa keskustelussa on vähintään yksi token.
    """
    B, H, d = q.shape
    G = sivusto.k.shape[2]
    ulos = np.empty_like(q)
    for b, kesk in enumerate(keskustelut):
        n = kesk.pituus
        k = sivusto.k[kesk.taulu].reshape(-1, G, d)[:n]
        v = sivusto.v[kesk.taulu].reshape(-1, G, d)[:n]
        qg = q[b].reshape(G, H // G, d)
        s = np.einsum("grd,ngd->grn", qg, k) / d ** 0.5
        s = np.exp(s - s.max(-1, keepdims=True))
        p = s / s.sum(-1, keepdims=True)
        ulos[b] = np.einsum("grn,ngd->grd", p, v).reshape(H, d)
    return ulos


def demo():
    rng = np.random.default_rng(2)
    sivusto = Sivusto(sivuja=10, koko=4, kv_paat=2, d=8)
    kaikki = [Keskustelu(), Keskustelu(), Keskustelu()]
    for n, kesk in zip((5, 9, 2), kaikki):
        for _ in range(n):
            kesk.lisaa(sivusto, rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    kaikki[0].vapauta(sivusto)
    kaikki[0].lisaa(sivusto, rng.normal(size=(2, 8)), rng.normal(size=(2, 8)))
    return sivuhuomio(rng.normal(size=(3, 4, 8)), sivusto, kaikki)


if __name__ == "__main__":
    print(demo().shape)
