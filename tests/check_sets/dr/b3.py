"""b3. Masked multi-head attention, my own version.

x  : n x t x c
out: n x t x c

c = h * d. One linear map makes q, k, v (in this order, each c wide, each head d wide). A
token attends to itself and to the tokens before it, never to later ones. Weights are
softmax(q k^T / sqrt(d)). The h results of a token (d each) are put one after the
other (head 0 first) and mapped by `o`.
"""
import torch
from torch import nn


class B3(nn.Module):
    def __init__(self, c, h, tmax=64):
        super().__init__()
        self.h, self.d = h, c // h
        self.p = nn.Linear(c, 3 * c)
        self.o = nn.Linear(c, c)
        self.register_buffer("m", torch.triu(torch.ones(tmax, tmax), diagonal=2).bool(), persistent=False)
        self.f = self.d ** -0.5

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.p(x).chunk(3, -1)
        q = q.view(n, t, self.h, self.d).transpose(1, 2)
        k = k.view(n, t, self.h, self.d).transpose(1, 2)
        v = v.view(n, t, self.h, self.d).transpose(1, 2)
        w = q @ k.transpose(2, 3) / self.f
        w = w.masked_fill(self.m[:t, :t], float("-inf"))
        w = w.softmax(-1)
        return self.o((w @ v).reshape(n, t, c))
