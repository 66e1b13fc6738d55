"""Cross attention of the captioner, made safe for float16 autocast.

In fp16 the run died with NaN after 200 steps.  Changes: q is scaled BEFORE the product,
the scores go to float32 before mask and softmax, and a query whose image has no region at
all (the detector sometimes finds nothing) yields zeros instead of NaN.
"""
import torch
from torch import nn


class RegionCrossAttention(nn.Module):
    """words (B, L, dim) attend to regions (B, R, dim).

    region_mask: (B, R), 1/True for a real region, 0/False for an empty slot. May be all zero.
    Returns (B, L, dim) and the attention map (B, heads, L, R) in float32.
    """

    def __init__(self, dim=512, heads=8, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, dim * 2, bias=False)
        self.out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, words, regions, region_mask):
        b, l, c = words.shape
        r = regions.shape[1]
        q = self.q(words).reshape(b, l, self.heads, -1).transpose(1, 2) * self.scale
        k, v = self.kv(regions).reshape(b, r, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        logits = torch.matmul(q, k.transpose(-1, -2)).float()
        empty = ~region_mask.bool()[:, None, None, :]
        logits = logits.masked_fill(empty, torch.finfo(logits.dtype).min)
        amap = logits.softmax(dim=-1).masked_fill(empty, 0.0)
        ctx = self.drop(amap).to(v.dtype) @ v
        ctx = ctx.transpose(1, 2).reshape(b, l, c)
        return self.out(ctx), amap
