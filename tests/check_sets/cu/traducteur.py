"""Bloc décodeur post-norm d'origine (Vaswani et al.), auto-attention puis attention croisée.

cible   [B, T, D]
source  [B, S, D]
masque_src [B, S] bool, True = mot réel (à garder)
La position t de la cible voit les positions 0..t.
"""
import math

import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, D, H, p):
        super().__init__()
        self.H = H
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(D, D) for _ in range(4))
        self.p = nn.Dropout(p)

    def couper(self, x):
        return x.unflatten(-1, (self.H, -1)).transpose(1, 2)

    def forward(self, x, y, garder=None):
        q, k, v = self.couper(self.Wq(x)), self.couper(self.Wk(y)), self.couper(self.Wv(y))
        s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if garder is not None:
            s = s.masked_fill(~garder, torch.finfo(s.dtype).min)
        z = self.p(s.softmax(-1)) @ v
        return self.Wo(z.transpose(1, 2).flatten(2))


def triangle(T, device=None):
    i = torch.arange(T, device=device)
    return i.unsqueeze(1) + 1 >= i.unsqueeze(0)


class BlocDecodeur(nn.Module):
    def __init__(self, D=32, H=4, F=64, p=0.1):
        super().__init__()
        self.auto = Attention(D, H, p)
        self.croisee = Attention(D, H, p)
        self.ff = nn.Sequential(nn.Linear(D, F), nn.ReLU(), nn.Dropout(p), nn.Linear(F, D))
        self.n = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        self.p = nn.Dropout(p)

    def forward(self, cible, source, masque_src=None):
        tri = triangle(cible.size(1), cible.device)
        x = self.n[0](cible + self.p(self.auto(cible, cible, tri)))
        m = None if masque_src is None else masque_src[:, None, None, :]
        x = self.n[1](x + self.p(self.croisee(x, source, m)))
        return self.n[2](x + self.p(self.ff(x)))
