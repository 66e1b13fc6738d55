"""ProbSparse self-attention of Informer (Zhou et al., AAAI 2021), exact variant without sampling."""
import math

import torch
from torch import nn


class ProbSparse(nn.Module):
    """Only the most active queries attend, the lazy ones return the mean of the values.

    q, k, v (B, L, H, d) -> (B, L, H, d)

    Sparsity measure of a query: M_i = max_j s_ij - mean_j s_ij with
    s = q k^T / sqrt(d) over all L keys (the paper samples keys; we can afford all).
    The u = min(L, factor * ceil(ln L)) queries with the largest M, per sample and
    head, get softmax(s_i) V.  Every other query gets mean_j V_j.
    No mask: this is the encoder.
    """

    def __init__(self, factor=5):
        super().__init__()
        self.factor = factor

    def forward(self, q, k, v):
        B, L, H, d = q.shape
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        s = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d)
        u = min(L, self.factor * math.ceil(math.log(L)))

        M = s.max(dim=-1).values - s.mean(dim=-1)                     # B, H, L
        top = M.topk(u, dim=-1, sorted=False, largest=False).indices  # B, H, u

        context = v.mean(dim=2, keepdim=True).repeat(1, 1, L, 1)
        rows = top.unsqueeze(-1)
        active = torch.gather(s, 2, rows.expand(-1, -1, -1, L))
        new = torch.softmax(active, dim=-1) @ v
        context = context.scatter(2, rows.expand(-1, -1, -1, d), new)
        return context.transpose(1, 2).contiguous()


class EncoderLayer(nn.Module):
    """x (B, L, D) -> (B, L, D), post-norm, GELU."""

    def __init__(self, D, H, ff, factor=5):
        super().__init__()
        self.H = H
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))
        self.inner = ProbSparse(factor)
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.ff = nn.Sequential(nn.Linear(D, ff), nn.GELU(), nn.Linear(ff, D))

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.H, -1) for f in (self.q, self.k, self.v))
        x = self.n1(x + self.o(self.inner(q, k, v).view(B, L, D)))
        return self.n2(x + self.ff(x))
