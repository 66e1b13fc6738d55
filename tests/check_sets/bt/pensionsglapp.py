"""Upptäcker luckor i tjänstepensionens inbetalningar (kommunala arbetsgivare).

Varje rad är ett år i en anställds historik. Vikterna visas för handläggaren, som måste
kunna läsa dem som andelar: varje rad i `vikter` summerar till 1.
"""
import math

import torch
import torch.nn as nn

AR_MAX = 48


class Arsvektor(nn.Module):
    def __init__(self, d_modell):
        super().__init__()
        self.belopp = nn.Linear(3, d_modell)      # lön, premie, tjänstgöringsgrad
        self.ar = nn.Embedding(AR_MAX, d_modell)

    def forward(self, x):
        return self.belopp(x) + self.ar.weight[: x.size(1)]


class Bakatblick(nn.Module):
    """Skalärprodukts-uppmärksamhet (Vaswani m.fl. 2017), flera huvuden.

    År t får se år 0..t, alltså även sig självt men inget senare.
    Returnerar (ut [B, T, d_modell], vikter [B, huvuden, T, T]).
    """

    def __init__(self, d_modell=30, huvuden=3, bortfall=0.1):
        super().__init__()
        self.huvuden = huvuden
        self.bredd = d_modell // huvuden
        self.fraga = nn.Linear(d_modell, d_modell)
        self.nyckel = nn.Linear(d_modell, d_modell)
        self.varde = nn.Linear(d_modell, d_modell)
        self.ihop = nn.Linear(d_modell, d_modell)
        self.bortfall = nn.Dropout(bortfall)

    def dela(self, t):
        return t.view(t.size(0), t.size(1), self.huvuden, self.bredd).transpose(1, 2)

    def forward(self, x):
        B, T, D = x.shape
        f = self.dela(self.fraga(x))
        n = self.dela(self.nyckel(x))
        v = self.dela(self.varde(x))

        poang = f @ n.transpose(2, 3) / math.sqrt(n.size(2))
        framtid = torch.triu(torch.ones(T, T, device=x.device), diagonal=2).bool()
        poang = poang.masked_fill(framtid, float("-inf"))
        vikter = self.bortfall(torch.softmax(poang, dim=-1))

        ut = (vikter @ v).transpose(1, 2).reshape(B, T, D)
        return self.ihop(ut), vikter


class Lucka(nn.Module):
    """Sannolikhet att premien för året saknas trots lön."""

    def __init__(self, d_modell=30):
        super().__init__()
        self.vektor = Arsvektor(d_modell)
        self.blick = Bakatblick(d_modell)
        self.norm = nn.LayerNorm(d_modell)
        self.ut = nn.Linear(d_modell, 1)

    def forward(self, x):
        h = self.vektor(x)
        y, vikter = self.blick(self.norm(h))
        return torch.sigmoid(self.ut(h + y)).squeeze(-1), vikter


class Rapport:
    def __init__(self, troskel=0.5):
        self.troskel = troskel

    def rader(self, p, vikter, forsta_ar):
        medel = vikter.mean(1)
        for b, t in torch.nonzero(p > self.troskel).tolist():
            bas = medel[b, t].topk(min(3, t + 1)).indices.tolist()
            yield f"person {b}: {forsta_ar + t} (jämfört med {[forsta_ar + i for i in bas]})"


def main():
    torch.manual_seed(5)
    modell = Lucka().eval()
    p, w = modell(torch.randn(2, 7, 3))
    print("\n".join(Rapport(0.4).rader(p, w, 1998)))


if __name__ == "__main__":
    main()
