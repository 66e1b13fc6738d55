"""Llama-like attention for inference: grouped query heads, rotary embedding (interleaved pairs as in Meta's
release), static KV cache. Prompts can be fed whole, in chunks or token by token; the result is the same."""
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    t = torch.arange(end).float()
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x: torch.Tensor, freqs_cis: torch.Tensor):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    """torch.repeat_interleave(x, dim=2, repeats=n_rep)"""
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class Attention(nn.Module):
    def __init__(self, dim: int = 48, n_heads: int = 6, n_kv_heads: int = 2,
                 max_batch: int = 4, max_seq: int = 32):
        super().__init__()
        self.n_heads, self.n_kv = n_heads, n_kv_heads
        self.hd = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(n_heads * self.hd, dim, bias=False)
        shape = (max_batch, max_seq, n_kv_heads, self.hd)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)
        self.register_buffer("freqs_cis", precompute_freqs_cis(self.hd, max_seq), persistent=False)

    @torch.no_grad()
    def forward(self, x: torch.Tensor, start_pos: int = 0):
        """x: (bsz, seqlen, dim), the tokens start_pos .. start_pos + seqlen - 1"""
        bsz, seqlen, _ = x.shape
        end = start_pos + seqlen
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.hd)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv, self.hd)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv, self.hd)
        rot = self.freqs_cis[start_pos:end]
        xq, xk = apply_rotary_emb(xq, rot), apply_rotary_emb(xk, rot)

        self.cache_k[:bsz, start_pos:end] = xk
        self.cache_v[:bsz, start_pos:end] = xv
        keys = repeat_kv(self.cache_k[:bsz, :end], self.n_heads // self.n_kv)
        values = repeat_kv(self.cache_v[:bsz, :end], self.n_heads // self.n_kv)

        xq, keys, values = (t.transpose(1, 2) for t in (xq, keys, values))
        mask: Optional[torch.Tensor] = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu(diagonal=1)
            mask = torch.hstack([torch.zeros(seqlen, start_pos, device=x.device), mask]).type_as(xq)
        scores = torch.matmul(xq, keys.transpose(2, 3)) / self.hd ** 0.5
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        out = torch.matmul(scores, values).transpose(1, 2).reshape(bsz, seqlen, -1)
        return self.wo(out)
