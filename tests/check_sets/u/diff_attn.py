import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class DiffAttention(nn.Module):
    def __init__(self, embed_dim=32, num_heads=2, depth=1):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.scaling = self.head_dim ** -0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = 0.8 - 0.6 * math.exp(-0.3 * depth)
        for n in ("q1", "k1", "q2", "k2"):
            setattr(self, "lambda_" + n, nn.Parameter(torch.randn(self.head_dim) * 0.1))
        self.subln = nn.Parameter(torch.ones(2 * self.head_dim))

    def forward(self, x):
        b, t, e = x.shape
        h, d = self.num_heads, self.head_dim
        q = self.q_proj(x).view(b, t, 2 * h, d).transpose(1, 2) * self.scaling
        k = self.k_proj(x).view(b, t, 2 * h, d).transpose(1, 2)
        v = self.v_proj(x).view(b, t, h, 2 * d).transpose(1, 2)
        s = q @ k.transpose(-1, -2)
        s = s + torch.full((t, t), float("-inf"), device=x.device, dtype=s.dtype).triu(1)
        p = F.softmax(s, dim=-1).view(b, h, 2, t, t)
        lam = (self.lambda_q1 @ self.lambda_k1).exp() - (self.lambda_q2 @ self.lambda_k2).exp() + self.lambda_init
        y = (p[:, :, 0] - lam * p[:, :, 1]) @ v
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5) * self.subln * (1 - self.lambda_init)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, e))
