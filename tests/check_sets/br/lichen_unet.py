"""U-Net pieces for a diffusion model of lichen growth on stone (64 x 64 photographs)."""
import math

import torch as th
import torch.nn as nn


def timestep_embedding(t, dim, max_period=10000):
    half = dim // 2
    f = th.exp(-math.log(max_period) * th.arange(half, dtype=th.float32) / half).to(t.device)
    a = t[:, None].float() * f[None]
    return th.cat([a.cos(), a.sin()], -1)


class GroupNorm32(nn.GroupNorm):
    def forward(self, x):
        return super().forward(x.float()).type(x.dtype)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.body = nn.Sequential(GroupNorm32(8, ch), nn.SiLU(), nn.Conv2d(ch, ch, 3, padding=1))
        self.emb = nn.Linear(emb, 2 * ch)
        self.norm = GroupNorm32(8, ch)
        self.tail = nn.Sequential(nn.SiLU(), nn.Conv2d(ch, ch, 3, padding=1))

    def forward(self, x, emb):
        h = self.body(x)
        gain, shift = self.emb(emb)[:, :, None, None].chunk(2, 1)
        return x + self.tail(self.norm(h) * (1 + gain) + shift)


class QKVAttentionOld(nn.Module):
    """Channels arrive head by head: [q0 k0 v0 | q1 k1 v1 | ...], each `ch` wide.

    The factor ch ** -1/4 goes to both sides before the product, which keeps
    the half-precision product small.
    """

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, qkv):
        b, width, n = qkv.shape
        ch = width // (3 * self.heads)
        q, k, v = qkv.reshape(b * self.heads, 3 * ch, n).split(ch, dim=1)
        s = 1 / math.sqrt(math.sqrt(ch))
        w = th.einsum("bct,bcs->bts", q * s, k * s)
        w = th.softmax(w.float(), dim=-1).type(w.dtype)
        a = th.einsum("bts,bcs->bct", w, v)
        return a.reshape(b, -1, n)


class LichenAttentionBlock(nn.Module):
    """Every pixel attends to every pixel of its own picture; residual inside.

    With `context` ([B, M, C], embedded stone and climate tags) the pixels also
    see the tags: their keys and values are appended behind those of the pixels.
    """

    def __init__(self, channels, heads=4, with_context=False):
        super().__init__()
        assert channels % heads == 0
        self.heads = heads
        self.norm = GroupNorm32(8, channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.core = QKVAttentionOld(heads)
        self.context_kv = nn.Conv1d(channels, 2 * channels, 1) if with_context else None
        self.proj = nn.Conv1d(channels, channels, 1)

    def mixed(self, qkv, kv):
        b, width, n = qkv.shape
        ch = width // (3 * self.heads)
        q, k, v = qkv.reshape(b * self.heads, 3 * ch, n).split(ch, dim=1)
        ck, cv = kv.reshape(b * self.heads, 2 * ch, -1).split(ch, dim=1)
        k, v = th.cat([k, ck], -1), th.cat([v, cv], -1)
        s = ch ** -0.25
        w = th.softmax((q * s).transpose(1, 2).float() @ (k * s).float(), -1).to(v.dtype)
        return (v @ w.transpose(1, 2)).reshape(b, -1, n)

    def forward(self, x, context=None):
        b, c, *hw = x.shape
        flat = x.reshape(b, c, -1)
        qkv = self.qkv(self.norm(flat))
        if self.context_kv is not None and context is not None:
            h = self.mixed(qkv, self.context_kv(context.transpose(1, 2)))
        else:
            h = self.core(qkv)
        return (flat + self.proj(h)).reshape(b, c, *hw)


class Middle(nn.Module):
    def __init__(self, ch=32, emb=64):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.a, self.att, self.b = ResBlock(ch, emb), LichenAttentionBlock(ch), ResBlock(ch, emb)
        self.ch = ch

    def forward(self, x, t):
        e = self.time(timestep_embedding(t, self.ch))
        return self.b(self.att(self.a(x, e)), e)
