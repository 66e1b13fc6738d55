"""Attention of the MoE decoder + the options that the exporter understands."""
from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn


class Options:
    """
    heads, kv_heads : query head h belongs to kv head h // (heads // kv_heads)
    window          : number of tokens a query may see, itself included; None = everything before
    logit_cap       : s -> cap * tanh(s / cap) on the scaled logits before masking; None = off
    """

    def __init__(self, **kw: Any):
        self.dim = kw.pop("dim")
        self.heads = kw.pop("heads", 8)
        self.kv_heads = kw.pop("kv_heads", self.heads)
        self.window = kw.pop("window", None)
        self.logit_cap = kw.pop("logit_cap", 30.0)
        if kw:
            raise ValueError(f"unexpected: {', '.join(kw)}")
        if self.heads % self.kv_heads:
            raise ValueError("heads % kv_heads != 0")

    @property
    def head_dim(self):
        return self.dim // self.heads


class MoEDecoderAttention(nn.Module):
    def __init__(self, opt: Options):
        super().__init__()
        self.opt = opt
        hd = opt.head_dim
        self.logit_cap = opt.logit_cap
        self.q_proj = nn.Linear(opt.dim, opt.heads * hd, bias=False)
        self.k_proj = nn.Linear(opt.dim, opt.kv_heads * hd, bias=False)
        self.v_proj = nn.Linear(opt.dim, opt.kv_heads * hd, bias=False)
        self.o_proj = nn.Linear(opt.heads * hd, opt.dim, bias=False)

    def visible(self, n_new: int, n_all: int, device) -> torch.Tensor:
        i = torch.arange(n_all - n_new, n_all, device=device)[:, None]
        j = torch.arange(n_all, device=device)[None, :]
        ok = j <= i
        if self.opt.window is not None:
            ok &= i - j <= self.opt.window
        return ok

    def forward(self, x: torch.Tensor, past: tuple | None = None):
        o = self.opt
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, o.heads, o.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(B, T, o.kv_heads, o.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(B, T, o.kv_heads, o.head_dim).transpose(1, 2)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        present = (k, v)
        n_rep = o.heads // o.kv_heads
        k, v = k.repeat(1, n_rep, 1, 1), v.repeat(1, n_rep, 1, 1)
        logits = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(o.head_dim)
        logits = logits.masked_fill(~self.visible(T, k.size(2), x.device), -torch.inf)
        w = torch.softmax(logits.float(), -1).to(x.dtype)
        y = torch.matmul(w, v).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(y), present


class TopKExperts(nn.Module):
    def __init__(self, dim, n=4, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, n, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim)) for _ in range(n))

    def forward(self, x):
        w, idx = self.gate(x).topk(self.k, -1)
        w = w.softmax(-1)
        y = torch.zeros_like(x)
        for e, f in enumerate(self.experts):
            y = y + f(x) * (w * (idx == e)).sum(-1, keepdim=True)
        return y
