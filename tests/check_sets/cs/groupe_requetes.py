from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Reglages:
    dim: int = 32
    tetes: int = 4
    tetes_kv: int = 2


class AttentionGroupee(nn.Module):
    """Attention a requetes groupees (GQA), bidirectionnelle.

    La tete de requete h utilise la tete cle/valeur h // (tetes / tetes_kv).
    """

    def __init__(self, r: Reglages = Reglages()):
        super().__init__()
        self.r = r
        self.d = r.dim // r.tetes
        self.vers_q = nn.Linear(r.dim, r.tetes * self.d, bias=False)
        self.vers_k = nn.Linear(r.dim, r.tetes_kv * self.d, bias=False)
        self.vers_v = nn.Linear(r.dim, r.tetes_kv * self.d, bias=False)
        self.sortie = nn.Linear(r.tetes * self.d, r.dim, bias=False)

    def forward(self, x):
        lot, long, _ = x.shape
        rep = self.r.tetes // self.r.tetes_kv
        q = self.vers_q(x).view(lot, long, self.r.tetes, self.d)
        k = self.vers_k(x).view(lot, long, self.r.tetes_kv, self.d)
        v = self.vers_v(x).view(lot, long, self.r.tetes_kv, self.d)
        k = k.repeat(1, rep, 1, 1).view(lot, long, self.r.tetes, self.d)
        v = v.repeat(1, rep, 1, 1).view(lot, long, self.r.tetes, self.d)
        s = torch.einsum("bihd,bjhd->bhij", q, k) / self.d ** 0.5
        y = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v)
        return self.sortie(y.reshape(lot, long, -1))
