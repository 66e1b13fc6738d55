"""Attention blocks of my denoising U-Net. Everything is (b, c, h, w).

High resolutions use efficient attention (Shen et al.: softmax of q over the channels of a head, softmax of k
over the pixels), the 8x8 level uses ordinary attention.
"""
import torch
from torch import nn


class ChanNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1, c, 1, 1))

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=1, unbiased=False, keepdim=True)
        return (x - mean) * (var + 1e-5).rsqrt() * self.g


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=16):
        super().__init__()
        self.heads, self.dim_head = heads, dim_head
        self.scale = dim_head ** -0.5
        inner = heads * dim_head
        self.norm = ChanNorm(dim)
        self.to_qkv = nn.Conv2d(dim, 3 * inner, 1, bias=False)
        self.to_out = nn.Sequential(nn.Conv2d(inner, dim, 1), ChanNorm(dim))

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.heads, self.dim_head, h * w)
                   for t in self.to_qkv(self.norm(x)).chunk(3, dim=1))
        q = q.softmax(dim=-2) * self.scale
        k = k.softmax(dim=-1)
        context = torch.einsum("bhdn,bhen->bhde", k, v)
        out = torch.einsum("bhde,bhdn->bhen", context, q)
        return self.to_out(out.reshape(b, -1, h, w))


class FullAttention(nn.Module):
    def __init__(self, dim, heads=4, dim_head=16):
        super().__init__()
        self.heads, self.dim_head = heads, dim_head
        inner = heads * dim_head
        self.norm = ChanNorm(dim)
        self.to_qkv = nn.Conv2d(dim, 3 * inner, 1, bias=False)
        self.to_out = nn.Conv2d(inner, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.heads, self.dim_head, h * w)
                   for t in self.to_qkv(self.norm(x)).chunk(3, dim=1))
        # keys in front: sim[j, i] belongs to key j and query i
        sim = torch.einsum("bhdj,bhdi->bhji", k, q * self.dim_head ** -0.5)
        attn = sim.softmax(dim=-2)
        out = torch.einsum("bhdj,bhji->bhdi", v, attn)
        return self.to_out(out.reshape(b, -1, h, w))


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(4, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1),
                                  nn.GroupNorm(4, c), nn.SiLU(), nn.Conv2d(c, c, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


class UNetStage(nn.Module):
    def __init__(self, c, full=False, **kw):
        super().__init__()
        self.res = ResBlock(c)
        self.attn = FullAttention(c, **kw) if full else LinearAttention(c, **kw)

    def forward(self, x):
        x = self.res(x)
        return x + self.attn(x)
