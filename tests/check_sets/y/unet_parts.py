"""Pieces of a small DDPM U-Net. Feature maps are NCHW."""
import math
import torch as th
import torch.nn as nn
import torch.nn.functional as F


def zero_module(m):
    for p in m.parameters():
        p.detach().zero_()
    return m


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    freqs = th.exp(-math.log(max_period) * th.arange(half, dtype=th.float32) / half).to(t.device)
    args = t[:, None].float() * freqs[None]
    return th.cat([th.cos(args), th.sin(args)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb, out):
        super().__init__()
        self.inp = nn.Sequential(nn.GroupNorm(4, ch), nn.SiLU(), nn.Conv2d(ch, out, 3, padding=1))
        self.emb = nn.Linear(emb, out)
        self.out = nn.Sequential(nn.GroupNorm(4, out), nn.SiLU(), nn.Conv2d(out, out, 3, padding=1))
        self.skip = nn.Conv2d(ch, out, 1) if ch != out else nn.Identity()

    def forward(self, x, e):
        h = self.inp(x) + self.emb(F.silu(e))[:, :, None, None]
        return self.skip(x) + self.out(h)


class SpatialAttention(nn.Module):
    def __init__(self, ch, n_heads=2, cond_ch=None, zero_out=False):
        super().__init__()
        self.h = n_heads
        self.norm = nn.GroupNorm(4, ch)
        self.qkv = nn.Conv1d(ch, 3 * ch, 1)
        self.cond_kv = nn.Conv1d(cond_ch, 2 * ch, 1) if cond_ch else None
        self.proj = nn.Conv1d(ch, ch, 1)
        if zero_out:
            zero_module(self.proj)

    def forward(self, x, cond=None):
        """x (N,C,H,W); cond (N,cond_ch,L) text states put in front of the image keys"""
        n, c, *hw = x.shape
        x = x.reshape(n, c, -1)
        qkv = self.qkv(self.norm(x))
        ch = c // self.h
        # legacy order: every head owns a [q k v] run of channels
        q, k, v = qkv.reshape(n * self.h, 3 * ch, -1).split(ch, dim=1)
        if cond is not None:
            ek, ev = self.cond_kv(cond).reshape(n * self.h, 2 * ch, -1).split(ch, dim=1)
            k, v = th.cat([ek, k], -1), th.cat([ev, v], -1)
        s = 1 / math.sqrt(math.sqrt(ch))
        w = th.einsum("bct,bcs->bts", q * s, k * s)
        w = th.softmax(w.float(), dim=-1).type(w.dtype)
        a = th.einsum("bts,bcs->bct", w, v).reshape(n, c, -1)
        return (x + self.proj(a)).reshape(n, c, *hw)


class TinyUNetMiddle(nn.Module):
    def __init__(self, ch=16, emb=32, cond_ch=None):
        super().__init__()
        self.emb_dim = emb
        self.r1 = ResBlock(ch, emb, ch)
        self.at = SpatialAttention(ch, 2, cond_ch)
        self.r2 = ResBlock(ch, emb, ch)

    def forward(self, x, t, cond=None):
        e = timestep_embedding(t, self.emb_dim)
        return self.r2(self.at(self.r1(x, e), cond), e)
