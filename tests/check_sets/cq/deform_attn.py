"""Single-scale deformable attention in pure PyTorch (Deformable DETR, Zhu et al. 2021)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class DeformAttn(nn.Module):
    """
    Every query looks at `n_points` sampling locations per head around its reference point.
    The weights of the points are predicted from the query (there are no keys) and sum to one over
    the points of a head.

    query:      (B, Lq, C)
    ref_points: (B, Lq, 2) normalised (x, y) in [0, 1], (0, 0) is the top-left image corner
    feature:    (B, C, H, W)
    pad_mask:   (B, H, W) bool, True on padded pixels, whose value is taken as zero
    """

    def __init__(self, d_model=32, n_heads=4, n_points=4):
        super().__init__()
        self.d_model, self.n_heads, self.n_points = d_model, n_heads, n_points
        self.sampling_offsets = nn.Linear(d_model, n_heads * n_points * 2)
        self.attention_weights = nn.Linear(d_model, n_heads * n_points)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self._reset_parameters()

    def _reset_parameters(self):
        theta = torch.arange(self.n_heads, dtype=torch.float32) * (2 * math.pi / self.n_heads)
        grid = torch.stack([theta.cos(), theta.sin()], -1)
        grid = grid / grid.abs().max(-1, keepdim=True)[0]
        grid = grid.view(self.n_heads, 1, 2).repeat(1, self.n_points, 1)
        grid = grid * torch.arange(1, self.n_points + 1).view(1, -1, 1)
        nn.init.normal_(self.sampling_offsets.weight, std=0.01)
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(grid.reshape(-1))

    def forward(self, query, ref_points, feature, pad_mask=None):
        B, Lq, C = query.shape
        H, W = feature.shape[-2:]
        M, P = self.n_heads, self.n_points

        value = self.value_proj(feature.flatten(2).transpose(1, 2))  # (B, H*W, C)
        if pad_mask is not None:
            value = value.masked_fill(pad_mask.flatten(1)[..., None], 0.0)
        value = value.view(B, H, W, M, C // M).permute(0, 3, 4, 1, 2).flatten(0, 1)

        offsets = self.sampling_offsets(query).view(B, Lq, M, P, 2)
        size = torch.tensor([W, H], dtype=query.dtype, device=query.device)
        loc = ref_points[:, :, None, None, :] + offsets / size  # in [0, 1]
        grid = (2 * loc - 1).transpose(1, 2).flatten(0, 1)  # (B*M, Lq, P, 2)
        sampled = F.grid_sample(value, grid, mode="bilinear", padding_mode="zeros",
                                align_corners=False)  # (B*M, d, Lq, P)

        weights = self.attention_weights(query).view(B, Lq, M, P).softmax(-1)
        weights = weights.transpose(1, 2).reshape(B * M, 1, Lq, P)
        out = (sampled * weights).sum(-1)  # (B*M, d, Lq)
        out = out.view(B, C, Lq).transpose(1, 2)
        return self.output_proj(out)
