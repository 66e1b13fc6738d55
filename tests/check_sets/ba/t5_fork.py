"""Slim inference fork of the T5 encoder self-attention.

Relative buckets; T5 does not scale by sqrt(d).
"""
import math
import torch
from torch import nn


def relative_bucket(rel, num_buckets=32, max_distance=128):
    """Bidirectional T5 buckets. rel = key position - query position."""
    n = num_buckets // 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    exact = n // 2
    far = exact + (torch.log(rel.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (n - exact)).long()
    return out + torch.where(rel < exact, rel, far.clamp(max=n - 1))


class T5SelfAttention(nn.Module):
    """hidden [B,L,C], extended_mask [B,1,1,L] or [B,H,L,L]: 0 where visible, large negative elsewhere.

    The stack makes extended_mask once and hands the same tensor to every layer and step.
    Every layer of this fork has its own relative table (has_table=True).
    """

    def __init__(self, d_model, n_heads, d_kv, has_table=True, num_buckets=32):
        super().__init__()
        self.n_heads, self.d_kv, self.num_buckets = n_heads, d_kv, num_buckets
        inner = n_heads * d_kv
        self.q = nn.Linear(d_model, inner, bias=False)
        self.k = nn.Linear(d_model, inner, bias=False)
        self.v = nn.Linear(d_model, inner, bias=False)
        self.o = nn.Linear(inner, d_model, bias=False)
        self.table = nn.Embedding(num_buckets, n_heads) if has_table else None

    def compute_bias(self, L, device):
        p = torch.arange(L, device=device)
        b = self.table(relative_bucket(p[None, :] - p[:, None], self.num_buckets))
        return b.permute(2, 0, 1).unsqueeze(0)

    @torch.no_grad()
    def forward(self, hidden, extended_mask):
        B, L, _ = hidden.shape
        split = lambda t: t.view(B, L, self.n_heads, self.d_kv).transpose(1, 2)
        q, k, v = split(self.q(hidden)), split(self.k(hidden)), split(self.v(hidden))
        bias = extended_mask
        if bias.shape[-2] == 1:
            bias = bias.repeat(1, self.n_heads, L, 1)
        if self.table is not None:
            bias += self.compute_bias(L, hidden.device)
        scores = torch.matmul(q, k.transpose(3, 2)) + bias
        w = nn.functional.softmax(scores.float(), dim=-1).type_as(scores)
        return self.o(torch.matmul(w, v).transpose(1, 2).reshape(B, L, -1))


def make_mask(keep, n_heads):
    """keep [B,L] 1/0 -> [B,H,L,L] float, made once per batch."""
    B, L = keep.shape
    m = (1.0 - keep.float())[:, None, None, :] * torch.finfo(torch.float32).min / 4
    return m.expand(B, n_heads, L, L).contiguous()


class T5FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.wi, self.wo = nn.Linear(d_model, d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.wo(torch.relu(self.wi(x)))
