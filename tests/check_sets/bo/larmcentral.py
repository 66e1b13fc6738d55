"""Larmcentralen: vilken ambulans ska till vilket larm?

Larmen (frågor) tittar på ambulanserna (nycklar).  Varje ärende i batchen har
sin egen lista över vilka ambulanser som får användas till vilket larm.
"""
import math

import torch
from torch import nn


def restid_till_vikt(minuter, halvering=8.0):
    return 0.5 ** (minuter / halvering)


class Tilldelning(nn.Module):
    """Korsuppmärksamhet med hopvikta huvuden.

    larm      [B, Lq, D]
    bilar     [B, Lk, D]
    tillaten  [B, Lq, Lk] bool; True = bilen får ta larmet
    ->        [B, Lq, D], vikter [B, H, Lq, Lk]
    """

    def __init__(self, D=24, H=3, p=0.0):
        super().__init__()
        self.H = H
        self.fraga = nn.Linear(D, D)
        self.nyckel = nn.Linear(D, D)
        self.varde = nn.Linear(D, D)
        self.ut = nn.Linear(D, D)
        self.slapp = nn.Dropout(p)

    def vik_in(self, t):
        B, L, D = t.shape
        t = t.view(B, L, self.H, D // self.H).permute(2, 0, 1, 3)
        return t.reshape(self.H * B, L, D // self.H)

    def vik_ut(self, t, B):
        _, L, d = t.shape
        return t.view(self.H, B, L, d).permute(1, 2, 0, 3).reshape(B, L, self.H * d)

    def forward(self, larm, bilar, tillaten=None):
        B, Lq, _ = larm.shape
        q = self.vik_in(self.fraga(larm))
        k = self.vik_in(self.nyckel(bilar))
        v = self.vik_in(self.varde(bilar))
        s = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        if tillaten is not None:
            m = tillaten.repeat_interleave(self.H, dim=0)
            s = s.masked_fill(~m, torch.finfo(s.dtype).min)
        w = torch.softmax(s, dim=-1)
        y = self.vik_ut(torch.bmm(self.slapp(w), v), B)
        return self.ut(y), w.view(self.H, B, Lq, -1).transpose(0, 1)


class Larmcentral(nn.Module):
    PRIO = {"1": 3.0, "2": 1.0, "3": 0.3}

    def __init__(self, d_larm=7, d_bil=5, D=24):
        super().__init__()
        self.larm_in = nn.Linear(d_larm, D)
        self.bil_in = nn.Linear(d_bil, D)
        self.tilldela = Tilldelning(D)
        self.norm = nn.LayerNorm(D)
        self.poang = nn.Bilinear(D, D, 1)

    def forward(self, larm, bilar, tillaten):
        l, b = self.larm_in(larm), self.bil_in(bilar)
        y, _ = self.tilldela(l, b, tillaten)
        l = self.norm(l + y)
        n, m = l.shape[1], b.shape[1]
        p = self.poang(l[:, :, None].expand(-1, -1, m, -1).contiguous(),
                       b[:, None].expand(-1, n, -1, -1).contiguous()).squeeze(-1)
        return p.masked_fill(~tillaten, float("-inf"))


def girig(poang):
    """Delar ut bilar girigt efter högsta poäng."""
    kvar, val = poang.clone(), {}
    while torch.isfinite(kvar).any():
        i, j = divmod(int(kvar.argmax()), kvar.shape[1])
        val[i] = j
        kvar[i] = float("-inf")
        kvar[:, j] = float("-inf")
    return val
