"""Perceiver (Jaegle et al., 2021). One cross-attend, then `depth` latent self-attends."""
from typing import Optional

import torch
from torch import nn, Tensor
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, query_dim: int, context_dim: Optional[int] = None, heads: int = 4, dim_head: int = 16):
        super().__init__()
        context_dim = context_dim if context_dim is not None else query_dim
        inner = heads * dim_head
        self.heads = heads
        self.norm = nn.LayerNorm(query_dim)
        self.norm_context = nn.LayerNorm(context_dim)
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_kv = nn.Linear(context_dim, inner * 2, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def forward(self, x: Tensor, context: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        q = self.to_q(self.norm(x))
        k, v = self.to_kv(self.norm_context(context)).chunk(2, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        if mask is not None:
            mask = mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


class FeedForward(nn.Sequential):
    def __init__(self, dim: int):
        super().__init__(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))


class PerceiverEncoder(nn.Module):
    """data (B, M, input_dim) -> latents (B, num_latents, latent_dim).

    mask (B, M) is True for the elements of the byte array that exist.
    """

    def __init__(self, input_dim: int = 20, num_latents: int = 6, latent_dim: int = 32, depth: int = 2):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(num_latents, latent_dim) * 0.5)
        self.cross = Attention(latent_dim, input_dim, heads=1, dim_head=32)
        self.cross_ff = FeedForward(latent_dim)
        self.layers = nn.ModuleList(
            nn.ModuleList([Attention(latent_dim), FeedForward(latent_dim)]) for _ in range(depth)
        )

    def forward(self, data: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        z = self.latents.expand(data.shape[0], -1, -1)
        z = z + self.cross(z, data, mask)
        z = z + self.cross_ff(z)
        for attn, ff in self.layers:
            z = z + attn(z, z)
            z = z + ff(z)
        return z
