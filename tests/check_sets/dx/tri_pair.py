"""
Triangle self-attention of the pair representation (AlphaFold 2 supplement, Algorithms 13
and 14), for our RNA contact map project. I am a biochemist, so the loops are in the einsums.

z    : (B, N, N, c_z), z[b, i, j] describes the pair (i, j)
mask : (B, N, N), 1 = pair of two real residues, 0 = padding. It is not symmetric by need.

starting node:  query (i, j) attends to the keys (i, k), bias b[j, k] from z[j, k]
ending node:    query (i, j) attends to the keys (k, j), bias b[k, i] from z[k, i]
Both are gated with sigmoid(linear(z)), scaled by 1/sqrt(c), and added to z one after the
other. A pair (.., k) or (k, ..) with mask 0 is never read.
"""
import math

import torch
import torch.nn as nn


class _Edgewise(nn.Module):
    def __init__(self, c_z, c, heads):
        super().__init__()
        self.c, self.heads = c, heads
        self.norm = nn.LayerNorm(c_z)
        self.q = nn.Linear(c_z, heads * c, bias=False)
        self.k = nn.Linear(c_z, heads * c, bias=False)
        self.v = nn.Linear(c_z, heads * c, bias=False)
        self.b = nn.Linear(c_z, heads, bias=False)
        self.g = nn.Linear(c_z, heads * c)
        self.o = nn.Linear(heads * c, c_z)

    def forward(self, z, mask):
        z = self.norm(z)
        shape = z.shape[:3] + (self.heads, self.c)
        q = self.q(z).view(shape) / math.sqrt(self.c)
        k = self.k(z).view(shape)
        v = self.v(z).view(shape)
        g = torch.sigmoid(self.g(z)).view(shape)
        # r = the shared residue, s = third residue of the query, t = third residue of the key
        a = torch.einsum("brshc,brthc->brhst", q, k)
        a = a + self.b(z).permute(0, 3, 1, 2).unsqueeze(1)
        a = a + 1e9 * (mask.to(a.dtype) - 1)[:, :, None, None, :]
        a = a.softmax(-1)
        o = torch.einsum("brhst,brthc->brshc", a, v)
        return self.o((g * o).flatten(-2))


class TriangleAttention(nn.Module):
    def __init__(self, c_z=32, c=8, heads=4):
        super().__init__()
        self.starting = _Edgewise(c_z, c, heads)
        self.ending = _Edgewise(c_z, c, heads)

    def forward(self, z, mask):
        z = z + self.starting(z, mask)
        zt, mt = z.transpose(1, 2), mask.transpose(1, 2)
        return z + self.ending(zt, mt).transpose(1, 2)
