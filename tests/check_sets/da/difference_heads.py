import math
import torch
from torch import nn


class DifferenceHeads(nn.Module):
    """Causal differential attention: the map of one query/key pair is subtracted,
    with a learned strength, from the map of another."""

    def __init__(self, dim=32, heads=4, depth=1):
        super().__init__()
        self.heads = heads
        self.half = dim // heads // 2
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.start = 0.8 - 0.6 * math.exp(-0.3 * (depth - 1))
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(torch.randn(self.half) * 0.1) for _ in range(4))
        self.sub = nn.RMSNorm(2 * self.half, eps=1e-5)

    def forward(self, x):
        B, T, D = x.shape
        q = self.wq(x).view(B, T, self.heads, 2, self.half).permute(3, 0, 2, 1, 4)
        k = self.wk(x).view(B, T, self.heads, 2, self.half).permute(3, 0, 2, 1, 4)
        v = self.wv(x).view(B, T, self.heads, 2 * self.half).transpose(1, 2)
        s = q @ k.transpose(-1, -2) / math.sqrt(self.half)
        future = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
        m1, m2 = s.masked_fill(future, float("-inf")).softmax(-1)
        lam = torch.exp(self.lq1 @ self.lk1) - torch.exp(self.lq2 @ self.lk2) + self.start
        y = self.sub((m1 - lam * m2) @ v) * (1 - self.start)
        return self.wo(y.transpose(1, 2).reshape(B, T, D))
