"""Vision Transformer for small datasets: Locality Self-Attention (Lee et al., 2021).

Two changes against ViT:
  * a learnable temperature (starts at sqrt(dim_head), kept as its log),
  * a token never attends to itself: the diagonal of the scores is blanked out.

x: (batch, tokens, dim), tokens >= 2.  Returns the same shape.
The heads are concatenated head by head before the output projection.
"""
import math

import torch
from torch import nn, einsum


class LSA(nn.Module):
    def __init__(self, dim, heads=8, dim_head=64, dropout=0.):
        super().__init__()
        inner = heads * dim_head
        self.heads = heads
        # scores are multiplied by exp(temperature) = 1 / sqrt(dim_head) at the start
        self.temperature = nn.Parameter(torch.log(torch.tensor(dim_head ** -0.5)))
        self.norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, dim), nn.Dropout(dropout))

    def forward(self, x):
        b, n, _ = x.shape
        h = self.heads
        q, k, v = (t.reshape(b, n, h, -1) for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1))

        dots = einsum('b i h d, b j h d -> b h i j', q, k) * self.temperature.exp()
        eye = torch.eye(n, device=x.device, dtype=torch.bool)
        dots = dots.masked_fill(eye, -torch.finfo(dots.dtype).max)

        attn = self.dropout(dots.softmax(dim=-1))
        out = einsum('b h i j, b j h d -> b i h d', attn, v).reshape(b, n, -1)
        return self.to_out(out)


class Encoder(nn.Module):
    """depth x (LSA, MLP), both with residuals."""

    def __init__(self, dim, depth, heads, dim_head, mlp_dim):
        super().__init__()
        self.layers = nn.ModuleList([
            nn.ModuleList([
                LSA(dim, heads, dim_head),
                nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, dim)),
            ]) for _ in range(depth)])

    def forward(self, x):
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return x
