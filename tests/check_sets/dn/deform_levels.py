"""Multi-scale deformable attention, pure PyTorch (after Deformable DETR).

MSDeformAttn(dim, levels, heads, points)
    query    (B, Lq, dim)
    ref      (B, Lq, levels, 2) reference points (x, y) in [0, 1]
    value    (B, sum of H_l * W_l, dim), the levels one after the other,
             each row by row
    shapes   list of (H_l, W_l)
    pad      optional (B, sum of H_l * W_l) bool, True = padding, counts as 0
    ->       (B, Lq, dim)
Each head samples `points` places in each level, ref + offset / (W_l, H_l), and
takes their weighted sum.  The attention weights of one head sum to one over its
levels * points samples.  Samples outside a map are zero, align_corners=False.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def ms_deform_core(value, shapes, loc, weights):
    """value (B, S, h, d), loc (B, Lq, h, n_lev, n_pt, 2), weights (B, Lq, h, n_lev, n_pt)"""
    B, _, h, d = value.shape
    Lq, n_lev, n_pt = loc.size(1), loc.size(3), loc.size(4)
    maps = value.split([H * W for H, W in shapes], dim=1)
    grids = 2 * loc - 1
    sampled = []
    for lev, (H, W) in enumerate(shapes):
        fmap = maps[lev].permute(0, 2, 3, 1).reshape(B * h, d, H, W)
        grid = grids[:, :, :, lev].transpose(1, 2).flatten(0, 1)          # (B*h, Lq, n_pt, 2)
        sampled.append(F.grid_sample(fmap, grid, mode="bilinear",
                                     padding_mode="zeros", align_corners=False))
    sampled = torch.stack(sampled, dim=-2).flatten(-2)                    # (B*h, d, Lq, n_lev*n_pt)
    w = weights.transpose(1, 2).reshape(B * h, 1, Lq, n_lev * n_pt)
    return (sampled * w).sum(-1).view(B, h * d, Lq).transpose(1, 2)


class MSDeformAttn(nn.Module):
    def __init__(self, dim=64, levels=3, heads=4, points=2):
        super().__init__()
        self.levels, self.heads, self.points = levels, heads, points
        self.offsets = nn.Linear(dim, heads * levels * points * 2)
        self.weights = nn.Linear(dim, heads * levels * points)
        self.value_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)
        self._reset()

    def _reset(self):
        nn.init.zeros_(self.offsets.weight)
        angle = torch.arange(self.heads) * (2 * math.pi / self.heads)
        grid = torch.stack([angle.cos(), angle.sin()], -1)
        grid = grid / grid.abs().amax(-1, keepdim=True)
        grid = grid.view(self.heads, 1, 1, 2).repeat(1, self.levels, self.points, 1)
        grid = grid * torch.arange(1, self.points + 1).view(1, 1, -1, 1)
        with torch.no_grad():
            self.offsets.bias.copy_(grid.flatten())

    def forward(self, query, ref, value, shapes, pad=None):
        B, Lq, C = query.shape
        h, n_lev, n_pt = self.heads, self.levels, self.points
        value = self.value_proj(value)
        if pad is not None:
            value = value.masked_fill(pad.unsqueeze(-1), 0.0)
        value = value.view(B, -1, h, C // h)

        off = self.offsets(query).view(B, Lq, h, n_lev, n_pt, 2)
        size = torch.tensor([[W, H] for H, W in shapes], dtype=off.dtype, device=off.device)
        loc = ref[:, :, None, :, None, :] + off / size[None, None, None, :, None, :]

        weights = self.weights(query).softmax(-1)
        weights = weights.view(B, Lq, h, n_lev, n_pt)
        return self.out_proj(ms_deform_core(value, shapes, loc, weights))
