import numpy as np


class WarstwaUwagi:
    # parametry: slownik z macierzami 'Wz', 'Wk', 'Ww', 'Wy'
    def __init__(self, wymiar=8, glowy=2, ziarno=0):
        los = np.random.RandomState(ziarno)
        self.glowy = glowy
        self.parametry = {nazwa: los.randn(wymiar, wymiar) / np.sqrt(wymiar) for nazwa in ("Wz", "Wk", "Ww", "Wy")}

    def _podziel(self, x):
        partia, dlugosc, wymiar = x.shape
        return x.reshape(partia, dlugosc, self.glowy, wymiar // self.glowy).transpose(0, 2, 1, 3)

    def __call__(self, x, kontekst=None):
        kontekst = x if kontekst is None else kontekst
        p = self.parametry
        zapytania = self._podziel(x @ p["Wz"])
        klucze = self._podziel(kontekst @ p["Wk"])
        wartosci = self._podziel(kontekst @ p["Ww"])
        oceny = np.einsum("bgic,bgjc->bgij", zapytania, klucze) / zapytania.shape[-1] ** 0.5
        wykladniki = np.exp(oceny - oceny.max(-1, keepdims=True))
        self.wagi = wykladniki / wykladniki.sum(-1, keepdims=True)
        wynik = np.einsum("bgij,bgjc->bigc", self.wagi, wartosci)
        return wynik.reshape(*x.shape) @ p["Wy"]
