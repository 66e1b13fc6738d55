"""The layer of SAGAN (Zhang et al. 2019) that looks at the whole picture.

As in the paper, s_ij = f(x_i)^T g(x_j) goes into the softmax as it is: SAGAN has
no temperature.  beta_ji = how far the model looks at place i when it paints place j.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import spectral_norm


class P(nn.Module):
    """x: (B, C, H, W) -> (B, C, H, W)"""

    def __init__(self, C=16, r=8):
        super().__init__()
        self.f = spectral_norm(nn.Conv2d(C, C // r, 1, bias=False))   # what a place offers
        self.g = spectral_norm(nn.Conv2d(C, C // r, 1, bias=False))   # what a place looks for
        self.h = spectral_norm(nn.Conv2d(C, C // 2, 1, bias=False))   # what it hands over
        self.o = spectral_norm(nn.Conv2d(C // 2, C, 1, bias=False))
        self.y = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        B, C, H, W = x.shape
        # keys and values from a picture half as large
        f = F.max_pool2d(self.f(x), 2).flatten(2)          # B c M
        h = F.max_pool2d(self.h(x), 2).flatten(2)          # B C/2 M
        g = self.g(x).flatten(2)                           # B c N
        b = torch.bmm(g.transpose(1, 2), f)                # B N M
        b = F.softmax(b, dim=-1)                           # each place j: sum over i is one
        o = torch.bmm(h, b.transpose(1, 2))                # B C/2 N
        o = self.o(o.view(B, C // 2, H, W))
        return x + self.y * o
