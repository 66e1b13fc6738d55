"""Ranking of shop items: how well does a candidate fit the last clicks of a customer?"""
import torch
from torch import nn


class KlickInteresse(nn.Module):
    """Candidate-aware summary of the click history.

    kandidat: (B, D)   verlauf: (B, L, D)   laenge: (B,) number of real clicks, the rest is padding
    returns (B, D); a customer without clicks gets zeros.
    """

    def __init__(self, dim, hidden=36):
        super().__init__()
        self.einheit = nn.Sequential(
            nn.Linear(4 * dim, hidden), nn.PReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, kandidat, verlauf, laenge):
        B, L, D = verlauf.shape
        k = kandidat.unsqueeze(1).expand(B, L, D)
        paar = torch.cat([k, verlauf, k - verlauf, k * verlauf], dim=-1)
        punkte = self.einheit(paar).squeeze(-1)
        echt = torch.arange(L, device=laenge.device)[None, :] < laenge[:, None]
        punkte = punkte.masked_fill(~echt, torch.finfo(punkte.dtype).min)
        gewicht = torch.softmax(punkte, dim=1) * echt
        return (gewicht.unsqueeze(-1) * verlauf).sum(1)


class Ranker(nn.Module):
    def __init__(self, n_items, dim=32):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim, padding_idx=0)
        self.interesse = KlickInteresse(dim)
        self.kopf = nn.Sequential(nn.Linear(3 * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, item, clicks):
        e, v = self.emb(item), self.emb(clicks)
        u = self.interesse(e, v, (clicks > 0).sum(1))
        return self.kopf(torch.cat([e, u, e * u], -1)).squeeze(-1)
