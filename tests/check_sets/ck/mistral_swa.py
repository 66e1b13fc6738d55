"""Mistral 7B: sliding window attention with grouped-query heads (Jiang et al. 2023)."""
import dataclasses
from typing import Optional

import torch
from torch import nn


@dataclasses.dataclass
class Args:
    dim: int = 48
    n_heads: int = 6
    n_kv_heads: int = 3
    head_dim: int = 8
    window: int = 3
    theta: float = 10_000.0


def precompute_freqs_cis(dim: int, end: int, theta: float) -> torch.Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    return torch.polar(torch.ones(end, dim // 2), torch.outer(t, freqs))


def apply_rotary(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[:, None, :]).flatten(-2).type_as(x)


def repeat_kv(x: torch.Tensor, n: int) -> torch.Tensor:
    return torch.repeat_interleave(x, repeats=n, dim=2)


class SlidingWindowAttention(nn.Module):
    """x (B, T, dim) -> (B, T, dim).

    Each token attends to at most `window` tokens: itself and the window - 1 before it.
    """

    def __init__(self, args: Optional[Args] = None):
        super().__init__()
        self.args = args = args or Args()
        self.wq = nn.Linear(args.dim, args.n_heads * args.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * args.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * args.head_dim, args.dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bsz, seqlen, _ = x.shape
        a = self.args
        xq = self.wq(x).view(bsz, seqlen, a.n_heads, a.head_dim)
        xk = self.wk(x).view(bsz, seqlen, a.n_kv_heads, a.head_dim)
        xv = self.wv(x).view(bsz, seqlen, a.n_kv_heads, a.head_dim)
        freqs_cis = precompute_freqs_cis(a.head_dim, seqlen, a.theta).to(x.device)
        xq, xk = apply_rotary(xq, freqs_cis), apply_rotary(xk, freqs_cis)
        xk, xv = repeat_kv(xk, a.n_heads // a.n_kv_heads), repeat_kv(xv, a.n_heads // a.n_kv_heads)

        mask = torch.ones(seqlen, seqlen, device=x.device)
        mask = torch.tril(mask, diagonal=0)
        mask = torch.triu(mask, diagonal=-a.window)
        mask = torch.log(mask)

        scores = torch.einsum("bqhd,bkhd->bhqk", xq, xk) * a.head_dim ** -0.5 + mask
        probs = scores.float().softmax(-1).type_as(x)
        out = torch.einsum("bhqk,bkhd->bqhd", probs, xv)
        return self.wo(out.reshape(bsz, seqlen, -1))
