# Rozpoznawanie grzybów: na jeden okaz składa się kilka zdjęć (kapelusz, blaszki,
# trzon, pierścień). Uczony wektor-zapytanie zbiera z nich jeden opis.
from typing import Optional

import torch
from torch import nn, Tensor

GATUNKI = ("borowik szlachetny", "goryczak", "muchomor sromotnikowy", "czubajka kania")


class PulaZdjec(nn.Module):
    """Pulowanie uwagą przez `ziarna` uczonych zapytań.

    Args (forward):
        cechy: [okazy, zdjęcia, dim]
        brak:  [okazy, zdjęcia] bool — **True oznacza BRAK zdjęcia** (ta sama
               umowa co key_padding_mask w torch.nn.MultiheadAttention).

    Okaz bez żadnego zdjęcia dostaje wektor zerowy przed projekcją wyjściową.
    """

    def __init__(self, dim: int = 32, glowy: int = 4, ziarna: int = 2):
        super().__init__()
        self.glowy = glowy
        self.ziarna = nn.Parameter(torch.randn(ziarna, dim) * dim ** -0.5)
        self.do_k = nn.Linear(dim, dim)
        self.do_v = nn.Linear(dim, dim)
        self.wyj = nn.Linear(dim, dim)

    def _rozbij(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.glowy, -1)).movedim(-2, -3)

    def forward(self, cechy: Tensor, brak: Optional[Tensor] = None) -> Tensor:
        k, v = self._rozbij(self.do_k(cechy)), self._rozbij(self.do_v(cechy))
        q = self._rozbij(self.ziarna).unsqueeze(0)             # [1, g, ziarna, d]
        d = q.shape[-1]
        w = torch.einsum("xgqd,bgkd->bgqk", q, k).div(d ** 0.5)
        if brak is not None:
            zakaz = brak[:, None, None]
            w = w.masked_fill(zakaz, float("-inf"))
            m = w.amax(-1, keepdim=True)
            m = torch.where(torch.isfinite(m), m, torch.zeros_like(m))
            e = (w - m).exp()
            suma = e.sum(-1, keepdim=True)
            a = e / torch.where(suma > 0, suma, torch.ones_like(suma))
        else:
            a = w.softmax(-1)
        y = a @ v
        return self.wyj(y.movedim(-3, -2).flatten(-2))


class Klasyfikator(nn.Module):
    def __init__(self, dim: int = 32, ziarna: int = 2):
        super().__init__()
        self.pula = PulaZdjec(dim, ziarna=ziarna)
        self.glowa = nn.Sequential(nn.Flatten(), nn.LayerNorm(dim * ziarna),
                                   nn.Linear(dim * ziarna, len(GATUNKI)))

    def forward(self, cechy, brak=None):
        return self.glowa(self.pula(cechy, brak))


def ostrzez(logity: Tensor, prog: float = 0.02) -> list:
    """Zwraca indeksy okazów, w których muchomor ma prawdopodobieństwo > prog."""
    p = logity.softmax(-1)[:, GATUNKI.index("muchomor sromotnikowy")]
    return (p > prog).nonzero().flatten().tolist()
