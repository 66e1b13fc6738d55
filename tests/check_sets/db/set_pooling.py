import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Ramasseur(nn.Module):
    """Regroupement d'ensembles par attention (PMA du Set Transformer).

    ensemble (B, N, dim) ; taille (B,) entiers >= 1, nombre d'elements reels.
    Renvoie (B, graines, dim).
    """

    def __init__(self, dim=24, tetes=4, graines=3):
        super().__init__()
        self.tetes = tetes
        self.S = nn.Parameter(torch.randn(1, graines, dim))
        self.fc_q, self.fc_k = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.fc_v, self.fc_o = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.ln0, self.ln1 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, ensemble, taille):
        B, N, dim = ensemble.shape
        d = dim // self.tetes
        Q = self.fc_q(self.S).expand(B, -1, -1)
        K, V = self.fc_k(ensemble), self.fc_v(ensemble)
        Q_ = torch.cat(Q.split(d, 2), 0)
        K_ = torch.cat(K.split(d, 2), 0)
        V_ = torch.cat(V.split(d, 2), 0)
        vide = torch.arange(N, device=K.device)[None, :] >= taille[:, None]
        vide = vide.repeat(self.tetes, 1).unsqueeze(1)
        A = Q_.bmm(K_.transpose(1, 2)).div(math.sqrt(d)).masked_fill(vide, -math.inf).softmax(2)
        O = torch.cat((Q_ + A.bmm(V_)).split(B, 0), 2)
        O = self.ln0(O)
        return self.ln1(O + F.relu(self.fc_o(O)))
