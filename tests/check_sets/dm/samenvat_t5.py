"""Samenvatter: encoder-laag van T5, nagebouwd om hem te begrijpen (Nederlands nieuws).

T5 doet het anders dan "Attention is all you need":
  * de scores worden NIET door sqrt(d) gedeeld (dat zit in de initialisatie);
  * er is een geleerde relatieve bias per hoofd, per emmer (bucket) van afstand j - i;
  * geen biasvectoren in de projecties, RMS-norm vooraf.

    x      (B, T, D)
    echt   (B, T) bool, True = echt woord, False = opvulling (minstens één True per rij)
    uit    (B, T, D)

Emmers zoals in T5, in twee richtingen: de helft voor sleutels links (en zelf), de helft voor
rechts; in elke helft eerst exacte afstanden, daarna logaritmisch tot max_afstand.
"""
import math

import torch
import torch.nn as nn


def emmer(rel, n=32, max_afstand=128):
    """rel = j - i (sleutel min vraag), lange tensor."""
    n //= 2
    basis = (rel > 0).long() * n
    a = rel.abs()
    exact = n // 2
    groot = exact + (torch.log(a.float().clamp(min=1) / exact) / math.log(max_afstand / exact) * (n - exact)).long()
    groot = groot.clamp(max=n - 1)
    return basis + torch.where(a < exact, a, groot)


class T5Laag(nn.Module):
    def __init__(self, D, H, d_kv):
        super().__init__()
        self.H, self.d_kv = H, d_kv
        self.q = nn.Linear(D, H * d_kv, bias=False)
        self.k = nn.Linear(D, H * d_kv, bias=False)
        self.v = nn.Linear(D, H * d_kv, bias=False)
        self.o = nn.Linear(H * d_kv, D, bias=False)
        self.rel = nn.Embedding(32, H)
        self.gain = nn.Parameter(torch.ones(D))

    def norm(self, x):
        return self.gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, x, echt):
        B, T, _ = x.shape
        y = self.norm(x)
        q, k, v = (f(y).unflatten(-1, (self.H, self.d_kv)).transpose(1, 2) for f in (self.q, self.k, self.v))
        t = torch.arange(T, device=x.device)
        bias = self.rel(emmer(t[None, :] - t[:, None])).permute(2, 0, 1)
        s = q @ k.transpose(2, 3) + bias
        s = s.masked_fill(~echt[:, None, None, :], float("-inf"))
        w = torch.softmax(s.float(), dim=-1).type_as(s)
        return x + self.o((w @ v).transpose(1, 2).flatten(2))
