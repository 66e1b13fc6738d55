# ------------------------------------------------------------------------
# Multi-scale deformable attention, pure PyTorch path (CPU / export / debugging)
# ------------------------------------------------------------------------
import math

import torch
import torch.nn.functional as F
from torch import nn


def deform_core(value, spatial_shapes, locations, weights):
    """
    value          N, S, M, D        flattened levels, row-major, S = sum(H_l * W_l)
    spatial_shapes [(H_0, W_0), ...]
    locations      N, Lq, M, L, P, 2 in [0, 1], last axis is (x, y)
    weights        N, Lq, M, L, P    sums to one over (L, P)
    """
    N, S, M, D = value.shape
    Lq, L, P = locations.shape[1], locations.shape[3], locations.shape[4]
    levels = value.split([h * w for h, w in spatial_shapes], dim=1)
    grids = 2 * locations - 1
    sampled = []
    for lid, (h, w) in enumerate(spatial_shapes):
        v = levels[lid].flatten(2).transpose(1, 2).reshape(N * M, D, h, w)
        g = grids[:, :, :, lid].transpose(1, 2).flatten(0, 1)          # N*M, Lq, P, 2
        sampled.append(F.grid_sample(v, g, mode="bilinear", padding_mode="zeros",
                                     align_corners=False))
    weights = weights.transpose(1, 2).reshape(N * M, 1, Lq, L * P)
    out = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
    return out.view(N, M * D, Lq).transpose(1, 2).contiguous()


class MSDeformAttn(nn.Module):
    def __init__(self, d_model=64, n_levels=3, n_heads=4, n_points=4):
        super().__init__()
        if d_model % n_heads != 0:
            raise ValueError("d_model must be divisible by n_heads")
        self.d_model = d_model
        self.n_levels = n_levels
        self.n_heads = n_heads
        self.n_points = n_points
        self.sampling_offsets = nn.Linear(d_model, n_heads * n_levels * n_points * 2)
        self.attention_weights = nn.Linear(d_model, n_heads * n_levels * n_points)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self._reset_parameters()

    def _reset_parameters(self):
        nn.init.zeros_(self.sampling_offsets.weight)
        theta = torch.arange(self.n_heads) * (2.0 * math.pi / self.n_heads)
        ring = torch.stack([theta.cos(), theta.sin()], -1)
        ring = (ring / ring.abs().max(-1, keepdim=True)[0]).view(self.n_heads, 1, 1, 2)
        ring = ring.repeat(1, self.n_levels, self.n_points, 1)
        ring = ring * torch.arange(1, self.n_points + 1).view(1, 1, -1, 1)
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(ring.reshape(-1))
        nn.init.xavier_uniform_(self.value_proj.weight)
        nn.init.xavier_uniform_(self.output_proj.weight)

    def forward(self, query, reference_points, input_flatten, spatial_shapes, padding_mask=None):
        """
        reference_points  N, Lq, L, 2 (centre) or N, Lq, L, 4 (cx, cy, w, h), all in [0, 1]
        padding_mask      N, S, True for padding
        """
        N, Lq, _ = query.shape
        S = input_flatten.shape[1]
        assert sum(h * w for h, w in spatial_shapes) == S

        value = self.value_proj(input_flatten)
        if padding_mask is not None:
            value = value.masked_fill(padding_mask[..., None], 0.0)
        value = value.view(N, S, self.n_heads, self.d_model // self.n_heads)

        dims = (N, Lq, self.n_heads, self.n_levels, self.n_points)
        offsets = self.sampling_offsets(query).view(*dims, 2)
        weights = self.attention_weights(query).view(*dims[:3], self.n_levels * self.n_points)
        weights = F.softmax(weights, -1).view(dims)

        if reference_points.shape[-1] == 2:
            wh = torch.tensor([(w, h) for h, w in spatial_shapes],
                              dtype=query.dtype, device=query.device)
            locations = (reference_points[:, :, None, :, None, :]
                         + offsets / wh[None, None, None, :, None, :])
        else:
            locations = (reference_points[:, :, None, :, None, :2]
                         + offsets / self.n_points
                         * reference_points[:, :, None, :, None, 2:] * 0.5)
        return self.output_proj(deform_core(value, spatial_shapes, locations, weights))


class DeformableEncoderLayer(nn.Module):
    def __init__(self, d_model=64, d_ffn=128, **kw):
        super().__init__()
        self.self_attn = MSDeformAttn(d_model, **kw)
        self.norm1 = nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, d_ffn), nn.ReLU(), nn.Linear(d_ffn, d_model))
        self.norm2 = nn.LayerNorm(d_model)

    @staticmethod
    def reference_grid(spatial_shapes, device=None):
        pts = []
        for h, w in spatial_shapes:
            y, x = torch.meshgrid((torch.arange(h, device=device) + 0.5) / h,
                                  (torch.arange(w, device=device) + 0.5) / w, indexing="ij")
            pts.append(torch.stack([x, y], -1).view(-1, 2))
        return torch.cat(pts)[None, :, None].expand(1, -1, len(spatial_shapes), 2)

    def forward(self, src, pos, spatial_shapes, padding_mask=None):
        ref = self.reference_grid(spatial_shapes, src.device).expand(src.shape[0], -1, -1, -1)
        src = self.norm1(src + self.self_attn(src + pos, ref, src, spatial_shapes, padding_mask))
        return self.norm2(src + self.ffn(src))
