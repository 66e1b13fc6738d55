# Differential Transformer (arXiv 2410.05258), plain version for ablations.
#   attn = softmax(q1 k1^T) - lambda * softmax(q2 k2^T)
# lambda = exp(lq1.lk1) - exp(lq2.lk2) + lambda_init
import math

import torch
import torch.nn.functional as F
from torch import nn


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class RMSNormNoAffine(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class MultiheadDiffAttn(nn.Module):
    """Causal.  num_heads counts pairs: every head has two q/k halves of `head_dim` and a value of 2*head_dim."""

    def __init__(self, embed_dim, depth, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads // 2
        self.scaling = self.head_dim ** -0.5
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.lambda_init = lambda_init_fn(depth)
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            self.register_parameter(name, nn.Parameter(torch.randn(self.head_dim) * 0.1))
        self.subln = RMSNormNoAffine()

    def forward(self, x):
        bsz, n, _ = x.size()
        q = self.q_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(bsz, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)
        q = q * self.scaling
        attn_weights = torch.matmul(q, k.transpose(-1, -2))
        attn_mask = torch.triu(torch.full((n, n), float("-inf"), device=x.device).type_as(x), 1)
        attn_weights = F.softmax(attn_weights + attn_mask, dim=-1, dtype=torch.float32).type_as(attn_weights)

        lambda_1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1, dim=-1).float()).type_as(q)
        lambda_2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2, dim=-1).float()).type_as(q)
        lambda_full = lambda_1 - lambda_2 + self.lambda_init

        attn_weights = attn_weights.view(bsz, self.num_heads, 2, n, n)
        attn_weights = attn_weights[:, :, 0] - lambda_full * attn_weights[:, :, 1]

        out = torch.matmul(attn_weights, v)
        out = self.subln(out) * (1 - self.lambda_init)
        out = out.transpose(1, 2).reshape(bsz, n, self.num_heads * 2 * self.head_dim)
        return self.out_proj(out)


class DiffBlock(nn.Module):
    def __init__(self, dim, depth, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MultiheadDiffAttn(dim, depth, heads)
        self.gate, self.up = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))
