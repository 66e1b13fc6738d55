"""Neural Turing Machine, nur der Lesekopf (Graves, Wayne, Danihelka 2014), Kopieraufgabe.

Speicher M (B, N, W); aus dem Controllerzustand c (B, C) werden erzeugt

    k (B, W)  Schlüssel          beta  > 0   Schärfe (softplus)
    g in (0,1) Mischung          s (B, 3)    Verschiebung -1, 0, +1 (softmax)
    gamma >= 1 Nachschärfen

    w_c(i)   = softmax_i( beta * cos(k, M_i) )
    w_g      = g w_c + (1-g) w_alt
    w_s(i)   = sum_{r=-1,0,1} w_g(i - r mod N) s(r)          (s = [s(-1), s(0), s(1)])
    w(i)     = w_s(i)^gamma / sum_j w_s(j)^gamma
    gelesen  = sum_i w(i) M_i

Rückgabe: gelesen (B, W), w (B, N).  w_alt ist eine Verteilung (B, N).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Lesekopf(nn.Module):
    def __init__(self, C, W):
        super().__init__()
        self.W = W
        self.fc = nn.Linear(C, W + 1 + 1 + 3 + 1)

    def forward(self, c, M, w_alt):
        k, beta, g, s, gamma = self.fc(c).split([self.W, 1, 1, 3, 1], dim=1)
        beta = F.softplus(beta)
        g = torch.sigmoid(g)
        s = torch.softmax(s, dim=1)
        gamma = 1 + F.softplus(gamma)

        aehnlich = F.cosine_similarity(k[:, None, :], M, dim=2)
        w = torch.softmax(beta * aehnlich, dim=1)
        w = g * w + (1 - g) * w_alt
        w = (
            torch.roll(w, -1, dims=1) * s[:, 0:1]
            + w * s[:, 1:2]
            + torch.roll(w, 1, dims=1) * s[:, 2:3]
        )
        w = w**gamma
        w = w / w.sum(1, keepdim=True)
        return torch.einsum("bn,bnw->bw", w, M), w
