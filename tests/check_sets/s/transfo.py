# Traducteur jouet : couche du décodeur
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionMulti(nn.Module):
    def __init__(self, d_modele, n_tetes):
        super().__init__()
        self.d_modele = d_modele
        self.n_tetes = n_tetes
        self.lin_q = nn.Linear(d_modele, d_modele)
        self.lin_k = nn.Linear(d_modele, d_modele)
        self.lin_v = nn.Linear(d_modele, d_modele)
        self.lin_o = nn.Linear(d_modele, d_modele)

    def tetes(self, x):
        b, n, _ = x.size()
        return x.view(b, n, self.n_tetes, -1).transpose(1, 2)

    def forward(self, q, k, v, rembourrage=None, causal=False):
        """rembourrage (b, n_k) : True là où la phrase lue est remplie par <pad>"""
        q, k, v = self.tetes(self.lin_q(q)), self.tetes(self.lin_k(k)), self.tetes(self.lin_v(v))
        scores = q @ k.transpose(2, 3) / math.sqrt(self.d_modele)
        if rembourrage is not None:
            scores = scores.masked_fill(rembourrage.unsqueeze(1).unsqueeze(3), -1e9)
        if causal:
            n = scores.size(-1)
            futur = torch.triu(torch.ones(n, n, device=q.device), diagonal=2).bool()
            scores = scores.masked_fill(futur, -1e9)
        poids = F.softmax(scores, dim=-1)
        y = (poids @ v).transpose(1, 2).contiguous()
        return self.lin_o(y.view(y.size(0), -1, self.d_modele))


class Couche(nn.Module):
    """x (b, n, d) jetons cibles, rembourrage (b, n) True sur <pad>"""

    def __init__(self, d_modele=32, n_tetes=4, d_ff=64):
        super().__init__()
        self.attn = AttentionMulti(d_modele, n_tetes)
        self.ff = nn.Sequential(nn.Linear(d_modele, d_ff), nn.ReLU(), nn.Linear(d_ff, d_modele))
        self.norme1 = nn.LayerNorm(d_modele)
        self.norme2 = nn.LayerNorm(d_modele)

    def forward(self, x, rembourrage=None):
        x = self.norme1(x + self.attn(x, x, x, rembourrage, causal=True))
        return self.norme2(x + self.ff(x))
