"""Rozpoznawanie brajla ze skanów: enkoder linii z "gadającymi głowami".

Głowy wymieniają się informacją dwa razy: przed softmaxem (macierz P) i po
softmaxie (macierz W).  Zob. Shazeer i in., "Talking-Heads Attention", 2020.
"""
import torch
import torch.nn as nn

KROPKI = 6


def komorka_na_znak(bity):
    """(0/1) * 6 -> znak Unicode U+2800.."""
    return chr(0x2800 + sum(b << i for i, b in enumerate(bity)))


class GadajaceGlowy(nn.Module):
    """Uwaga własna.

    wymiar   - szerokość modelu
    h_k      - liczba głów przy kluczach i zapytaniach
    h        - liczba głów softmaxu
    h_v      - liczba głów przy wartościach
    """

    def __init__(self, wymiar, h_k=2, h=6, h_v=4, d_k=8, d_v=8):
        super().__init__()
        self.W_q = nn.Parameter(torch.randn(wymiar, h_k, d_k) * wymiar ** -0.5)
        self.W_k = nn.Parameter(torch.randn(wymiar, h_k, d_k) * wymiar ** -0.5)
        self.W_v = nn.Parameter(torch.randn(wymiar, h_v, d_v) * wymiar ** -0.5)
        self.W_o = nn.Parameter(torch.randn(h_v, d_v, wymiar) * (h_v * d_v) ** -0.5)
        self.P = nn.Parameter(torch.randn(h_k, h) * h_k ** -0.5)
        self.W = nn.Parameter(torch.randn(h, h_v) * h ** -0.5)
        self.d_k = d_k

    def forward(self, x, puste=None):
        """x: [b, n, wymiar]; puste: [b, n] bool, True = wypełnienie (pomijane).

        Każda linia ma co najmniej jedną prawdziwą komórkę.
        """
        q = torch.einsum("bnc,chd->bnhd", x, self.W_q)
        k = torch.einsum("bmc,chd->bmhd", x, self.W_k)
        v = torch.einsum("bmc,cvd->bmvd", x, self.W_v)
        logity = torch.einsum("bnhd,bmhd->bhnm", q, k) / self.d_k ** 0.5
        logity = torch.einsum("bhnm,hg->bgnm", logity, self.P)
        # maska dopiero po zmieszaniu głów: nieskończoność razy waga to NaN
        if puste is not None:
            logity = logity.masked_fill(puste[:, None, None, :], -torch.inf)
        wagi = logity.softmax(-1)
        wagi = torch.einsum("bgnm,gv->bvnm", wagi, self.W)
        o = torch.einsum("bvnm,bmvd->bnvd", wagi, v)
        return torch.einsum("bnvd,vdc->bnc", o, self.W_o)


class Warstwa(nn.Module):
    def __init__(self, wymiar):
        super().__init__()
        self.uwaga = GadajaceGlowy(wymiar)
        self.ln = nn.LayerNorm(wymiar)
        self.ff = nn.Sequential(nn.LayerNorm(wymiar), nn.Linear(wymiar, 2 * wymiar), nn.ReLU(),
                                nn.Linear(2 * wymiar, wymiar))

    def forward(self, x, puste):
        x = x + self.uwaga(self.ln(x), puste)
        return x + self.ff(x)


class CzytnikLinii(nn.Module):
    """Wejście: pasek skanu pocięty na komórki 24x16 pikseli."""

    def __init__(self, wymiar=48, warstw=2):
        super().__init__()
        self.wej = nn.Linear(24 * 16, wymiar)
        self.warstwy = nn.ModuleList(Warstwa(wymiar) for _ in range(warstw))
        self.wyj = nn.Linear(wymiar, KROPKI)

    def forward(self, komorki, dlugosci):
        n = komorki.shape[1]
        puste = torch.arange(n, device=komorki.device)[None] >= dlugosci[:, None]
        x = self.wej(komorki.flatten(2))
        for w in self.warstwy:
            x = w(x, puste)
        return self.wyj(x).sigmoid()
