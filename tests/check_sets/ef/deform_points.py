"""Deformable attention on one feature map (lightweight, no CUDA kernel).

For each query and head, P sampling points around the reference point are
predicted together with a weight for each point. In every head the weights of
its P points are positive and sum to one, as in Zhu et al. (2021):

    out = W_o  concat_h  sum_p A[h, p] * (W_v fmap)_h(ref + offset[h, p])

    query (B, Lq, C)
    ref   (B, Lq, 2)     (x, y) in [0, 1]
    fmap  (B, C, H, W)
    ->    (B, Lq, C)
"""
import torch
import torch.nn.functional as F
from torch import nn


class DeformPoints(nn.Module):
    def __init__(self, C=32, n_heads=4, n_points=3):
        super().__init__()
        self.n_heads, self.n_points = n_heads, n_points
        self.sampling_offsets = nn.Linear(C, n_heads * n_points * 2)
        self.attention_weights = nn.Linear(C, n_heads * n_points)
        self.value_proj = nn.Conv2d(C, C, 1)
        self.output_proj = nn.Linear(C, C)

    def forward(self, query, ref, fmap):
        B, Lq, C = query.shape
        H, W = fmap.shape[-2:]
        h, P = self.n_heads, self.n_points
        value = self.value_proj(fmap).view(B * h, C // h, H, W)

        offsets = self.sampling_offsets(query).view(B, Lq, h, P, 2)
        size = torch.tensor([W, H], dtype=query.dtype, device=query.device)
        where = ref[:, :, None, None, :] + offsets / size        # B Lq h P 2
        grid = (2 * where - 1).transpose(1, 2).reshape(B * h, Lq, P, 2)
        sampled = F.grid_sample(value, grid, mode="bilinear",
                                padding_mode="zeros", align_corners=False)

        weight = self.attention_weights(query)
        weight = F.softmax(weight, -1).view(B, Lq, h, P)
        weight = weight.transpose(1, 2).reshape(B * h, 1, Lq, P)
        out = (sampled * weight).sum(-1).view(B, C, Lq)
        return self.output_proj(out.transpose(1, 2))
