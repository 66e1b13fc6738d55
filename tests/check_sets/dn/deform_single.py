"""Deformable reading of one feature map.

Each head of each query looks at a few points around the query's reference
point only.  No keys: offsets and weights are predicted from the query.

DeformRead(dim, heads, points)
    query   (B, Lq, dim)
    ref     (B, Lq, 2), (x, y) in [0, 1] of the whole map; (0, 0) is the upper
            left corner of the upper left pixel (align_corners=False)
    feat    (B, dim, H, W)
    pad     optional (B, H, W) bool, True = padding pixel, its value counts as 0
    ->      (B, Lq, dim)
Offsets are measured in pixels: location = ref + (dx / W, dy / H).
The weights of one head sum to one over its points.  Points outside the map
read zeros.
"""
import torch
import torch.nn.functional as F
from torch import nn


class DeformRead(nn.Module):
    def __init__(self, dim, heads=4, points=4):
        super().__init__()
        self.h, self.p, self.d = heads, points, dim // heads
        self.offsets = nn.Linear(dim, heads * points * 2)
        self.weights = nn.Linear(dim, heads * points)
        self.value = nn.Conv2d(dim, dim, 1)
        self.out = nn.Linear(dim, dim)

    def forward(self, query, ref, feat, pad=None):
        B, L, _ = query.shape
        H, W = feat.shape[-2:]

        val = self.value(feat)
        if pad is not None:
            val = val.masked_fill(pad.unsqueeze(1), 0.0)
        val = val.reshape(B * self.h, self.d, H, W)

        off = self.offsets(query).view(B, L, self.h, self.p, 2)
        loc = ref[:, :, None, None, :] + off / off.new_tensor([W, H])
        grid = (2.0 * loc - 1.0).permute(0, 2, 1, 3, 4).reshape(B * self.h, L, self.p, 2)

        sampled = F.grid_sample(val, grid, mode="bilinear",
                                padding_mode="zeros", align_corners=False)   # (B*h, d, L, p)
        w = self.weights(query).view(B, L, self.h, self.p).softmax(dim=-1)
        w = w.transpose(1, 2).reshape(B * self.h, 1, L, self.p)

        y = (sampled * w).sum(-1)                                            # (B*h, d, L)
        y = y.view(B, self.h * self.d, L).transpose(1, 2)
        return self.out(y)
