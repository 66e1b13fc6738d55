"""Differential Transformer (Ye et al. 2024) for long log files. Two softmaxes, one is subtracted."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def lambda_init_fn(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5, affine=True):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim)) if affine else None

    def forward(self, x):
        out = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return out if self.weight is None else out * self.weight


class MultiheadDiffAttn(nn.Module):
    """Causal differential attention:

        (softmax(Q1 K1^T / sqrt(d)) - lambda * softmax(Q2 K2^T / sqrt(d))) V

    with d = embed_dim / num_heads / 2, V of width 2d, and a per-head RMS norm of the result,
    scaled by (1 - lambda_init).  Heads of Q and K come in neighbouring pairs (1, 2).
    """

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
            setattr(self, name, nn.Parameter(torch.zeros(self.head_dim).normal_(mean=0, std=0.1)))
        self.subln = RMSNorm(2 * self.head_dim)

    def forward(self, x):
        bsz, n, embed_dim = x.size()
        q = self.q_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(bsz, n, 2 * self.num_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(bsz, n, self.num_heads, 2 * self.head_dim).transpose(1, 2)

        attn_weights = torch.matmul(q * self.scaling, k.transpose(-1, -2))
        attn_mask = torch.triu(torch.full((n, n), float("-inf"), device=x.device, dtype=x.dtype), 1)
        attn_weights = attn_weights + attn_mask
        attn_weights = F.softmax(attn_weights, dim=-1, dtype=torch.float32).type_as(attn_weights)

        lambda_1 = torch.exp(torch.sum(self.lambda_q1 * self.lambda_k1, dim=-1).float()).type_as(q)
        lambda_2 = torch.exp(torch.sum(self.lambda_q2 * self.lambda_k2, dim=-1).float()).type_as(q)
        lambda_full = lambda_1 - lambda_2 + self.lambda_init
        attn_weights = attn_weights.view(bsz, self.num_heads, 2, n, n)
        attn_weights = attn_weights[:, :, 0] - lambda_full * attn_weights[:, :, 1]

        attn = self.subln(torch.matmul(attn_weights, v)) * (1 - self.lambda_init)
        return self.out_proj(attn.transpose(1, 2).reshape(bsz, n, embed_dim))


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(dim, hidden), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LogLM(nn.Module):
    def __init__(self, vocab=256, dim=64, heads=4, depth=2, ctx=128):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(ctx, dim)
        self.attn = nn.ModuleList(MultiheadDiffAttn(dim, i, heads) for i in range(depth))
        self.ffn = nn.ModuleList(SwiGLU(dim, 3 * dim) for _ in range(depth))
        self.norms = nn.ModuleList(RMSNorm(dim) for _ in range(2 * depth + 1))
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos.weight[:idx.size(1)]
        for i, (attn, ffn) in enumerate(zip(self.attn, self.ffn)):
            x = x + attn(self.norms[2 * i](x))
            x = x + ffn(self.norms[2 * i + 1](x))
        return self.lm_head(self.norms[-1](x))
