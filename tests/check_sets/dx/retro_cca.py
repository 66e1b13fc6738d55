"""Chunked cross-attention from RETRO (Borgeaud et al. 2022), eq. (4)-(5). My own version.

h : (B, T, D)         hidden states of the sequence, T = l * m  (l chunks of m tokens)
E : (B, l, k, r, D)   encoded neighbours: for every chunk its k neighbours of r tokens

Neighbours of chunk c were retrieved with the tokens of chunk c, so they may only be used from
the LAST token of chunk c on: position t >= m-1 reads E[:, (t-m+1) // m], and the first m-1
positions read nothing (their output is 0, the residual is added outside).
No positional information, no mask: neighbours are always full.
"""
import torch
from torch import nn
import torch.nn.functional as F


class CCA(nn.Module):
    def __init__(self, D, heads, m):
        super().__init__()
        self.m, self.heads = m, heads
        self.q = nn.Linear(D, D, bias=False)
        self.kv = nn.Linear(D, 2 * D, bias=False)
        self.o = nn.Linear(D, D, bias=False)

    def forward(self, h, E):
        B, T, D = h.shape
        _, l, k, r, _ = E.shape
        m, n = self.m, self.heads
        assert T == l * m
        att = F.pad(h[:, m - 1:], (0, 0, 0, m - 1))             # B T D, starts at token m-1
        q = self.q(att).view(B * l, m, n, D // n)
        kk, v = self.kv(E.reshape(B * l, k * r, D)).view(B * l, k * r, 2, n, D // n).unbind(2)
        s = torch.einsum("xmnd,xjnd->xnmj", q, kk) * (D // n) ** -0.5
        # one softmax over all k*r neighbour tokens
        y = torch.einsum("xnmj,xjnd->xmnd", s.softmax(-1), v)
        y = self.o(y.reshape(B, T, D))
        return F.pad(y, (0, 0, m - 1, 0))[:, :T]
