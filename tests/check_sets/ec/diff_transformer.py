"""Differential attention (two softmax maps, the second one subtracted).

    A   = softmax(Q1 K1^T / sqrt(d)) - lam * softmax(Q2 K2^T / sqrt(d))
    lam = exp(lq1 . lk1) - exp(lq2 . lk2) + lam_init
    head = (1 - lam_init) * RMSNorm(A V)            V has 2d channels

Causal.  With `heads` differential heads the model width D equals heads * 2d; the
projections give 2*heads maps of d channels, neighbours (2h, 2h+1) forming a pair.
Rows of A sum to 1 - lam, not to 1: the subtraction is the point of the method.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def lambda_init(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffAttention(nn.Module):
    def __init__(self, D: int, heads: int, depth: int):
        super().__init__()
        self.heads, self.d = heads, D // heads // 2
        self.li = lambda_init(depth)
        self.q_proj = nn.Linear(D, D, bias=False)
        self.k_proj = nn.Linear(D, D, bias=False)
        self.v_proj = nn.Linear(D, D, bias=False)
        self.o_proj = nn.Linear(D, D, bias=False)
        self.lq1 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.lk1 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.lq2 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.lk2 = nn.Parameter(torch.randn(self.d) * 0.1)
        self.subln = nn.RMSNorm(2 * self.d, eps=1e-5, elementwise_affine=True)

    def forward(self, x):
        """x (B, N, D) -> (B, N, D)"""
        B, N, D = x.shape
        h, d = self.heads, self.d
        q = self.q_proj(x).view(B, N, 2 * h, d).transpose(1, 2) * d ** -0.5
        k = self.k_proj(x).view(B, N, 2 * h, d).transpose(1, 2)
        v = self.v_proj(x).view(B, N, h, 2 * d).transpose(1, 2)

        s = q @ k.transpose(-1, -2)
        s = s + torch.triu(torch.full((N, N), float("-inf"), device=x.device), 1)
        a = F.softmax(s, dim=-1, dtype=torch.float32).type_as(s)
        a = a.view(B, h, 2, N, N)

        lam = (torch.exp(torch.dot(self.lq1, self.lk1))
               - torch.exp(torch.dot(self.lq2, self.lk2)) + self.li)
        a = a[:, :, 0] - lam * a[:, :, 1]
        o = self.subln(a @ v) * (1 - self.li)
        return self.o_proj(o.transpose(1, 2).reshape(B, N, D))
