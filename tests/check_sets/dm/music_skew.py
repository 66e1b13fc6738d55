"""Relative attention of the Music Transformer (Huang et al. 2018), the part that cost me a week.

Event tokens of a piano roll, strictly left to right.  For head size d

    score[i, j] = ( q_i . k_j + q_i . E[j - i] ) / sqrt(d)      for j <= i
    weights     = softmax over j <= i

E has one row for each distance; row M-1 belongs to distance 0, row M-1-r to "r events ago"
(M = longest piece), and is shared by all heads.  The "skew" trick
brings q E^T from (i, distance) to (i, j) without a big gather.

    x (B, T, D) with T <= M  ->  (B, T, D)
"""
import torch
from torch import nn
from torch.nn import functional as F


class RelGlobalAttention(nn.Module):
    def __init__(self, D, nheads, M):
        super().__init__()
        self.nh, self.d, self.M = nheads, D // nheads, M
        self.Q, self.K, self.V = (nn.Linear(D, D) for _ in range(3))
        self.O = nn.Linear(D, D)
        self.E = nn.Parameter(torch.randn(M, self.d))

    @staticmethod
    def skew(qe):
        """(B, h, T, T) with column T-1-r = distance r  ->  column j = key j (junk for j > i)."""
        B, h, T, _ = qe.shape
        padded = F.pad(qe, (1, 0))                   # T x (T+1)
        return padded.reshape(B, h, T + 1, T)[:, :, 1:]

    def forward(self, x):
        B, T, D = x.shape
        q = self.Q(x).reshape(B, T, self.nh, self.d).transpose(1, 2)
        k = self.K(x).reshape(B, T, self.nh, self.d).transpose(1, 2)
        v = self.V(x).reshape(B, T, self.nh, self.d).transpose(1, 2)

        e = self.E[self.M - T:]
        srel = self.skew(torch.einsum("bhtd,rd->bhtr", q, e))
        logits = (torch.einsum("bhid,bhjd->bhij", q, k) + srel) / self.d**0.5

        seen = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        logits = torch.where(seen, logits, float("-inf"))
        out = torch.einsum("bhij,bhjd->bihd", F.softmax(logits, -1), v)
        return self.O(out.reshape(B, T, D))
