"""Spatial transformer of a latent-diffusion U-Net.

A feature map is turned into a sequence of pixels, goes through
self-attention -> cross-attention to the prompt -> GEGLU feed-forward (each pre-norm
with a residual), and is added back to the map.

    x            (B, C, H, W) feature map, C divisible by 8 for the group norm
    context      (B, S, ctx_dim) prompt embeddings
    context_mask (B, S) bool, True = real prompt token, False = padding; at least one
                 real token per prompt (the <bos>). None = all real.
    returns      (B, C, H, W)

Heads of size dim_head, heads * dim_head need not be C. Logits scaled by dim_head**-0.5.
q, k, v have no bias.
"""
import torch
from torch import nn, einsum
import torch.nn.functional as F


class CrossAttention(nn.Module):
    def __init__(self, query_dim, context_dim=None, heads=4, dim_head=16):
        super().__init__()
        inner = heads * dim_head
        context_dim = context_dim or query_dim
        self.heads, self.scale = heads, dim_head ** -0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim, inner, bias=False)
        self.to_out = nn.Linear(inner, query_dim)

    def fold(self, t):
        b, n, _ = t.shape
        return t.reshape(b, n, self.heads, -1).permute(0, 2, 1, 3).reshape(b * self.heads, n, -1)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        q, k, v = self.fold(self.to_q(x)), self.fold(self.to_k(context)), self.fold(self.to_v(context))
        sim = einsum("bid,bjd->bij", q, k) * self.scale
        if mask is not None:
            mask = mask[:, None, :].repeat_interleave(self.heads, dim=0)
            sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)
        out = einsum("bij,bjd->bid", sim.softmax(dim=-1), v)
        bh, n, d = out.shape
        out = out.view(bh // self.heads, self.heads, n, d).transpose(1, 2).reshape(-1, n, self.heads * d)
        return self.to_out(out)


class GEGLU(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.up, self.down = nn.Linear(dim, dim * mult * 2), nn.Linear(dim * mult, dim)

    def forward(self, x):
        a, g = self.up(x).chunk(2, -1)
        return self.down(a * F.gelu(g))


class SpatialTransformer(nn.Module):
    def __init__(self, channels, context_dim, heads=4, dim_head=16):
        super().__init__()
        self.gn = nn.GroupNorm(8, channels)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(channels) for _ in range(3))
        self.attn1 = CrossAttention(channels, None, heads, dim_head)
        self.attn2 = CrossAttention(channels, context_dim, heads, dim_head)
        self.ff = GEGLU(channels)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, context, context_mask=None):
        b, c, h, w = x.shape
        t = self.proj_in(self.gn(x)).flatten(2).transpose(1, 2)
        t = t + self.attn1(self.n1(t))
        t = t + self.attn2(self.n2(t), context, context_mask)
        t = t + self.ff(self.n3(t))
        return x + self.proj_out(t.transpose(1, 2).reshape(b, c, h, w))
