import torch
import torch.nn as nn


class KartenBetrug(nn.Module):
    """Kreditkarten: looks at the last payments of a card and scores the newest one.

    umsatz (B, L, F), the newest payment is at position 0; gueltig (B, L) is True for payments,
    False for padding (position 0 is always a payment). Padding must not influence the score.
    """

    def __init__(self, merkmale, breite=32, koepfe=4):
        super().__init__()
        self.koepfe, self.d = koepfe, breite // koepfe
        self.ein = nn.Linear(merkmale, breite)
        self.q = nn.Linear(breite, breite)
        self.k = nn.Linear(breite, breite)
        self.v = nn.Linear(breite, breite)
        self.o = nn.Linear(breite, breite)
        self.urteil = nn.Sequential(nn.LayerNorm(breite), nn.Linear(breite, 1))

    def _teile(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.koepfe, self.d).transpose(1, 2)

    def forward(self, umsatz, gueltig):
        x = torch.relu(self.ein(umsatz))
        q, k, v = self._teile(self.q(x)), self._teile(self.k(x)), self._teile(self.v(x))
        punkte = torch.matmul(q, k.transpose(2, 3)) / self.d ** 0.5
        maske = gueltig[:, None, :, None]
        punkte = punkte.masked_fill(~maske, torch.finfo(punkte.dtype).min)
        gewicht = torch.softmax(punkte, dim=-1)
        y = torch.matmul(gewicht, v).transpose(1, 2).flatten(2)
        x = x + self.o(y)
        return self.urteil(x[:, 0]).squeeze(-1)
