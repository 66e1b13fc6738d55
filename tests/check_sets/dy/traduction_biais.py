"""Service de traduction : auto-attention de l'encodeur T5, sans nn.Embedding exotique.

AttentionRelative(dim, tetes, d, seaux, loin).forward(x, garde) -> (B, T, dim)
    x      (B, T, dim)
    garde  (B, T) entier, 1 = vrai jeton, 0 = remplissage ; au moins un 1 par phrase
Comme dans T5, les scores ne sont PAS divises par racine(d) (l'initialisation s'en charge) et
on leur ajoute un biais appris par tete selon le seau de la distance relative j - i :
moitie des seaux pour j > i, moitie pour j <= i ; dans chaque moitie les distances jusqu'a n/2
sont exactes (n = seaux / 2), au-dela logarithmiques jusqu'a `loin`.
"""
import math
import torch
import torch.nn as nn


class AttentionRelative(nn.Module):
    def __init__(self, dim, tetes, d, seaux=32, loin=128):
        super().__init__()
        self.tetes, self.d, self.seaux, self.loin = tetes, d, seaux, loin
        self.q = nn.Linear(dim, tetes * d, bias=False)
        self.k = nn.Linear(dim, tetes * d, bias=False)
        self.v = nn.Linear(dim, tetes * d, bias=False)
        self.o = nn.Linear(tetes * d, dim, bias=False)
        self.biais = nn.Embedding(seaux, tetes)

    def seau(self, rel):
        n = self.seaux // 2
        base = (rel > 0).long() * n
        a = rel.abs()
        exact = n // 2
        loin = exact + (torch.log(a.clamp(min=1).float() / exact) / math.log(self.loin / exact)
                        * (n - exact)).long()
        return base + torch.where(a < exact, a, loin.clamp(max=n - 1))

    def forward(self, x, garde):
        B, T, _ = x.shape
        q, k, v = (f(x).view(B, T, self.tetes, self.d).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        pos = torch.arange(T, device=x.device)
        rel = pos[None, :] - pos[:, None]
        score = q @ k.transpose(-1, -2)
        score = score + self.biais(self.seau(rel)).permute(2, 0, 1)
        score = score.masked_fill(garde[:, None, None, :] == 0, float("-inf"))
        y = torch.softmax(score.float(), dim=-1).type_as(score) @ v
        return self.o(y.transpose(1, 2).flatten(2))
