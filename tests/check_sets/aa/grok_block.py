"""Decoder block with capped attention logits and a gated MLP.

The cap keeps bf16 training stable: logits are squashed smoothly into
(-cap, cap) with cap * tanh(logits / cap) before the mask goes on.
"""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class BlockArgs:
    dim: int = 32
    n_heads: int = 4
    mlp_mult: int = 2
    attn_softcap: float = 2.0     # 0 turns it off
    query_gain: float = 3.0       # learned gain on the normalised queries, initial value
    norm_eps: float = 1e-6
    tags: tuple = field(default_factory=tuple)


class RMSNorm(nn.Module):
    def __init__(self, dim, eps, gain=1.0):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.full((dim,), gain))

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


class CappedAttention(nn.Module):
    """Causal attention, q/k normalised per head, logits soft-capped."""

    def __init__(self, args: BlockArgs = BlockArgs()):
        super().__init__()
        self.n_heads = args.n_heads
        self.head_dim = args.dim // args.n_heads
        self.softcap = args.attn_softcap
        self.wqkv = nn.Linear(args.dim, 3 * args.dim, bias=False)
        self.wo = nn.Linear(args.dim, args.dim, bias=False)
        self.q_norm = RMSNorm(self.head_dim, args.norm_eps, args.query_gain)
        self.k_norm = RMSNorm(self.head_dim, args.norm_eps)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.wqkv(x).view(b, t, 3, self.n_heads, self.head_dim).unbind(2)
        q = self.q_norm(q).transpose(1, 2)
        k = self.k_norm(k).transpose(1, 2)
        v = v.transpose(1, 2)

        logits = (q @ k.transpose(-2, -1)) * self.head_dim ** -0.5
        causal = torch.tril(torch.ones(t, t, dtype=torch.bool, device=x.device))
        logits = logits.masked_fill(~causal, torch.finfo(logits.dtype).min)
        w = F.softmax(logits.float(), dim=-1).type_as(v)
        return self.wo((w @ v).transpose(1, 2).reshape(b, t, -1))


class DecoderBlock(nn.Module):
    def __init__(self, args: BlockArgs = BlockArgs()):
        super().__init__()
        self.attn = CappedAttention(args)
        self.pre_attn = RMSNorm(args.dim, args.norm_eps)
        self.post_attn = RMSNorm(args.dim, args.norm_eps)
        self.pre_mlp = RMSNorm(args.dim, args.norm_eps)
        inner = args.dim * args.mlp_mult
        self.gate = nn.Linear(args.dim, inner, bias=False)
        self.up = nn.Linear(args.dim, inner, bias=False)
        self.down = nn.Linear(inner, args.dim, bias=False)

    def forward(self, x):
        x = x + self.post_attn(self.attn(self.pre_attn(x)))
        h = self.pre_mlp(x)
        return x + self.down(F.gelu(self.gate(h)) * self.up(h))
