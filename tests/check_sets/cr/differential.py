import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class DiffAttention(nn.Module):
    """Causal multi-head differential attention (Ye et al. 2024).

    Every head holds two query/key pairs of size d = dim / (2 * heads) and one value of size 2d:
        out = (softmax(q1 k1^T / sqrt(d)) - lam * softmax(q2 k2^T / sqrt(d))) v
    followed by a per-head RMS norm times (1 - lam_init).  The effective weights of a row
    sum to 1 - lam and may be negative.
    """

    def __init__(self, dim, heads, depth=1):
        super().__init__()
        self.h, self.d = heads, dim // heads // 2
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.lam_init = 0.8 - 0.6 * math.exp(-0.3 * (depth - 1))
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4))
        self.gain = nn.Parameter(torch.ones(2 * self.d))

    def forward(self, x):
        B, L, _ = x.shape
        q = self.q(x).view(B, L, self.h, 2, self.d).permute(3, 0, 2, 1, 4)
        k = self.k(x).view(B, L, self.h, 2, self.d).permute(3, 0, 2, 1, 4)
        v = self.v(x).view(B, L, self.h, 2 * self.d).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.d)
        s = s.masked_fill(torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1), -math.inf)
        a1, a2 = F.softmax(s, dim=-1).unbind(0)
        lam = (self.lq1 @ self.lk1).exp() - (self.lq2 @ self.lk2).exp() + self.lam_init
        y = (a1 - lam * a2) @ v
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * self.gain
        y = y * (1 - self.lam_init)
        return self.o(y.transpose(1, 2).reshape(B, L, -1))
