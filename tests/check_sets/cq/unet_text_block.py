"""Spatial transformer block of a small text-conditioned diffusion UNet."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """Self-attention if `context` is None, cross-attention otherwise.

    x: (B, N, dim), context: (B, M, context_dim)
    context_mask: (B, M) bool, True = real text token (the BOS token is always real)
    """

    def __init__(self, dim=32, context_dim=None, heads=4, dim_head=8, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.dropout = heads, dropout
        self.to_q = nn.Linear(dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim or dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim or dim, inner, bias=False)
        self.to_out = nn.Linear(inner, dim)

    def forward(self, x, context=None, context_mask=None):
        src = x if context is None else context
        q, k, v = self.to_q(x), self.to_k(src), self.to_v(src)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        mask = None if context_mask is None else context_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
        return self.to_out(out.transpose(1, 2).flatten(2))


class GEGLU(nn.Module):
    def __init__(self, dim, mult=2):
        super().__init__()
        self.up = nn.Linear(dim, dim * mult * 2)
        self.down = nn.Linear(dim * mult, dim)

    def forward(self, x):
        h, gate = self.up(x).chunk(2, dim=-1)
        return self.down(h * F.gelu(gate))


class SpatialTransformer(nn.Module):
    """(B, C, H, W) feature map attends to itself, then to the text."""

    def __init__(self, channels=32, context_dim=20, heads=4, groups=8):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        self.proj_in = nn.Conv2d(channels, channels, 1)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(channels) for _ in range(3))
        self.attn1 = Attention(channels, None, heads, channels // heads)
        self.attn2 = Attention(channels, context_dim, heads, channels // heads)
        self.ff = GEGLU(channels)
        self.proj_out = nn.Conv2d(channels, channels, 1)

    def forward(self, x, context, context_mask=None):
        b, c, h, w = x.shape
        t = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        t = t + self.attn1(self.norm1(t))
        t = t + self.attn2(self.norm2(t), context, context_mask)
        t = t + self.ff(self.norm3(t))
        return x + self.proj_out(t.transpose(1, 2).reshape(b, c, h, w))
