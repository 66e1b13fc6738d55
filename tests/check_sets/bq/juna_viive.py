"""Junien viiveiden ennustaminen (delay forecast for the Finnish rail network).

Jokainen asema on yksi alkio; huomio lasketaan asemien välillä. Pudotus (dropout)
on käytössä vain opetuksessa.
"""
import math
import torch
from torch import nn

ASEMAT = ["HKI", "PSL", "TKL", "RI", "HL", "TPE", "SK", "OL", "KEM", "ROI"]


def minuuteiksi(hhmm):
    return hhmm // 100 * 60 + hhmm % 100


def viive(aikataulu, toteuma):
    """minuutteina, vuorokauden vaihtuminen huomioiden"""
    ero = minuuteiksi(toteuma) - minuuteiksi(aikataulu)
    return (ero + 720) % 1440 - 720


class AsemaHuomio(nn.Module):
    """
    x       (B, N, leveys)
    suljettu (B, N) bool, True = asema on suljettu eikä sitä katsota
    palauttaa (B, N, leveys)
    """

    def __init__(self, leveys=32, paat=4, pudotus=0.1):
        super().__init__()
        self.paat = paat
        self.koko = leveys // paat
        self.kysely = nn.Linear(leveys, leveys)
        self.avain = nn.Linear(leveys, leveys)
        self.arvo = nn.Linear(leveys, leveys)
        self.ulos = nn.Linear(leveys, leveys)
        self.pudotus = nn.Dropout(pudotus)

    def _jaa(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.paat, self.koko).permute(0, 2, 1, 3)

    def forward(self, x, suljettu=None):
        if not self.training:
            self.pudotus.p = 0.0            # ennuste on aina toistettava
        b, n, _ = x.shape
        q, k, v = self._jaa(self.kysely(x)), self._jaa(self.avain(x)), self._jaa(self.arvo(x))
        pisteet = q.matmul(k.transpose(-1, -2)) / math.sqrt(self.koko)
        if suljettu is not None:
            pisteet = pisteet.masked_fill(suljettu[:, None, None, :], -1e9)
        paino = self.pudotus(pisteet.softmax(-1))
        y = paino.matmul(v).permute(0, 2, 1, 3).reshape(b, n, -1)
        return self.ulos(y)


class ViiveMalli(nn.Module):
    def __init__(self, piirteet=9, leveys=32, kerrokset=2):
        super().__init__()
        self.asema = nn.Embedding(len(ASEMAT), leveys)
        self.sisaan = nn.Linear(piirteet, leveys)
        self.huomiot = nn.ModuleList([AsemaHuomio(leveys) for _ in range(kerrokset)])
        self.normit = nn.ModuleList([nn.LayerNorm(leveys) for _ in range(kerrokset)])
        self.ulos = nn.Linear(leveys, 1)

    def forward(self, x, suljettu=None):
        h = self.sisaan(x) + self.asema.weight[: x.size(1)]
        for huomio, normi in zip(self.huomiot, self.normit):
            h = normi(h + huomio(h, suljettu))
        return self.ulos(h).squeeze(-1)


def opeta(malli, data, kierroksia=3, lr=1e-3):
    opt = torch.optim.AdamW(malli.parameters(), lr=lr)
    for kierros in range(kierroksia):
        malli.train()
        for x, suljettu, y in data:
            opt.zero_grad()
            virhe = (malli(x, suljettu) - y).abs().masked_fill(suljettu, 0.0).mean()
            virhe.backward()
            opt.step()
        malli.eval()
        with torch.no_grad():
            mae = sum((malli(x, s) - y).abs().mean().item() for x, s, y in data) / len(data)
        print(f"kierros {kierros}: MAE {mae:.2f} min")


if __name__ == "__main__":
    torch.manual_seed(0)
    erat = [(torch.randn(8, 10, 9), torch.rand(8, 10) < 0.1, 5 * torch.rand(8, 10)) for _ in range(3)]
    opeta(ViiveMalli(), erat)
