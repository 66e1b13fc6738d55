# Copyright (c) the codegen-mini authors. Apache-2.0.
"""Autocomplete daemon: decoder attention with preallocated cache.

Weights are in Meta's original order, i.e. the rotary pairs are (0,1), (2,3), ...
Do not feed HF-permuted checkpoints.
"""
import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Args:
    dim: int = 64
    n_heads: int = 4
    n_kv_heads: Optional[int] = 2
    max_batch: int = 4
    max_seq: int = 64
    rope_theta: float = 1e6


def precompute_freqs_cis(dim: int, end: int, theta: float) -> torch.Tensor:
    freqs = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def apply_rotary_emb(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, a: Args):
        super().__init__()
        self.n_heads = a.n_heads
        self.n_kv = a.n_kv_heads or a.n_heads
        self.hd = a.dim // a.n_heads
        self.wq = nn.Linear(a.dim, self.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(a.dim, self.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(a.dim, self.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(self.n_heads * self.hd, a.dim, bias=False)
        shape = (a.max_batch, a.max_seq, self.n_kv, self.hd)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)
        self.register_buffer(
            "freqs_cis", precompute_freqs_cis(self.hd, a.max_seq, a.rope_theta), persistent=False
        )

    @torch.no_grad()
    def forward(self, x: torch.Tensor, start_pos: int) -> torch.Tensor:
        """x: (bsz, n, dim), tokens start_pos .. start_pos + n of the sequence. Causal."""
        bsz, n, _ = x.shape
        fc = self.freqs_cis[start_pos : start_pos + n]
        xq = apply_rotary_emb(self.wq(x).view(bsz, n, self.n_heads, self.hd), fc)
        xk = apply_rotary_emb(self.wk(x).view(bsz, n, self.n_kv, self.hd), fc)
        xv = self.wv(x).view(bsz, n, self.n_kv, self.hd)
        end = start_pos + n
        self.cache_k[:bsz, start_pos:end] = xk
        self.cache_v[:bsz, start_pos:end] = xv
        rep = self.n_heads // self.n_kv
        keys = self.cache_k[:bsz, :end].repeat_interleave(rep, dim=2).transpose(1, 2)
        values = self.cache_v[:bsz, :end].repeat_interleave(rep, dim=2).transpose(1, 2)
        scores = xq.transpose(1, 2) @ keys.transpose(2, 3) / math.sqrt(self.hd)
        if n > 1:
            mask = torch.full((n, n), float("-inf"), device=x.device).triu(1)
            mask = torch.hstack([torch.zeros(n, start_pos, device=x.device), mask])
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        out = (scores @ values).transpose(1, 2).contiguous().view(bsz, n, -1)
        return self.wo(out)


def complete(attn, embed, head, prompt, steps):
    """Greedy toy loop over one layer; prompt (1, n) token ids."""
    h, pos, out = attn(embed(prompt), 0), prompt.size(1), []
    for _ in range(steps):
        tok = head(h[:, -1:]).argmax(-1)
        out.append(tok.item())
        h = attn(embed(tok), pos)
        pos += 1
    return out
