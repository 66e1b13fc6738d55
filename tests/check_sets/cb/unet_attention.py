"""Small DDPM U-Net for 28 x 28 digits and 24 x 48 radar frames (rectangular on purpose).

Bottleneck self-attention over all the pixels, multi-head, with the residual and group
norm of Ho et al. (2020): out(p) = x(p) + W sum_p' softmax_p'(q(p) . k(p') / sqrt(d)) v(p').
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, tdim):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(4, cin), nn.GroupNorm(4, cout)
        self.c1, self.c2 = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.t = nn.Linear(tdim, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, temb):
        h = self.c1(F.silu(self.n1(x))) + self.t(temb)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class PixelAttention(nn.Module):
    def __init__(self, ch, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, ch)
        self.q = nn.Conv2d(ch, ch, 1)
        self.k = nn.Conv2d(ch, ch, 1)
        self.v = nn.Conv2d(ch, ch, 1)
        self.proj = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        B, C, H, W = x.shape
        h = self.norm(x)
        d = C // self.heads
        q = self.q(h).view(B, self.heads, d, H * W).transpose(2, 3)            # B, heads, HW, d
        k = self.k(h).view(B, self.heads, d, H * W)                            # B, heads, d, HW
        v = self.v(h).permute(0, 3, 2, 1).reshape(B, H * W, self.heads, d).transpose(1, 2)
        w = torch.softmax(q @ k / math.sqrt(d), dim=-1)
        out = (w @ v).transpose(2, 3).reshape(B, C, H, W)
        return x + self.proj(out)


class TinyUNet(nn.Module):
    def __init__(self, ch=16, tdim=32):
        super().__init__()
        self.tdim = tdim
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.d1, self.d2 = ResBlock(ch, ch, tdim), ResBlock(ch, 2 * ch, tdim)
        self.m1, self.attn, self.m2 = ResBlock(2 * ch, 2 * ch, tdim), PixelAttention(2 * ch), ResBlock(2 * ch, 2 * ch, tdim)
        self.u1 = ResBlock(4 * ch, ch, tdim)
        self.u2 = ResBlock(2 * ch, ch, tdim)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        temb = time_embedding(t, self.tdim)
        a = self.d1(self.inp(x), temb)
        b = self.d2(F.avg_pool2d(a, 2), temb)
        m = F.avg_pool2d(b, 2)
        m = self.m2(self.attn(self.m1(m, temb)), temb)
        m = self.u1(torch.cat([F.interpolate(m, scale_factor=2), b], 1), temb)
        m = self.u2(torch.cat([F.interpolate(m, scale_factor=2), a], 1), temb)
        return self.out(F.silu(m))
