"""Spatial transformer of a latent diffusion U-Net (text conditioned), no einops."""
import torch
import torch.nn.functional as F
from torch import nn


class GEGLU(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.proj = nn.Linear(d_in, 2 * d_out)

    def forward(self, x):
        x, g = self.proj(x).chunk(2, -1)
        return x * F.gelu(g)


class CrossAttention(nn.Module):
    """query from the image, key/value from `context` (or the image itself if it is None).

    mask: bool [b, j], True for the tokens of the prompt, False for its padding.
    """

    def __init__(self, query_dim, context_dim=None, heads=8, dim_head=64, dropout=0.0):
        super().__init__()
        inner = heads * dim_head
        self.heads, self.scale = heads, dim_head ** -0.5
        self.to_q = nn.Linear(query_dim, inner, bias=False)
        self.to_k = nn.Linear(context_dim or query_dim, inner, bias=False)
        self.to_v = nn.Linear(context_dim or query_dim, inner, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, query_dim), nn.Dropout(dropout))

    def fold(self, t):
        b, n, c = t.shape
        return t.view(b, n, self.heads, c // self.heads).transpose(1, 2).reshape(b * self.heads, n, -1)

    def unfold(self, t):
        bh, n, d = t.shape
        return t.view(bh // self.heads, self.heads, n, d).transpose(1, 2).reshape(bh // self.heads, n, -1)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        q, k, v = (self.fold(f) for f in (self.to_q(x), self.to_k(context), self.to_v(context)))
        sim = torch.einsum("b i d, b j d -> b i j", q, k) * self.scale
        if mask is not None:
            m = mask.repeat_interleave(self.heads, dim=0)[:, None, :]
            sim = sim.masked_fill(~m, -torch.finfo(sim.dtype).max)
        attn = sim.softmax(dim=-1)
        return self.to_out(self.unfold(torch.einsum("b i j, b j d -> b i d", attn, v)))


class BasicTransformerBlock(nn.Module):
    def __init__(self, dim, heads, dim_head, context_dim):
        super().__init__()
        self.attn1 = CrossAttention(dim, None, heads, dim_head)
        self.attn2 = CrossAttention(dim, context_dim, heads, dim_head)
        self.ff = nn.Sequential(GEGLU(dim, 4 * dim), nn.Linear(4 * dim, dim))
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, x, context=None, mask=None):
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context, mask)
        return x + self.ff(self.norm3(x))


class SpatialTransformer(nn.Module):
    def __init__(self, channels, heads, dim_head, context_dim, depth=1):
        super().__init__()
        inner = heads * dim_head
        self.norm = nn.GroupNorm(8, channels, eps=1e-6)
        self.proj_in = nn.Conv2d(channels, inner, 1)
        self.blocks = nn.ModuleList(BasicTransformerBlock(inner, heads, dim_head, context_dim) for _ in range(depth))
        self.proj_out = nn.Conv2d(inner, channels, 1)
        nn.init.zeros_(self.proj_out.weight)
        nn.init.zeros_(self.proj_out.bias)

    def forward(self, x, context, mask=None):
        b, _, h, w = x.shape
        y = self.proj_in(self.norm(x)).flatten(2).transpose(1, 2)
        for blk in self.blocks:
            y = blk(y, context, mask)
        return x + self.proj_out(y.transpose(1, 2).reshape(b, -1, h, w))
