"""Inference-only Llama attention with a preallocated cache.

`start_pos` is the number of tokens already in the cache.  Prompts may be fed
in one go or in pieces; a piece sees everything cached before it and itself
causally.
"""
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: Optional[int] = 2
    vocab_size: int = 48
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_batch_size: int = 4
    max_seq_len: int = 32


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def precompute_freqs_cis(dim, end, theta):
    freqs = theta ** -(torch.arange(0, dim, 2).float() / dim)
    angles = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(angles), angles)


def apply_rotary_emb(x, freqs_cis):
    """Neighbouring channels form the complex pairs; x [B, T, H, D]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_heads, self.n_kv = args.n_heads, args.n_kv_heads or args.n_heads
        self.hd = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.n_heads * self.hd, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv * self.hd, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv * self.hd, bias=False)
        self.wo = nn.Linear(self.n_heads * self.hd, args.dim, bias=False)
        shape = (args.max_batch_size, args.max_seq_len, self.n_kv, self.hd)
        self.register_buffer("cache_k", torch.zeros(shape), persistent=False)
        self.register_buffer("cache_v", torch.zeros(shape), persistent=False)

    def forward(self, x, start_pos, freqs_cis, mask):
        b, t, _ = x.shape
        q = apply_rotary_emb(self.wq(x).view(b, t, self.n_heads, self.hd), freqs_cis)
        k = apply_rotary_emb(self.wk(x).view(b, t, self.n_kv, self.hd), freqs_cis)
        v = self.wv(x).view(b, t, self.n_kv, self.hd)
        end = start_pos + t
        self.cache_k[:b, start_pos:end] = k
        self.cache_v[:b, start_pos:end] = v
        k, v = self.cache_k[:b, :end], self.cache_v[:b, :end]

        # group the query heads instead of copying k and v
        q = q.view(b, t, self.n_kv, self.n_heads // self.n_kv, self.hd)
        s = torch.einsum("btgrd,bsgd->bgrts", q, k) * self.hd ** -0.5
        if mask is not None:
            s = s + mask
        p = F.softmax(s.float(), dim=-1).type_as(q)
        y = torch.einsum("bgrts,bsgd->btgrd", p, v)
        return self.wo(y.reshape(b, t, -1))


class Layer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.attention = Attention(args)
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)
        self.w1 = nn.Linear(args.dim, 2 * args.dim, bias=False)
        self.w2 = nn.Linear(2 * args.dim, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, 2 * args.dim, bias=False)

    def forward(self, x, start_pos, freqs_cis, mask):
        x = x + self.attention(self.attention_norm(x), start_pos, freqs_cis, mask)
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Llama(nn.Module):
    def __init__(self, args: ModelArgs = ModelArgs()):
        super().__init__()
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList(Layer(args) for _ in range(args.n_layers))
        self.norm = RMSNorm(args.dim, args.norm_eps)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        self.freqs_cis = precompute_freqs_cis(args.dim // args.n_heads, args.max_seq_len, args.rope_theta)

    @torch.inference_mode()
    def forward(self, tokens, start_pos=0):
        t = tokens.shape[1]
        x = self.tok_embeddings(tokens)
        freqs_cis = self.freqs_cis[start_pos:start_pos + t].to(x.device)
        mask = None
        if t > 1:
            mask = torch.full((t, t), float("-inf"), device=x.device).triu(1)
            mask = torch.cat([mask.new_zeros(t, start_pos), mask], dim=1)
        for layer in self.layers:
            x = layer(x, start_pos, freqs_cis, mask)
        return self.output(self.norm(x))
