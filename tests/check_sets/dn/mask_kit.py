"""Zestaw masek do eksperymentów (True = wolno czytać, wszędzie tak samo).

MaskKit buduje maskę (B, 1, Lq, Lk) z części; części łączy się przez "i":
    .causal()            zapytanie i widzi klucze j <= i + (Lk - Lq): ostatnie
                         zapytanie odpowiada ostatniemu kluczowi
    .prefix(n)           n (B,) ints: n[b] pierwszych kluczy widzą wszyscy,
                         reszta jest przyczynowa (prefix-LM)
    .window(w)           |i + (Lk - Lq) - j| < w, czyli w kluczy w lewo, ze sobą
    .documents(qd, kd)   qd (B, Lq), kd (B, Lk): tylko ten sam dokument
    .padding(real)       real (B, Lk) bool, True = prawdziwy token

attend(q, k, v, mask): q (B, H, Lq, d), k, v (B, H, Lk, d) -> (B, H, Lq, d),
wyniki dzielone przez sqrt(d).  Zapytanie, które nie może czytać niczego,
dostaje zera.
"""
import torch
import torch.nn.functional as F


class MaskKit:
    def __init__(self, batch, lq, lk, device=None):
        self.i = torch.arange(lq, device=device)[:, None] + (lk - lq)
        self.j = torch.arange(lk, device=device)[None, :]
        self.mask = torch.ones(batch, 1, lq, lk, dtype=torch.bool, device=device)

    def causal(self):
        self.mask = self.mask & (self.j <= self.i)
        return self

    def prefix(self, n):
        open_part = self.j < n.view(-1, 1, 1, 1)
        self.mask = self.mask & (open_part | (self.j <= self.i))
        return self

    def window(self, w):
        self.mask = self.mask & ((self.i - self.j).abs() < w)
        return self

    def documents(self, qd, kd):
        self.mask = self.mask & (qd[:, None, :, None] == kd[:, None, None, :])
        return self

    def padding(self, real):
        self.mask = self.mask & real[:, None, None, :]
        return self


def attend(q, k, v, mask):
    some = mask.any(dim=-1, keepdim=True)
    # puste wiersze na chwilę otwieramy, żeby softmax nie dał NaN
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~some)
    return y * some.to(y.dtype)
