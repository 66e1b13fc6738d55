import math

import torch
from torch import nn


class MultiheadDiffAttn(nn.Module):
    """Differential attention (Ye et al. 2024): (softmax(q1 k1^T) - lambda softmax(q2 k2^T)) v, with an RMS norm for each head."""

    def __init__(self, embed_dim=16, num_heads=2, depth=1):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            setattr(self, name, nn.Parameter(torch.randn(self.head_dim) * 0.1))
        self.subln = nn.RMSNorm(2 * self.head_dim, eps=1e-5, elementwise_affine=False)

    def forward(self, x):
        b, n, c = x.shape
        q = self.q_proj(x).view(b, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(b, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        w = torch.matmul(q * self.head_dim ** -0.5, k.transpose(-1, -2))
        w = w + torch.triu(torch.full((n, n), float("-inf"), dtype=w.dtype), 1)
        w = torch.softmax(w, dim=-1).view(b, self.num_heads, 2, n, n)
        lam = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1)) - torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2))
        w = w[:, :, 0] - (lam + self.lambda_init) * w[:, :, 1]
        y = self.subln(torch.matmul(w, v)) * (1 - self.lambda_init)
        return self.out_proj(y.transpose(1, 2).reshape(b, n, c))
