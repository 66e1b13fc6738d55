"""Paarstapel für Spinnenseiden-Proteine: Dreiecks-Attention um den Startknoten.

Paardarstellung z: [B, N, N, C]. Für jede Zeile i laufen Anfrage j und Schlüssel k
über die Spalten; der Kantenbias kommt aus z[j, k]. Maske: 1 = echter Rest, 0 = Füllung.
"""
import math

import torch
from torch import nn

GROSS = 1e9


class DreiecksAttention(nn.Module):
    def __init__(self, c_z: int, c_h: int, koepfe: int, startend: bool = True):
        super().__init__()
        self.c_h, self.koepfe, self.startend = c_h, koepfe, startend
        self.norm = nn.LayerNorm(c_z)
        self.lin_b = nn.Linear(c_z, koepfe, bias=False)
        self.lin_q = nn.Linear(c_z, koepfe * c_h, bias=False)
        self.lin_k = nn.Linear(c_z, koepfe * c_h, bias=False)
        self.lin_v = nn.Linear(c_z, koepfe * c_h, bias=False)
        self.lin_g = nn.Linear(c_z, koepfe * c_h)
        self.lin_o = nn.Linear(koepfe * c_h, c_z)

    def _koepfe(self, t):
        return t.unflatten(-1, (self.koepfe, self.c_h)).transpose(-2, -3)   # [B, I, H, J, c]

    def forward(self, z, maske=None):
        """z: [B, N, N, C]; maske: [B, N, N] mit 0/1 oder None."""
        if maske is None:
            maske = z.new_ones(z.shape[:-1])
        if not self.startend:                       # um den Endknoten: Zeilen und Spalten tauschen
            z, maske = z.transpose(1, 2), maske.transpose(1, 2)
        z = self.norm(z)
        mbias = GROSS * (maske - 1.0)[:, :, None, None, :]        # über Schlüssel
        pbias = self.lin_b(z).permute(0, 3, 1, 2)[:, None]        # [B, 1, H, J, K]

        q = self._koepfe(self.lin_q(z)) / math.sqrt(self.c_h)
        k = self._koepfe(self.lin_k(z))
        v = self._koepfe(self.lin_v(z))
        a = torch.einsum("bihjc,bihkc->bihjk", q, k) + mbias + pbias
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("bihjk,bihkc->bijhc", a, v).flatten(-2)
        o = self.lin_o(torch.sigmoid(self.lin_g(z)) * o)
        return o if self.startend else o.transpose(1, 2)


class PaarUebergang(nn.Module):
    def __init__(self, c, faktor=2):
        super().__init__()
        self.netz = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, faktor * c), nn.ReLU(), nn.Linear(faktor * c, c))

    def forward(self, z):
        return self.netz(z)


class PaarBlock(nn.Module):
    def __init__(self, c_z=16, c_h=4, koepfe=2):
        super().__init__()
        self.start = DreiecksAttention(c_z, c_h, koepfe, True)
        self.ende = DreiecksAttention(c_z, c_h, koepfe, False)
        self.weiter = PaarUebergang(c_z)

    def forward(self, z, maske=None):
        z = z + self.start(z, maske)
        z = z + self.ende(z, maske)
        return z + self.weiter(z)


if __name__ == "__main__":
    m = PaarBlock()
    print(m(torch.randn(1, 5, 5, 16), torch.ones(1, 5, 5)).shape)
