"""Qx7: self-attention with persistent memory (Sukhbaatar et al. 2019).

Every head owns M learned (key, value) pairs beside the pairs made of the input.
The i-th memory key belongs to the i-th memory value; they do not depend on the
input, act like a feed-forward layer and are visible to all positions. The input
itself is attended causally. Field use: parts catalogue of an aircraft MRO shop.
"""
import math

import torch
import torch.nn as nn


class Qx7(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, mem: int = 6):
        super().__init__()
        self.heads, self.hd, self.mem = heads, dim // heads, mem
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.mem_k = nn.Parameter(torch.randn(heads, mem, self.hd))
        self.mem_v = nn.Parameter(torch.randn(heads, mem, self.hd))

    def _h(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.heads, self.hd).transpose(1, 2)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """z: (B, N, dim) -> (B, N, dim)"""
        b, n, dim = z.shape
        q, k, v = self._h(self.wq(z)), self._h(self.wk(z)), self._h(self.wv(z))

        k = torch.cat([self.mem_k.expand(b, -1, -1, -1), k], dim=2)
        v = torch.cat([v, self.mem_v.expand(b, -1, -1, -1)], dim=2)

        s = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        causal = torch.ones(n, n, dtype=torch.bool, device=z.device).tril()
        open_ = torch.cat([causal.new_ones(n, self.mem), causal], dim=1)
        p = s.masked_fill(~open_, -math.inf).softmax(dim=-1)

        return self.wo((p @ v).transpose(1, 2).reshape(b, n, dim))
