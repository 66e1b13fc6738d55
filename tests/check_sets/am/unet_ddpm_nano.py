"""DDPM nano U-Net. Loads the attention weights of older guided-diffusion checkpoints.

In those checkpoints the rows of `qkv.weight` are ordered head by head: q, k, v of head 0, then
q, k, v of head 1, ... (so that channel = head * 3 * d + {q: 0, k: d, v: 2d} + i).
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


def time_emb(t, dim):
    half = dim // 2
    f = torch.exp(-math.log(10000) * torch.arange(half, device=t.device) / half)
    a = t[:, None].float() * f[None]
    return torch.cat([a.cos(), a.sin()], -1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.a = nn.Sequential(nn.GroupNorm(8, cin), nn.SiLU(), nn.Conv2d(cin, cout, 3, padding=1))
        self.e = nn.Sequential(nn.SiLU(), nn.Linear(emb, cout))
        self.b = nn.Sequential(nn.GroupNorm(8, cout), nn.SiLU(), nn.Conv2d(cout, cout, 3, padding=1))
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, emb):
        h = self.a(x) + self.e(emb)[:, :, None, None]
        return self.skip(x) + self.b(h)


class AttentionBlock(nn.Module):
    """all positions of the feature map attend to each other"""

    def __init__(self, channels, num_heads=4):
        super().__init__()
        self.num_heads = num_heads
        self.norm = nn.GroupNorm(8, channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        h = self.attend(self.qkv(self.norm(x)))
        return (x + self.proj_out(h)).reshape(b, c, *spatial)

    def attend(self, qkv):
        bs, width, length = qkv.shape
        ch = width // (3 * self.num_heads)
        q, k, v = qkv.chunk(3, dim=1)
        scale = 1 / math.sqrt(math.sqrt(ch))
        q = (q * scale).view(bs * self.num_heads, ch, length)
        k = (k * scale).view(bs * self.num_heads, ch, length)
        weight = torch.einsum("bct,bcs->bts", q, k)
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = torch.einsum("bts,bcs->bct", weight, v.reshape(bs * self.num_heads, ch, length))
        return a.reshape(bs, -1, length)


class NanoUNet(nn.Module):
    def __init__(self, cin=3, base=32, heads=4):
        super().__init__()
        e = base * 4
        self.base = base
        self.emb = nn.Sequential(nn.Linear(base, e), nn.SiLU(), nn.Linear(e, e))
        self.inp = nn.Conv2d(cin, base, 3, padding=1)
        self.d1 = ResBlock(base, base, e)
        self.down = nn.Conv2d(base, 2 * base, 3, 2, 1)
        self.m1, self.attn, self.m2 = ResBlock(2 * base, 2 * base, e), AttentionBlock(2 * base, heads), ResBlock(2 * base, 2 * base, e)
        self.up = nn.Conv2d(2 * base, base, 3, padding=1)
        self.u1 = ResBlock(2 * base, base, e)
        self.out = nn.Sequential(nn.GroupNorm(8, base), nn.SiLU(), nn.Conv2d(base, cin, 3, padding=1))

    def forward(self, x, t):
        e = self.emb(time_emb(t, self.base))
        h = self.d1(self.inp(x), e)
        m = self.m2(self.attn(self.m1(self.down(h), e)), e)
        m = self.up(F.interpolate(m, scale_factor=2))
        return self.out(self.u1(torch.cat([m, h], 1), e))


class DDPM:
    def __init__(self, steps=1000, b0=1e-4, b1=0.02):
        self.beta = torch.linspace(b0, b1, steps)
        self.abar = torch.cumprod(1 - self.beta, 0)

    def q_sample(self, x0, t, noise):
        a = self.abar[t].view(-1, 1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * noise
