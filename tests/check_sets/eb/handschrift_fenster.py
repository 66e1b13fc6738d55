"""Handschrift-Synthese nach Graves (2013), hier nur die erste Schicht mit dem weichen Fenster.

Zu jedem Zeitschritt schaut die LSTM-Zelle durch K Gauss-Glocken auf den Text:

    phi(t, u) = sum_k  alpha_k * exp(-beta_k * (kappa_k(t) - u)^2)
    w(t)      = sum_u  phi(t, u) * c_u

Wie im Artikel ist phi NICHT normiert (die Summe ueber u darf von 1 abweichen),
kappa waechst nur, und Fuellzeichen bekommen genau phi = 0.
"""
import torch
from torch import nn


class Fenster(nn.Module):
    def __init__(self, n_zeichen, breite=48, K=4):
        super().__init__()
        self.K = K
        self.breite = breite
        self.zelle = nn.LSTMCell(3 + n_zeichen, breite)
        self.abk = nn.Linear(breite, 3 * K)

    def forward(self, stift, text, echt):
        """
        stift: [B, T, 3]   Stiftbewegungen (dx, dy, abgehoben)
        text:  [B, U, C]   one-hot Zeichen
        echt:  [B, U]      1 = Zeichen, 0 = Fuellung
        Rueckgabe: h [B, T, breite] und phi [B, T, U]
        """
        B, T, _ = stift.shape
        U, C = text.shape[1], text.shape[2]
        h = stift.new_zeros(B, self.breite)
        c = torch.zeros_like(h)
        kappa = stift.new_zeros(B, self.K)
        w = text[:, 0]
        u = torch.arange(U, device=stift.device, dtype=stift.dtype)
        hs, phis = [], []
        for t in range(T):
            h, c = self.zelle(torch.cat([stift[:, t], w], dim=-1), (h, c))
            alpha, beta, dk = self.abk(h).exp().chunk(3, dim=-1)
            kappa = kappa + dk
            glocken = alpha[:, :, None] * torch.exp(-beta[:, :, None] * (kappa[:, :, None] - u) ** 2)
            phi = glocken.sum(dim=1) * echt
            w = torch.bmm(phi.unsqueeze(1), text).squeeze(1)
            hs.append(h)
            phis.append(phi)
        return torch.stack(hs, 1), torch.stack(phis, 1)
