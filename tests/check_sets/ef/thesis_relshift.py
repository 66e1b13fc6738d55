"""Chapter 4 of my thesis: relative position self-attention for the
speech encoder (bidirectional, Dai et al. 2019 terms).

score(i, j) = [ (q_i + u) . k_j + (q_i + v) . (W_r r_{i-j}) ] / sqrt(d_head)

with r_m the sinusoidal code of the distance m = i - j, for all
m = T-1, T-2, ..., -(T-1). Weights are a softmax over j.

Input  x        (T, B, C)   time first, as everywhere in the thesis code
       lengths  (B,) long   number of valid frames per utterance, >= 1;
                            later frames are never used as keys
Output          (T, B, C)
"""
import math

import torch
import torch.nn as nn


def distance_codes(T, C):
    """(2T-1, C); row 0 belongs to distance T-1, the last row to -(T-1)."""
    m = torch.arange(T - 1, -T, -1.0).unsqueeze(1)
    freq = torch.exp(torch.arange(0, C, 2).float() * (-math.log(10000.0) / C))
    return torch.cat([torch.sin(m * freq), torch.cos(m * freq)], dim=1)


class RelSelfAttention(nn.Module):
    def __init__(self, C=16, heads=2):
        super().__init__()
        self.h, self.d = heads, C // heads
        self.wq = nn.Linear(C, C, bias=False)
        self.wk = nn.Linear(C, C, bias=False)
        self.wv = nn.Linear(C, C, bias=False)
        self.wr = nn.Linear(C, C, bias=False)
        self.wo = nn.Linear(C, C)
        self.u = nn.Parameter(0.1 * torch.randn(heads, self.d))
        self.v = nn.Parameter(0.1 * torch.randn(heads, self.d))

    @staticmethod
    def shift(s):
        # (..., T, 2T-1): row i has to start T-1-i columns further right
        *front, T, M = s.shape
        s = torch.cat([s.new_zeros(*front, T, 1), s], dim=-1)
        s = s.reshape(*front, M + 1, T)[..., 1:, :].reshape(*front, T, M)
        return s[..., :T]

    def forward(self, x, lengths=None):
        T, B, C = x.shape
        q = self.wq(x).view(T, B, self.h, self.d)
        k = self.wk(x).view(T, B, self.h, self.d)
        v = self.wv(x).view(T, B, self.h, self.d)
        r = self.wr(distance_codes(T, C).to(x)).view(-1, self.h, self.d)
        content = torch.einsum('ibhd,jbhd->bhij', q + self.u, k)
        position = torch.einsum('ibhd,mhd->bhim', q + self.v, r)
        score = (content + self.shift(position)) / math.sqrt(self.d)
        if lengths is not None:
            late = torch.arange(T, device=x.device)[None] >= lengths[:, None]
            score = score.masked_fill(late[:, None, None, :], float('-inf'))
        w = torch.softmax(score, dim=-1)
        return self.wo(torch.einsum('bhij,jbhd->ibhd', w, v).reshape(T, B, C))
