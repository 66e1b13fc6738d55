"""Attention module of the LLM worker that serves the code assistant.

Weights come from Llama checkpoints in the original (Meta) layout, therefore the
rotary embedding works on adjacent pairs (x0, x1), (x2, x3), ...  Query heads are
grouped: query head ``h`` reads kv head ``h // (n_heads // n_kv_heads)``.

Inference only.  The module owns a preallocated KV cache; ``start_pos`` is the number
of tokens of this request that the cache already holds.
"""
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: Optional[int] = 2
    max_batch_size: int = 4
    max_seq_len: int = 96
    rope_theta: float = 10000.0


def precompute_freqs_cis(head_dim: int, end: int, theta: float) -> torch.Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, head_dim, 2)[: head_dim // 2].float() / head_dim))
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)  # complex64, (end, head_dim / 2)


def apply_rotary(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    rotated = pairs * freqs_cis[None, :, None, :]
    return torch.view_as_real(rotated).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads = args.n_heads
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_rep = self.n_heads // self.n_kv_heads
        self.head_dim = args.dim // args.n_heads

        self.wq = nn.Linear(args.dim, self.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(self.n_heads * self.head_dim, args.dim, bias=False)

        cache_shape = (args.max_batch_size, args.max_seq_len, self.n_kv_heads, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(cache_shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(cache_shape), persistent=False)
        self.register_buffer(
            "freqs_cis",
            precompute_freqs_cis(self.head_dim, args.max_seq_len, args.rope_theta),
            persistent=False,
        )

    @torch.no_grad()
    def forward(self, x: torch.Tensor, start_pos: int = 0) -> torch.Tensor:
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)

        freqs = self.freqs_cis[start_pos : start_pos + seqlen]
        xq = apply_rotary(xq, freqs)
        xk = apply_rotary(xk, freqs)

        self.cache_k[:bsz, start_pos : start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos : start_pos + seqlen] = xv
        keys = self.cache_k[:bsz, : start_pos + seqlen]
        values = self.cache_v[:bsz, : start_pos + seqlen]

        # (bs, cache_len + seqlen, n_heads, head_dim)
        keys = torch.repeat_interleave(keys, self.n_rep, dim=2)
        values = torch.repeat_interleave(values, self.n_rep, dim=2)

        xq = xq.transpose(1, 2)
        keys = keys.transpose(1, 2)
        values = values.transpose(1, 2)
        scores = torch.matmul(xq, keys.transpose(2, 3)) * self.head_dim ** -0.5
        if seqlen > 1:
            mask = torch.full((seqlen, start_pos + seqlen), float("-inf"), device=x.device)
            scores = scores + torch.triu(mask, diagonal=start_pos + 1)
        probs = torch.softmax(scores.float(), dim=-1).type_as(xq)
        out = torch.matmul(probs, values)  # (bs, n_heads, seqlen, head_dim)
        return self.wo(out.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = Attention(ModelArgs())
    prompt = torch.randn(1, 7, 64)
    print(layer(prompt).shape)
    print(layer(torch.randn(1, 1, 64), start_pos=7).shape)
