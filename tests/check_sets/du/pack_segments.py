"""Packed training batches: block-diagonal causal attention from cu_seqlens.

Replaces padding: the sequences of a batch are concatenated, x is (total, D) and cu_seqlens
holds the borders [0, n0, n0 + n1, ..., total].  A token must see itself and the earlier tokens
of its own sequence, nothing else; running the sequences one by one gives the same.
"""
import torch
from torch import nn
import torch.nn.functional as F


def segment_of(cu_seqlens):
    """(total,) number of the sequence to which each packed token belongs."""
    total = int(cu_seqlens[-1])
    where = torch.arange(total, device=cu_seqlens.device)
    return torch.bucketize(where, cu_seqlens[1:])


class PackedSelfAttention(nn.Module):
    """x (total, D), cu_seqlens (n + 1,) int64 increasing, starts with 0 -> (total, D)."""

    def __init__(self, D, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q = nn.Linear(D, D)
        self.k = nn.Linear(D, D)
        self.v = nn.Linear(D, D)
        self.o = nn.Linear(D, D)

    def forward(self, x, cu_seqlens):
        total, D = x.shape
        q, k, v = (
            lin(x).view(total, self.heads, D // self.heads).transpose(0, 1)
            for lin in (self.q, self.k, self.v)
        )
        seg = segment_of(cu_seqlens)
        same = seg.unsqueeze(1) == seg.unsqueeze(0)
        idx = torch.arange(total, device=x.device)
        past = idx.unsqueeze(1) >= idx.unsqueeze(0)
        y = F.scaled_dot_product_attention(
            q[None], k[None], v[None], attn_mask=same & past,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.o(y[0].transpose(0, 1).reshape(total, D))
