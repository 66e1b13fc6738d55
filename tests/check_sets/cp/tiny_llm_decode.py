"""Multi-query attention with logit soft-capping, as used in the Gemma-2-like toy LLM.

    logits = cap * tanh(q.k / sqrt(d) / cap)
    masked positions get exactly zero probability

RoPE is the half-split ("rotate_half", Llama/HF) variant. Decoding with a cache
gives the same outputs as one full forward pass.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim: int, theta: float = 10000.0):
        super().__init__()
        inv = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv, persistent=False)

    def forward(self, positions):
        ang = positions.float()[:, None] * self.inv_freq
        ang = torch.cat((ang, ang), dim=-1)
        return ang.cos(), ang.sin()


class CappedMQA(nn.Module):
    """One key/value head for all query heads."""

    def __init__(self, dim: int = 64, heads: int = 4, cap: float = 5.0):
        super().__init__()
        self.heads, self.head_dim, self.cap = heads, dim // heads, cap
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, self.head_dim, bias=False)
        self.wv = nn.Linear(dim, self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.head_dim)

    def forward(self, x: torch.Tensor, past: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        """x: (B, T, dim), only the new tokens when `past` is given.

        past: (k, v), each (B, 1, P, head_dim), as returned by the previous call.
        Returns (output (B, T, dim), new past). Causal.
        """
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).unsqueeze(1)
        v = self.wv(x).unsqueeze(1)

        cos, sin = self.rotary(torch.arange(T, device=x.device))
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        S = k.size(2)

        scores = q @ k.transpose(-1, -2) * self.head_dim ** -0.5
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        scores = scores.masked_fill(~keep, float("-inf"))
        scores = self.cap * torch.tanh(scores / self.cap)
        probs = scores.softmax(dim=-1)

        y = (probs @ v).transpose(1, 2).reshape(B, T, -1)
        return self.wo(y), (k, v)
