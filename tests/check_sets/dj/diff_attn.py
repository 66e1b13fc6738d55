"""Differential Transformer (Ye et al., 2024), multi-head differential attention.

    DiffAttn(X) = ( softmax(Q1 K1^T / sqrt(d)) - lambda softmax(Q2 K2^T / sqrt(d)) ) V
    lambda      = exp(lq1 . lk1) - exp(lq2 . lk2) + lambda_init
    head        = (1 - lambda_init) * RMSNorm(DiffAttn(X))
    lambda_init = 0.8 - 0.6 exp(-0.3 (layer - 1)),  layer = 1, 2, ...

Q1, Q2, K1, K2 have width d per head, V has width 2d, so D = heads * 2d. The rows of the
difference sum to 1 - lambda, not to 1, and weights may be negative: that is the point.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


class MultiheadDiffAttn(nn.Module):
    """Causal, x (B, N, D) -> (B, N, D), no padding (sequences are packed)."""

    def __init__(self, D=32, heads=2, layer=1):
        super().__init__()
        self.h, self.d = heads, D // heads // 2
        self.q_proj = nn.Linear(D, D, bias=False)
        self.k_proj = nn.Linear(D, D, bias=False)
        self.v_proj = nn.Linear(D, D, bias=False)
        self.out_proj = nn.Linear(D, D, bias=False)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * (layer - 1))
        for name in ("lq1", "lk1", "lq2", "lk2"):
            setattr(self, name, nn.Parameter(torch.randn(self.d) * 0.1))
        self.gain = nn.Parameter(torch.ones(2 * self.d))

    def lam(self):
        return (self.lq1 @ self.lk1).exp() - (self.lq2 @ self.lk2).exp() + self.lambda_init

    def forward(self, x):
        B, N, D = x.shape
        # head h owns the columns [2dh, 2dh + 2d): first d are Q1, next d are Q2
        q = self.q_proj(x).view(B, N, self.h, 2, self.d).permute(3, 0, 2, 1, 4)
        k = self.k_proj(x).view(B, N, self.h, 2, self.d).permute(3, 0, 2, 1, 4)
        v = self.v_proj(x).view(B, N, self.h, 2 * self.d).transpose(1, 2)

        one = F.scaled_dot_product_attention(q[0], k[0], v, is_causal=True)
        two = F.scaled_dot_product_attention(q[1], k[1], v, is_causal=True)
        o = one - self.lam() * two

        o = o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-5) * self.gain
        o = o * (1 - self.lambda_init)
        return self.out_proj(o.transpose(1, 2).reshape(B, N, D))
