import math

import torch
from torch import nn


class DiffHeads(nn.Module):
    """Causal differential attention: (softmax(q1 k1) - lam * softmax(q2 k2)) v.

    lam = exp(a1.b1) - exp(a2.b2) + lam0 is shared by the heads. Each head output goes
    through an RMS norm and is multiplied by 1 - lam0.
    """

    def __init__(self, dim, heads, depth=1):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads // 2
        self.lam0 = 0.8 - 0.6 * math.exp(-0.3 * (depth - 1))
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.a1, self.b1, self.a2, self.b2 = (
            nn.Parameter(torch.randn(self.hd) * 0.1) for _ in range(4))
        self.gain = nn.Parameter(torch.ones(2 * self.hd))

    def forward(self, x):
        b, n, dim = x.shape
        q = self.q(x).view(b, n, self.heads, 2, self.hd).permute(3, 0, 2, 1, 4)
        k = self.k(x).view(b, n, self.heads, 2, self.hd).permute(3, 0, 2, 1, 4)
        v = self.v(x).view(b, n, self.heads, 2 * self.hd).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.hd)
        hide = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        p = s.masked_fill(hide, -torch.inf).softmax(-1)
        lam = (self.a1 @ self.b1).exp() - (self.a2 @ self.b2).exp() + self.lam0
        y = (p[0] - lam * p[1]) @ v
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * self.gain
        y = y * (1 - self.lam0)
        return self.o(y.transpose(1, 2).reshape(b, n, dim))
