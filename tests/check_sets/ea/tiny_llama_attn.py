"""Attention of a LLaMA re-implementation (inference), with GQA, rotary embedding and KV cache.

Rotary: adjacent pairs (x[2i], x[2i+1]) are one complex number, multiplied by
exp(1j * pos * theta ** (-2i / head_dim)), as in Meta's code.
GQA: n_heads query heads, n_kv_heads key/value heads; query head h reads kv head
h // (n_heads // n_kv_heads).

forward(x, start_pos): x (bsz, seqlen, dim) are the tokens at positions start_pos ...
start_pos + seqlen - 1.  Positions < start_pos were fed in earlier calls and are read from the
cache.  A token sees itself and everything before it.  Returns (bsz, seqlen, dim).
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def precompute_freqs_cis(dim, end, theta=10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    t = torch.arange(end, dtype=torch.float32)
    freqs = torch.outer(t, freqs)
    return torch.polar(torch.ones_like(freqs), freqs)


def apply_rotary_emb(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, dim, n_heads, n_kv_heads, max_batch=4, max_seq=256):
        super().__init__()
        self.n_heads, self.n_kv_heads, self.hd = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(n_heads * self.hd, dim, bias=False)
        cache = torch.zeros(max_batch, max_seq, n_kv_heads, self.hd)
        self.register_buffer("cache_k", cache.clone(), persistent=False)
        self.register_buffer("cache_v", cache.clone(), persistent=False)
        self.register_buffer("freqs_cis", precompute_freqs_cis(self.hd, max_seq), persistent=False)

    @torch.inference_mode()
    def forward(self, x, start_pos):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.hd)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.hd)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.hd)
        freqs = self.freqs_cis[start_pos:start_pos + seqlen]
        xq, xk = apply_rotary_emb(xq, freqs), apply_rotary_emb(xk, freqs)

        self.cache_k[:bsz, start_pos:start_pos + seqlen] = xk
        self.cache_v[:bsz, start_pos:start_pos + seqlen] = xv
        n_rep = self.n_heads // self.n_kv_heads
        keys = self.cache_k[:bsz, :start_pos + seqlen].repeat_interleave(n_rep, dim=2)
        values = self.cache_v[:bsz, :start_pos + seqlen].repeat_interleave(n_rep, dim=2)

        xq, keys, values = (t.transpose(1, 2) for t in (xq, keys, values))
        scores = torch.matmul(xq, keys.transpose(2, 3)) / math.sqrt(self.hd)
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu(1)
            mask = torch.hstack([torch.zeros(seqlen, start_pos, device=x.device), mask])
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        out = torch.matmul(scores, values)
        return self.wo(out.transpose(1, 2).contiguous().view(bsz, seqlen, -1))
