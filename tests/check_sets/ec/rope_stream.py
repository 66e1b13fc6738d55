"""Streaming decoder attention: rotary positions, kv cache, dropout for training.

A call with x of T tokens after P cached ones must give the same output as the last T
rows of one call with all P + T tokens.  The cache stores rotated keys, token p rotated
by position p.  In eval mode the module is deterministic.

x (B, T, D); cache is None or a pair (k, v), each (B, H, P, d).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim, max_len=4096, base=10000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, dim, 2).float() / dim)
        ang = torch.outer(torch.arange(max_len).float(), inv)
        ang = torch.cat((ang, ang), dim=-1)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)

    def forward(self, x, start=0):
        """x (B, H, T, dim) holding positions start .. start + T - 1; half-split."""
        T = x.shape[-2]
        a, b = x.chunk(2, dim=-1)
        turned = torch.cat((-b, a), dim=-1)
        return x * self.cos[start:start + T] + turned * self.sin[start:start + T]


class StreamingAttention(nn.Module):
    def __init__(self, D, heads, dropout=0.1, max_len=4096):
        super().__init__()
        self.heads, self.hd = heads, D // heads
        self.dropout = dropout
        self.wqkv = nn.Linear(D, 3 * D, bias=False)
        self.wo = nn.Linear(D, D, bias=False)
        self.rotary = Rotary(self.hd, max_len)

    def forward(self, x, cache=None):
        B, T, D = x.shape
        qkv = self.wqkv(x).view(B, T, 3, self.heads, self.hd)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q = self.rotary(q)
        k = self.rotary(k)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)

        L = k.shape[2]
        keep = torch.ones(T, L, dtype=torch.bool, device=x.device).tril(L - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep,
                                           dropout_p=self.dropout)
        y = y.transpose(1, 2).contiguous().view(B, T, D)
        return self.wo(y), (k, v)
