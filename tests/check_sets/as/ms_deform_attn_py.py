"""Multi-scale deformable attention (Zhu et al., 2021), the path without the CUDA op."""
import math
from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import nn


def ms_deform_attn_core_pytorch(value, spatial_shapes: List[Tuple[int, int]], sampling_locations, attention_weights):
    """
    value [N, sum(H*W), M, D]; sampling_locations [N, Lq, M, L, P, 2], (x, y) in [0, 1];
    attention_weights [N, Lq, M, L, P]
    """
    N, _, M, D = value.shape
    _, Lq, _, L, P, _ = sampling_locations.shape
    per_level = value.split([h * w for h, w in spatial_shapes], dim=1)
    grids = 2 * sampling_locations - 1
    sampled = []
    for lid, (h, w) in enumerate(spatial_shapes):
        v = per_level[lid].flatten(2).transpose(1, 2).reshape(N * M, D, h, w)
        g = grids[:, :, :, lid].transpose(1, 2).flatten(0, 1)
        sampled.append(F.grid_sample(v, g, mode="bilinear", padding_mode="zeros", align_corners=False))
    a = attention_weights.transpose(1, 2).reshape(N * M, 1, Lq, L * P)
    out = (torch.stack(sampled, dim=-2).flatten(-2) * a).sum(-1).view(N, M * D, Lq)
    return out.transpose(1, 2).contiguous()


class MSDeformAttn(nn.Module):
    def __init__(self, d_model=64, n_levels=2, n_heads=4, n_points=4):
        super().__init__()
        self.d_model, self.n_levels, self.n_heads, self.n_points = d_model, n_levels, n_heads, n_points
        self.sampling_offsets = nn.Linear(d_model, n_heads * n_levels * n_points * 2)
        self.attention_weights = nn.Linear(d_model, n_heads * n_levels * n_points)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self._reset_parameters()

    def _reset_parameters(self):
        nn.init.zeros_(self.sampling_offsets.weight)
        thetas = torch.arange(self.n_heads, dtype=torch.float32) * (2.0 * math.pi / self.n_heads)
        grid = torch.stack([thetas.cos(), thetas.sin()], -1)
        grid = (grid / grid.abs().max(-1, keepdim=True)[0]).view(self.n_heads, 1, 1, 2).repeat(1, self.n_levels, self.n_points, 1)
        for i in range(self.n_points):
            grid[:, :, i, :] *= i + 1
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(grid.view(-1))
        nn.init.zeros_(self.attention_weights.bias)

    def forward(self, query, reference_points, input_flatten, spatial_shapes, padding_mask=None):
        """
        query [N, Lq, C]; reference_points [N, Lq, L, 2], (x, y) in [0, 1]
        input_flatten [N, sum(H*W), C]; spatial_shapes: list of (H, W), one for each level
        padding_mask [N, sum(H*W)] bool, True for cells outside of the image (their value is zeroed)

        Predicted offsets are (x, y) in cells of the level that they are sampled from.
        """
        N, Lq, _ = query.shape
        value = self.value_proj(input_flatten)
        if padding_mask is not None:
            value = value.masked_fill(padding_mask[..., None], 0.0)
        value = value.view(N, -1, self.n_heads, self.d_model // self.n_heads)
        shape5 = (N, Lq, self.n_heads, self.n_levels, self.n_points)
        offsets = self.sampling_offsets(query).view(*shape5, 2)
        weights = F.softmax(self.attention_weights(query).view(N, Lq, self.n_heads, -1), -1).view(shape5)

        sizes = torch.as_tensor(spatial_shapes, device=query.device)
        normalizer = torch.stack([sizes[:, 0], sizes[:, 1]], -1)
        locations = reference_points[:, :, None, :, None, :] + offsets / normalizer[None, None, None, :, None, :]
        out = ms_deform_attn_core_pytorch(value, spatial_shapes, locations, weights)
        return self.output_proj(out)


def encoder_reference_points(spatial_shapes, device=None):
    """Centre of each cell of each level, the same for all levels: [1, sum(H*W), L, 2]"""
    pts = []
    for h, w in spatial_shapes:
        y, x = torch.meshgrid((torch.arange(h, device=device) + 0.5) / h, (torch.arange(w, device=device) + 0.5) / w, indexing="ij")
        pts.append(torch.stack([x.reshape(-1), y.reshape(-1)], -1))
    return torch.cat(pts)[None, :, None].repeat(1, 1, len(spatial_shapes), 1)
