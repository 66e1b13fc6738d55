"""Self-attention of a Llama-type decoder with a preallocated key/value cache.

The rotary embedding is the one of the reference checkpoint release: channel
pairs (0,1), (2,3), ... are read as complex numbers.  Query head ``h`` reads
key/value head ``h // n_rep``.
"""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    max_batch_size: int = 4
    max_seq_len: int = 64
    rope_theta: float = 10000.0


def precompute_freqs_cis(dim: int, end: int, theta: float) -> torch.Tensor:
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary(x: torch.Tensor, freqs_cis: torch.Tensor) -> torch.Tensor:
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    out = torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3)
    return out.type_as(x)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    bs, slen, n_kv, hd = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv, n_rep, hd)
        .reshape(bs, slen, n_kv * n_rep, hd)
    )


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads = args.n_heads
        self.n_kv = args.n_kv_heads
        self.n_rep = args.n_heads // args.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        shape = (args.max_batch_size, args.max_seq_len, self.n_kv, self.head_dim)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)
        self.register_buffer(
            "freqs_cis",
            precompute_freqs_cis(self.head_dim, args.max_seq_len, args.rope_theta),
            persistent=False,
        )

    @torch.inference_mode()
    def forward(self, x: torch.Tensor, start_pos: int = 0) -> torch.Tensor:
        bsz, seqlen, _ = x.shape
        q = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        k = self.wk(x).view(bsz, seqlen, self.n_kv, self.head_dim)
        v = self.wv(x).view(bsz, seqlen, self.n_kv, self.head_dim)

        cis = self.freqs_cis[start_pos : start_pos + seqlen]
        q, k = apply_rotary(q, cis), apply_rotary(k, cis)

        end = start_pos + seqlen
        self.cache_k[:bsz, start_pos:end] = k
        self.cache_v[:bsz, start_pos:end] = v
        keys = repeat_kv(self.cache_k[:bsz, :end], self.n_rep).transpose(1, 2)
        values = repeat_kv(self.cache_v[:bsz, :end], self.n_rep).transpose(1, 2)

        scores = q.transpose(1, 2) @ keys.transpose(2, 3) * self.head_dim ** -0.5
        if seqlen > 1:
            mask = torch.full((seqlen, end), float("-inf"), device=x.device)
            scores = scores + torch.triu(mask, diagonal=start_pos + 1)
        probs = F.softmax(scores.float(), dim=-1).type_as(q)
        out = (probs @ values).transpose(1, 2).reshape(bsz, seqlen, -1)
        return self.wo(out)
