"""Pieces of a diffusion U-Net (ADM flavour): time embedding, residual block, spatial attention."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, device=t.device) / half)
    args = t[:, None].float() * freqs[None]
    return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb, out=None):
        super().__init__()
        out = out or ch
        self.a = nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, out, 3, padding=1))
        self.e = nn.Sequential(nn.SiLU(), nn.Linear(emb, 2 * out))
        self.n = nn.GroupNorm(8, out)
        self.b = nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Identity() if out == ch else nn.Conv2d(ch, out, 1)

    def forward(self, x, emb):
        h = self.a(x)
        scale, shift = self.e(emb)[:, :, None, None].chunk(2, 1)
        h = self.b(F.silu(self.n(h) * (1 + scale) + shift))
        return self.skip(x) + h


class AttentionBlock(nn.Module):
    """Every pixel attends to every pixel.

    The 1x1 convolution's output channels are packed per head, [head0: q k v][head1: q k v]...,
    which is the order of the released checkpoints.
    """

    def __init__(self, channels, head_channels=16):
        super().__init__()
        self.num_heads = channels // head_channels
        self.norm = nn.GroupNorm(8, channels)
        self.qkv = nn.Conv1d(channels, channels * 3, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)
        nn.init.zeros_(self.proj_out.bias)

    def forward(self, x):
        b, c, *spatial = x.shape
        x = x.reshape(b, c, -1)
        qkv = self.qkv(self.norm(x))
        width, length = c // self.num_heads, x.shape[2]
        q, k, v = qkv.reshape(b * self.num_heads, width * 3, length).split(width, dim=1)
        # sqrt of the scale on both sides is kinder to fp16 than one division afterwards
        s = 1 / math.sqrt(math.sqrt(width))
        weight = torch.einsum("bct,bcs->bts", q * s, k * s)
        weight = torch.softmax(weight.float(), dim=-1).type(weight.dtype)
        a = torch.einsum("bts,bcs->bct", weight, v)
        h = self.proj_out(a.reshape(b, c, length))
        return (x + h).reshape(b, c, *spatial)


class TinyUNet(nn.Module):
    def __init__(self, cin=3, ch=32):
        super().__init__()
        emb = 4 * ch
        self.ch = ch
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.inp = nn.Conv2d(cin, ch, 3, padding=1)
        self.d1 = ResBlock(ch, emb)
        self.down = nn.Conv2d(ch, 2 * ch, 3, stride=2, padding=1)
        self.m1 = ResBlock(2 * ch, emb)
        self.att = AttentionBlock(2 * ch)
        self.m2 = ResBlock(2 * ch, emb)
        self.u1 = ResBlock(3 * ch, emb, ch)
        self.out = nn.Conv2d(ch, cin, 3, padding=1)

    def forward(self, x, t):
        e = self.time(timestep_embedding(t, self.ch))
        h1 = self.d1(self.inp(x), e)
        h = self.m2(self.att(self.m1(self.down(h1), e)), e)
        h = F.interpolate(h, size=h1.shape[-2:], mode="nearest")
        return self.out(self.u1(torch.cat([h, h1], 1), e))
