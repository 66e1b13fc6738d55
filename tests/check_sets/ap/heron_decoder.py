"""Heron: decoder-only model with grouped key/value heads.

Layout everywhere: [batch, length, heads, head_dim]. Query head h belongs to the
key/value head h // (n_heads // n_kv_heads).
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class HeronArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    n_layers: int = 2
    vocab_size: int = 128
    base: float = 10000.0
    eps: float = 1e-5


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def rope_table(head_dim, length, base):
    inv = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    return torch.outer(torch.arange(length).float(), inv)


def rope(x, ang):
    """First and second half of the head form the pairs."""
    a, b = x.chunk(2, -1)
    c, s = ang.cos()[None, :, None].to(x.dtype), ang.sin()[None, :, None].to(x.dtype)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class HeronAttention(nn.Module):
    def __init__(self, args: HeronArgs):
        super().__init__()
        self.h, self.hkv = args.n_heads, args.n_kv_heads
        self.rep = self.h // self.hkv
        self.hd = args.dim // args.n_heads
        self.base = args.base
        self.wq = nn.Linear(args.dim, self.h * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, self.hkv * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, self.hkv * self.hd, bias=False)
        self.wo = nn.Linear(self.h * self.hd, args.dim, bias=False)

    def widen(self, t):
        """[B, L, hkv, d] -> [B, L, h, d]"""
        B, L, _, d = t.shape
        return t.repeat(1, self.rep, 1, 1).reshape(B, L, self.h, d)

    def forward(self, x, keep=None):
        """keep: bool [B, L], True for tokens, False for padding on the right."""
        B, L, _ = x.shape
        ang = rope_table(self.hd, L, self.base).to(x.device)
        q = rope(self.wq(x).view(B, L, self.h, self.hd), ang)
        k = rope(self.wk(x).view(B, L, self.hkv, self.hd), ang)
        v = self.wv(x).view(B, L, self.hkv, self.hd)
        k, v = self.widen(k), self.widen(v)
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.hd ** -0.5
        allow = torch.ones(L, L, dtype=torch.bool, device=x.device).tril()[None, None]
        if keep is not None:
            allow = allow & keep[:, None, None, :]
        scores = scores.masked_fill(~allow, torch.finfo(scores.dtype).min)
        p = scores.float().softmax(-1).type_as(v)
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", p, v).reshape(B, L, -1))


class HeronBlock(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.a_norm, self.f_norm = RMSNorm(args.dim, args.eps), RMSNorm(args.dim, args.eps)
        self.attn = HeronAttention(args)
        hid = 8 * args.dim // 3
        self.gate, self.up, self.down = nn.Linear(args.dim, hid, bias=False), nn.Linear(args.dim, hid, bias=False), nn.Linear(hid, args.dim, bias=False)

    def forward(self, x, keep=None):
        x = x + self.attn(self.a_norm(x), keep)
        h = self.f_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))
