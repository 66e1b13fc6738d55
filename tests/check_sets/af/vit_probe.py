"""ViT for the leaf disease competition.

Usage:
    model = LeafViT(img=96, patch=16, dim=192, depth=4, heads=6, classes=38)
"""
import torch
from torch import nn, einsum


def pair(t):
    return t if isinstance(t, tuple) else (t, t)


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fn = fn

    def forward(self, x, **kw):
        return self.fn(self.norm(x), **kw)


class FeedForward(nn.Sequential):
    def __init__(self, dim, hidden, dropout=0.):
        super().__init__(
            nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout),
            nn.Linear(hidden, dim), nn.Dropout(dropout))


class Attention(nn.Module):
    """Standard multi-head scaled dot-product self attention."""

    def __init__(self, dim, heads=8, dropout=0.):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.scale = dim ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.attn_drop = nn.Dropout(dropout)
        self.to_out = nn.Sequential(nn.Linear(dim, dim), nn.Dropout(dropout))
        self.maps = None
        self.keep_maps = False

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = (t.reshape(b, n, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, dim=-1))
        dots = einsum('b h i d, b h j d -> b h i j', q, k) * self.scale
        attn = dots.softmax(dim=-1)
        if self.keep_maps:
            self.maps = attn.detach()
        out = einsum('b h i j, b h j d -> b h i d', self.attn_drop(attn), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, c))


class LeafViT(nn.Module):
    def __init__(self, img=96, patch=16, dim=192, depth=4, heads=6, classes=38, dropout=0.1):
        super().__init__()
        ih, iw = pair(img)
        n = (ih // patch) * (iw // patch)
        self.to_patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * .02)
        self.drop = nn.Dropout(dropout)
        self.layers = nn.ModuleList([])
        for _ in range(depth):
            self.layers.append(nn.ModuleList([
                PreNorm(dim, Attention(dim, heads, dropout)),
                PreNorm(dim, FeedForward(dim, dim * 4, dropout))]))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.to_patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.size(0), -1, -1), x), dim=1)
        x = self.drop(x + self.pos)
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        return self.head(self.norm(x[:, 0]))
