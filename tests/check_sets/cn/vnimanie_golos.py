"""Mnogogolovoe vnimanie dlya raspoznavaniya rechi (golos -> bukvy).

Golovy skladyvayutsya v batch, tak bystree na nashey staroy karte:
[golovy * B, T, d].

`tishina` : bool [B, T], True = dopolnenie (padding), takie kadry ne vidny nikomu.
V kazhdoy zapisi est' khotya by odin nastoyaschiy kadr.
"""
import math
import torch
from torch import nn


class Vnimanie(nn.Module):
    def __init__(self, razmer=48, golovy=4):
        super().__init__()
        self.golovy = golovy
        self.d = razmer // golovy
        self.w_q = nn.Linear(razmer, razmer)
        self.w_k = nn.Linear(razmer, razmer)
        self.w_v = nn.Linear(razmer, razmer)
        self.w_o = nn.Linear(razmer, razmer)

    def slozhit(self, x):
        b, t, _ = x.shape
        x = x.view(b, t, self.golovy, self.d)
        return x.permute(2, 0, 1, 3).reshape(self.golovy * b, t, self.d)

    def razlozhit(self, x, b):
        t = x.shape[1]
        x = x.view(self.golovy, b, t, self.d)
        return x.permute(1, 2, 0, 3).reshape(b, t, self.golovy * self.d)

    def forward(self, x, tishina=None):
        """x [B, T, razmer] -> [B, T, razmer]"""
        b = x.shape[0]
        q, k, v = self.slozhit(self.w_q(x)), self.slozhit(self.w_k(x)), self.slozhit(self.w_v(x))
        ves = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.d)
        if tishina is not None:
            m = tishina.repeat_interleave(self.golovy, dim=0)
            ves = ves.masked_fill(m[:, None, :], float("-inf"))
        ves = torch.softmax(ves, dim=2)
        return self.w_o(self.razlozhit(torch.bmm(ves, v), b))


class Sloy(nn.Module):
    def __init__(self, razmer=48, golovy=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(razmer), nn.LayerNorm(razmer)
        self.vnimanie = Vnimanie(razmer, golovy)
        self.set = nn.Sequential(
            nn.Linear(razmer, 2 * razmer), nn.ReLU(), nn.Linear(2 * razmer, razmer)
        )

    def forward(self, x, tishina=None):
        x = x + self.vnimanie(self.n1(x), tishina)
        return x + self.set(self.n2(x))
