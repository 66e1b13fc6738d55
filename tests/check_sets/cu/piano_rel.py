"""Relative self-attention as in Music Transformer (Huang et al.), causal, one block.

    logits[i, j] = (q_i . k_j + q_i . E[j - i]) / sqrt(d)      for j <= i

E holds one vector per distance 0, -1, ..., -(L-1) and is learned for each head.
Memory-efficient version: Q E^T is computed once, no [L, L, d] tensor.
"""
import torch
from torch import nn


class PianoRel(nn.Module):
    def __init__(self, dim=32, heads=4, max_len=64):
        super().__init__()
        self.h, self.max_len = heads, max_len
        d = dim // heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        # row r <-> distance r - (max_len - 1); the last row is distance 0
        self.E = nn.Parameter(torch.randn(heads, max_len, d) * d ** -0.5)

    def rel_logits(self, q):
        """[B, h, L, d] -> [B, h, L, L], entry (i, j) for distance j - i"""
        L = q.size(2)
        e = self.E[:, self.max_len - L:]
        return torch.einsum("bhid,hrd->bhir", q, e)

    def forward(self, x):
        """x [B, L, dim], L <= max_len"""
        B, L, D = x.shape
        cut = lambda t: t.view(B, L, self.h, D // self.h).transpose(1, 2)
        q, k, v = cut(self.q(x)), cut(self.k(x)), cut(self.v(x))
        s = (q @ k.transpose(-1, -2) + self.rel_logits(q)) / (D // self.h) ** 0.5
        later = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), 1)
        s = s.masked_fill(later, float("-inf"))
        y = torch.softmax(s, -1) @ v
        return self.o(y.transpose(1, 2).reshape(B, L, D))
