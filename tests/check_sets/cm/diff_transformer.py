"""Differential attention (Ye et al., 2024), causal."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class DiffAttention(nn.Module):
    """out = (softmax(Q1 K1^T / sqrt(d)) - lambda * softmax(Q2 K2^T / sqrt(d))) V per head,
    then RMS norm per head and a factor 1 - lambda_init. The rows of the weights
    therefore sum to 1 - lambda. x: (B, L, dim); head size d = dim / heads / 2."""

    def __init__(self, dim=32, heads=2, depth=1):
        super().__init__()
        self.heads = heads
        self.d = dim // heads // 2
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.lq1, self.lk1, self.lq2, self.lk2 = (
            nn.Parameter(torch.randn(self.d) * 0.1) for _ in range(4)
        )
        self.gain = nn.Parameter(torch.ones(2 * self.d))

    def forward(self, x):
        B, L, D = x.shape
        q = self.wq(x).view(B, L, 2 * self.heads, self.d).transpose(1, 2)
        k = self.wk(x).view(B, L, 2 * self.heads, self.d).transpose(1, 2)
        v = self.wv(x).view(B, L, self.heads, 2 * self.d).transpose(1, 2)
        s = q @ k.transpose(-1, -2) * self.d ** -0.5
        s = s + torch.triu(torch.full_like(s[0, 0], float("-inf")), diagonal=1)
        a = F.softmax(s, dim=-1).view(B, self.heads, 2, L, L)
        lam = (self.lq1 @ self.lk1).exp() - (self.lq2 @ self.lk2).exp() + self.lambda_init
        o = (a[:, :, 0] - lam * a[:, :, 1]) @ v
        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * self.gain
        o = o * (1 - self.lambda_init)
        return self.wo(o.transpose(1, 2).reshape(B, L, D))
