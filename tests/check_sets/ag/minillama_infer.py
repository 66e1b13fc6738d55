"""Minimal Llama-2/3 block for inference with Meta checkpoints (weights are loaded as is).

cache is a plain dict {layer_index: (k, v)} with k, v of shape [B, n_kv_heads, S, head_dim].
The prompt may be fed in pieces of any size, followed by single tokens.
"""
import math
from dataclasses import dataclass
from typing import Dict, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Cache = Dict[int, Tuple[torch.Tensor, torch.Tensor]]


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    ffn_dim: int = 128
    norm_eps: float = 1e-5
    rope_theta: float = 500000.0
    max_seq_len: int = 512


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def precompute_freqs_cis(dim: int, end: int, theta: float) -> torch.Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    freqs = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None]).flatten(3).type_as(x)


class Attention(nn.Module):
    """Grouped queries: each kv head serves n_heads // n_kv_heads neighbouring query heads."""

    def __init__(self, layer: int, args: ModelArgs):
        super().__init__()
        self.layer = layer
        self.n_heads, self.n_kv = args.n_heads, args.n_kv_heads
        self.n_rep = args.n_heads // args.n_kv_heads
        self.hd = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(self.n_heads * self.hd, args.dim, bias=False)
        self.register_buffer(
            "freqs_cis",
            precompute_freqs_cis(self.hd, args.max_seq_len, args.rope_theta),
            persistent=False,
        )

    def forward(self, x: torch.Tensor, cache: Optional[Cache] = None) -> torch.Tensor:
        bsz, seqlen, _ = x.shape
        past = cache[self.layer][0].shape[2] if cache and self.layer in cache else 0
        freqs = self.freqs_cis[past:past + seqlen]

        q = apply_rotary_emb(self.wq(x).view(bsz, seqlen, self.n_heads, self.hd), freqs)
        k = apply_rotary_emb(self.wk(x).view(bsz, seqlen, self.n_kv, self.hd), freqs)
        v = self.wv(x).view(bsz, seqlen, self.n_kv, self.hd)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)

        if cache is not None:
            if past:
                k = torch.cat([cache[self.layer][0], k], dim=2)
                v = torch.cat([cache[self.layer][1], v], dim=2)
            cache[self.layer] = (k, v)

        total = k.shape[2]
        if self.n_rep > 1:
            k = k.repeat(1, self.n_rep, 1, 1)
            v = v.repeat(1, self.n_rep, 1, 1)

        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.hd)
        if seqlen > 1:
            keep = torch.ones(seqlen, total, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~keep, float("-inf"))
        scores = F.softmax(scores.float(), dim=-1).type_as(q)
        out = torch.matmul(scores, v).transpose(1, 2).reshape(bsz, seqlen, -1)
        return self.wo(out)


class Block(nn.Module):
    def __init__(self, layer: int, args: ModelArgs):
        super().__init__()
        self.attention = Attention(layer, args)
        self.w1 = nn.Linear(args.dim, args.ffn_dim, bias=False)
        self.w2 = nn.Linear(args.ffn_dim, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, args.ffn_dim, bias=False)
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, cache=None):
        h = x + self.attention(self.attention_norm(x), cache)
        y = self.ffn_norm(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


if __name__ == "__main__":
    blk, cache = Block(0, ModelArgs()), {}
    for n in (5, 3, 1, 1):
        print(blk(torch.randn(1, n, 64), cache).shape, cache[0][0].shape)
