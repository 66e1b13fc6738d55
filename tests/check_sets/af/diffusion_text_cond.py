"""Text conditioning blocks of the toy latent diffusion model."""
import math
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, device=t.device, dtype=torch.float32) / half)
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.cos(), ang.sin()], dim=-1)


class GEGLU(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.proj = nn.Linear(d_in, d_out * 2)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, dim=-1)
        return x * F.gelu(gate)


class CrossAttention(nn.Module):
    """
    Args:
        query_dim: channels of the image tokens
        context_dim: channels of the text encoder (None: self attention)
    forward:
        x [B, N, query_dim], context [B, S, context_dim],
        mask [B, S] -- tokenizer attention_mask, 1 for words, 0 for padding which is ignored
    """

    def __init__(self, query_dim, context_dim: Optional[int] = None, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, query_dim), nn.Dropout(dropout))

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        B, N, _ = x.shape
        q, k, v = self.to_q(x), self.to_k(context), self.to_v(context)
        q, k, v = map(lambda t: t.reshape(B, -1, self.heads, t.shape[-1] // self.heads).transpose(1, 2), (q, k, v))
        if mask is not None:
            mask = mask[:, None, None, :].expand(-1, self.heads, N, -1).to(q.dtype)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out = out.transpose(1, 2).reshape(B, N, -1)
        return self.to_out(out)


class SpatialTransformer(nn.Module):
    def __init__(self, channels, context_dim, heads=4, time_dim=128):
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.time = nn.Linear(time_dim, channels)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(channels) for _ in range(3))
        self.self_attn = CrossAttention(channels, heads=heads, dim_head=channels // heads)
        self.cross_attn = CrossAttention(channels, context_dim, heads=heads, dim_head=channels // heads)
        self.ff = nn.Sequential(GEGLU(channels, 4 * channels), nn.Linear(4 * channels, channels))

    def forward(self, x, temb, context, mask=None):
        B, C, H, W = x.shape
        h = self.norm(x) + self.time(temb)[:, :, None, None]
        h = h.flatten(2).transpose(1, 2)
        h = h + self.self_attn(self.n1(h))
        h = h + self.cross_attn(self.n2(h), context, mask)
        h = h + self.ff(self.n3(h))
        return x + h.transpose(1, 2).reshape(B, C, H, W)
