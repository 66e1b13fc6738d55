"""LLaMA-style attention with grouped keys/values and a growing KV cache."""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    rope_theta: float = 10000.0


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rope_cos_sin(positions, head_dim, theta):
    inv = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    ang = positions[:, None].float() * inv[None, :]
    ang = torch.cat((ang, ang), dim=-1)
    return ang.cos(), ang.sin()


class LlamaAttention(nn.Module):
    """Causal self-attention.

    forward(x, cache) with x (B, T, dim). cache is None or the (k, v) pair that the
    previous call returned; the new tokens come after those in it. Query head h reads
    kv head h // (n_heads // n_kv_heads).
    """

    def __init__(self, args: Optional[ModelArgs] = None):
        super().__init__()
        args = args or ModelArgs()
        self.args = args
        self.hd = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(args.n_heads * self.hd, args.dim, bias=False)

    def forward(self, x, cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        B, T, _ = x.shape
        a = self.args
        past = 0 if cache is None else cache[0].shape[2]
        q = self.wq(x).view(B, T, a.n_heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, a.n_kv_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, a.n_kv_heads, self.hd).transpose(1, 2)

        cos, sin = rope_cos_sin(torch.arange(past, past + T, device=x.device), self.hd, a.rope_theta)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin

        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        new_cache = (k, v)

        rep = a.n_heads // a.n_kv_heads
        k = k.repeat_interleave(rep, dim=1)
        v = v.repeat_interleave(rep, dim=1)

        S = k.shape[2]
        scores = (q @ k.transpose(2, 3)) * self.hd ** -0.5
        hide = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(diagonal=past + 1)
        scores = scores.masked_fill(hide, float("-inf"))
        p = torch.softmax(scores.float(), dim=-1).type_as(q)
        y = (p @ v).transpose(1, 2).contiguous().view(B, T, -1)
        return self.wo(y), new_cache
