"""Decoder used by our pull-request review bot: grouped-query attention, interleaved RoPE,
sliding window, soft-capped logits, static KV cache."""
from dataclasses import dataclass
from typing import Optional
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Args:
    dim: int = 64
    n_layers: int = 2
    n_heads: int = 8
    n_kv_heads: int = 2
    vocab: int = 512
    max_len: int = 128
    window: Optional[int] = None   # number of keys a token sees, itself included
    softcap: Optional[float] = 30.0
    theta: float = 10000.0


def precompute_freqs_cis(dim, end, theta):
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim)
    t = torch.arange(end).float()
    angle = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(angle), angle)


def apply_rotary(x, cis):
    """x (B, T, H, D): pairs (0,1), (2,3), ... as complex numbers"""
    c = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(c * cis[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, a: Args, max_batch=4):
        super().__init__()
        self.a = a
        self.hd = a.dim // a.n_heads
        self.rep = a.n_heads // a.n_kv_heads
        self.wq = nn.Linear(a.dim, a.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, a.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, a.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(a.n_heads * self.hd, a.dim, bias=False)
        shape = (max_batch, a.max_len, a.n_kv_heads, self.hd)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)

    def forward(self, x, start, cis):
        B, T, _ = x.shape
        q = apply_rotary(self.wq(x).view(B, T, -1, self.hd), cis)
        k = apply_rotary(self.wk(x).view(B, T, -1, self.hd), cis)
        v = self.wv(x).view(B, T, -1, self.hd)
        self.cache_k[:B, start:start + T] = k
        self.cache_v[:B, start:start + T] = v
        keys = self.cache_k[:B, :start + T].repeat_interleave(self.rep, dim=2)
        vals = self.cache_v[:B, :start + T].repeat_interleave(self.rep, dim=2)

        s = torch.einsum("bthd,bshd->bhts", q, keys) * self.hd ** -0.5
        if self.a.softcap is not None:
            s = self.a.softcap * torch.tanh(s / self.a.softcap)
        i = torch.arange(start, start + T, device=x.device)[:, None]
        j = torch.arange(start + T, device=x.device)[None, :]
        ok = j <= i
        if self.a.window is not None:
            ok = ok & (i - j < self.a.window)
        s = s.masked_fill(~ok, float("-inf"))
        p = F.softmax(s.float(), dim=-1).type_as(vals)
        return self.wo(torch.einsum("bhts,bshd->bthd", p, vals).reshape(B, T, -1))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attn = Attention(a)
        self.n1, self.n2 = nn.RMSNorm(a.dim), nn.RMSNorm(a.dim)
        self.w1, self.w3 = nn.Linear(a.dim, 2 * a.dim, bias=False), nn.Linear(a.dim, 2 * a.dim, bias=False)
        self.w2 = nn.Linear(2 * a.dim, a.dim, bias=False)

    def forward(self, x, start, cis):
        x = x + self.attn(self.n1(x), start, cis)
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class ReviewBot(nn.Module):
    def __init__(self, a: Args):
        super().__init__()
        self.emb = nn.Embedding(a.vocab, a.dim)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.n_layers))
        self.norm = nn.RMSNorm(a.dim)
        self.register_buffer("cis", precompute_freqs_cis(a.dim // a.n_heads, a.max_len, a.theta), persistent=False)

    @torch.inference_mode()
    def forward(self, ids, start=0):
        x = self.emb(ids)
        cis = self.cis[start:start + ids.size(1)]
        for b in self.blocks:
            x = b(x, start, cis)
        return self.norm(x) @ self.emb.weight.T
