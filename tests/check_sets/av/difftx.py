"""Differential transformer layer (two softmax maps, one subtracted from the other)."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def lambda_init_fn(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadRMS(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class DiffAttention(nn.Module):
    """num_heads differential heads; each has 2 query/key halves of head_dim and one
    value of 2*head_dim.  Causal."""

    def __init__(self, embed_dim: int, num_heads: int, depth: int):
        super().__init__()
        assert embed_dim % (2 * num_heads) == 0
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.scaling = self.head_dim ** -0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        for n in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            setattr(self, n, nn.Parameter(torch.randn(self.head_dim) * 0.1))
        self.subln = HeadRMS(2 * self.head_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, L, E = x.shape
        H, d = self.num_heads, self.head_dim
        q = self.q_proj(x).view(B, L, 2 * H, d).transpose(1, 2) * self.scaling
        k = self.k_proj(x).view(B, L, 2 * H, d).transpose(1, 2)
        v = self.v_proj(x).view(B, L, H, 2 * d).transpose(1, 2)
        w = torch.matmul(q, k.transpose(-1, -2))
        future = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        w = F.softmax(w.masked_fill(future, float("-inf")), dim=-1, dtype=torch.float32).type_as(w)

        lam1 = torch.exp((self.lambda_q1 * self.lambda_k1).sum())
        lam2 = torch.exp((self.lambda_q2 * self.lambda_k2).sum())
        lam = lam1 - lam2 + self.lambda_init
        w = w.view(B, H, 2, L, L)
        w = w[:, :, 0] - lam * w[:, :, 1]
        y = self.subln(torch.matmul(w, v)) * (1 - self.lambda_init)
        return self.out_proj(y.transpose(1, 2).reshape(B, L, E))


class SwiGLU(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(d, h, bias=False), nn.Linear(d, h, bias=False), nn.Linear(h, d, bias=False)

    def forward(self, x):
        return self.c(F.silu(self.a(x)) * self.b(x))


class DiffLayer(nn.Module):
    def __init__(self, d, heads, depth):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att, self.ffn = DiffAttention(d, heads, depth), SwiGLU(d, 2 * d)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.ffn(self.n2(x))
