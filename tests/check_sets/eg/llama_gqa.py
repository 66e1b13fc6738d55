"""LLaMA style attention with grouped heads, rotary embedding and a static cache."""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: Optional[int] = 2
    max_batch_size: int = 4
    max_seq_len: int = 32
    rope_theta: float = 10000.0


def precompute_freqs_cis(dim, end, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), freqs))


def apply_rotary_emb(x, freqs_cis):
    """x: (bsz, seq, heads, head_dim); pairs are neighbouring channels (2i, 2i+1)."""
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


def repeat_kv(x, n_rep):
    """(bs, s, n_kv_heads, hd) -> (bs, s, n_kv_heads * n_rep, hd); query head h uses kv head h // n_rep."""
    bs, s, n_kv, hd = x.shape
    if n_rep == 1:
        return x
    return x[:, :, :, None, :].expand(bs, s, n_kv, n_rep, hd).reshape(bs, s, n_kv * n_rep, hd)


class Attention(nn.Module):
    """forward(x, start_pos): x (bsz, seqlen, dim) are the tokens start_pos .. start_pos+seqlen-1.

    The tokens before start_pos must have been given before, in order. Causal.
    """

    def __init__(self, args):
        super().__init__()
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_heads = args.n_heads
        self.n_rep = args.n_heads // self.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        shape = (args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)
        self.register_buffer("freqs_cis", precompute_freqs_cis(self.head_dim, args.max_seq_len, args.rope_theta))

    @torch.no_grad()
    def forward(self, x, start_pos=0):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        fc = self.freqs_cis[start_pos:start_pos + seqlen]
        xq, xk = apply_rotary_emb(xq, fc), apply_rotary_emb(xk, fc)
        self.cache_k[:bsz, start_pos:start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos:start_pos + seqlen] = xv
        keys = repeat_kv(self.cache_k[:bsz, :start_pos + seqlen], self.n_rep).transpose(1, 2)
        values = repeat_kv(self.cache_v[:bsz, :start_pos + seqlen], self.n_rep).transpose(1, 2)
        scores = xq.transpose(1, 2) @ keys.transpose(2, 3) / self.head_dim ** 0.5
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu(1)
            mask = torch.hstack([torch.zeros((seqlen, start_pos), device=x.device), mask])
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        return self.wo((scores @ values).transpose(1, 2).reshape(bsz, seqlen, -1))
