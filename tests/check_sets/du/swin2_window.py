"""Swin Transformer V2: scaled cosine attention inside one window (eq. 2 of the paper).

    Sim(q_i, k_j) = cos(q_i, k_j) / tau + B_ij

tau is learned per head, not shared, and kept larger than 0.01 (so 1 / tau <= 100).
For the repro B is a free table indexed by the relative offset instead of the small MLP.
"""
import math

import torch
from torch import nn
import torch.nn.functional as F


class CosineWindowAttention(nn.Module):
    """x: (num_windows * B, M * M, C).

    mask: (num_windows, M * M, M * M) as the released code builds it: 0 where two pixels belong
    to the same region, -100 where the cyclic shift brought strangers together; or None.
    Strangers get exactly no weight here.
    Windows of one image are contiguous in dimension 0.
    """

    def __init__(self, dim, M, heads):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * M - 1) ** 2, heads))
        yx = torch.stack(torch.meshgrid(torch.arange(M), torch.arange(M), indexing="ij")).flatten(1)
        off = yx[:, :, None] - yx[:, None, :] + M - 1
        self.register_buffer("index", off[0] * (2 * M - 1) + off[1])

    def forward(self, x, mask=None):
        W, n, C = x.shape
        q, k, v = self.qkv(x).reshape(W, n, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        inv_tau = self.logit_scale.clamp(max=math.log(1.0 / 0.01)).exp()
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * inv_tau
        sim = sim + self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        if mask is not None:
            nw = mask.shape[0]
            # logits can reach 100, so -100 is not safe to add; take only its sign
            stranger = (mask < 0)[None, :, None]
            sim = sim.view(W // nw, nw, self.heads, n, n).masked_fill(stranger, -math.inf)
            sim = sim.view(W, self.heads, n, n)
        p = sim.softmax(dim=-1)
        return self.proj((p @ v).transpose(1, 2).reshape(W, n, C))
