"""Lokale Aufmerksamkeit mit Vorhersage der Stelle (Luong 2015, "local-p").

    p    = n * sigmoid(v . tanh(W_p s))             n = wahre Länge der Quelle
    a_j  = softmax_j( s^T W_a h_j ) * exp(-(j - p)^2 / (2 sigma^2)),  sigma = D/2
           die Softmax läuft über die Wörter j im Fenster m-D .. m+D,
           m = min(round(p), n-1); außerhalb ist a_j = 0
    c    = sum_j a_j h_j,    s~ = tanh(W_c [c; s])

Wie im Aufsatz wird nach der Gauß-Glocke *nicht* neu normiert, die Summe der
a_j ist also höchstens 1.

``Lokal(d, D)``:  s (B, d) Zustand, h (B, L, d) Quelle, n (B,) long, Längen >= 1
Rückgabe (s~ (B, d), a (B, L)).  Positionen ab n[b] sind Auffüllung, a_j = 0.
"""
import torch
from torch import nn


class Lokal(nn.Module):
    def __init__(self, d, D=4):
        super().__init__()
        self.D = D
        self.W_p = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, 1, bias=False)
        self.W_a = nn.Linear(d, d, bias=False)
        self.W_c = nn.Linear(2 * d, d, bias=False)

    def forward(self, s, h, n):
        L = h.size(1)
        j = torch.arange(L, device=h.device)
        nf = n.to(h.dtype)[:, None]
        p = nf * torch.sigmoid(self.v(torch.tanh(self.W_p(s))))          # (B, 1)
        # die Mitte des Fensters bleibt auf einem echten Wort
        mitte = torch.minimum(p.round().long(), n[:, None] - 1)
        offen = ((j - mitte).abs() <= self.D) & (j < n[:, None])
        e = torch.einsum("bd,bld->bl", s, self.W_a(h))
        e = e.masked_fill(~offen, float("-inf"))
        glocke = torch.exp(-(j - p) ** 2 / (2 * (self.D / 2) ** 2))
        a = torch.softmax(e, dim=1) * glocke
        c = torch.bmm(a[:, None], h)[:, 0]
        return torch.tanh(self.W_c(torch.cat([c, s], dim=1))), a
