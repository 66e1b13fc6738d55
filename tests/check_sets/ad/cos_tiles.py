import math

import torch
import torch.nn.functional as F
from torch import nn


def regions(H, W, win, shift):
    """label of the (unrolled) region of every pixel, cut to windows: (nW, win*win)"""
    ids = torch.zeros(H, W, dtype=torch.long)
    n = 0
    cuts = (slice(0, -win), slice(-win, -shift), slice(-shift, None))
    for a in cuts:
        for b in cuts:
            ids[a, b] = n
            n += 1
    return ids.view(H // win, win, W // win, win).transpose(1, 2).reshape(-1, win * win)


class CosineTiles(nn.Module):
    """(Shifted) window attention with cosine similarity and a learned temperature
    per head, bounded at 100 like in Swin v2. Channels last, H and W multiples of win."""

    def __init__(self, dim, heads, win=4, shift=0):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.qkv = nn.Linear(dim, dim * 3, bias=True)
        self.log_t = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, H, W, C = x.shape
        w, s = self.win, self.shift
        if s:
            x = x.roll((-s, -s), (1, 2))
        t = x.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5)
        t = t.reshape(B, -1, w * w, C)                           # B nW w2 C
        q, k, v = self.qkv(t).unflatten(-1, (3, self.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        sim = sim * self.log_t.clamp(max=math.log(100.0)).exp()
        if s:
            r = regions(H, W, w, s).to(x.device)
            same = r[:, None, :, None] == r[:, None, None, :]
            sim = sim.masked_fill(~same, float("-inf"))
        y = sim.softmax(-1) @ v                                  # B nW h w2 d
        y = self.proj(y.transpose(2, 3).flatten(3))
        y = y.view(B, H // w, W // w, w, w, C).transpose(2, 3).reshape(B, H, W, C)
        return y.roll((s, s), (1, 2)) if s else y
