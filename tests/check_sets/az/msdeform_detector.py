"""Deformable attention over several feature levels, in pure PyTorch (no CUDA extension).

A query looks at n_points places around its reference point on each of n_levels maps.
Offsets and weights are both predicted from the query; per head, the weights of all
levels and points together sum to one.
"""
from typing import List, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def sample_levels(value: Tensor, shapes: List[Tuple[int, int]], loc: Tensor, weights: Tensor) -> Tensor:
    """value [B, S, H, D]; loc [B, Q, H, L, P, 2] as (x, y) in [0, 1]; weights [B, Q, H, L, P]."""
    B, _, H, D = value.shape
    Q, L, P = loc.shape[1], loc.shape[3], loc.shape[4]
    grid = 2 * loc - 1
    picked = []
    for lvl, v in enumerate(value.split([h * w for h, w in shapes], dim=1)):
        h, w = shapes[lvl]
        v = v.permute(0, 2, 3, 1).reshape(B * H, D, h, w)
        g = grid[:, :, :, lvl].transpose(1, 2).flatten(0, 1)                   # [B*H, Q, P, 2]
        picked.append(F.grid_sample(v, g, mode="bilinear", padding_mode="zeros", align_corners=False))
    a = weights.transpose(1, 2).reshape(B * H, 1, Q, L * P)
    out = (torch.stack(picked, dim=-2).flatten(-2) * a).sum(-1)                # [B*H, D, Q]
    return out.view(B, H * D, Q).transpose(1, 2)


class MSDeformAttn(nn.Module):
    def __init__(self, d_model=64, n_levels=3, n_heads=4, n_points=4):
        super().__init__()
        self.n_levels, self.n_heads, self.n_points = n_levels, n_heads, n_points
        self.sampling_offsets = nn.Linear(d_model, n_heads * n_levels * n_points * 2)
        self.attention_weights = nn.Linear(d_model, n_heads * n_levels * n_points)
        self.value_proj = nn.Linear(d_model, d_model)
        self.output_proj = nn.Linear(d_model, d_model)
        self._reset()

    def _reset(self):
        nn.init.zeros_(self.sampling_offsets.weight)
        theta = torch.arange(self.n_heads) * (2.0 * torch.pi / self.n_heads)
        ring = torch.stack([theta.cos(), theta.sin()], -1)
        ring = (ring / ring.abs().amax(-1, keepdim=True)).view(self.n_heads, 1, 1, 2)
        ring = ring.repeat(1, self.n_levels, self.n_points, 1)
        ring = ring * torch.arange(1, self.n_points + 1).view(1, 1, -1, 1)
        with torch.no_grad():
            self.sampling_offsets.bias.copy_(ring.flatten())
        nn.init.zeros_(self.attention_weights.weight)
        nn.init.zeros_(self.attention_weights.bias)

    def forward(self, query: Tensor, reference: Tensor, src: Tensor, shapes: List[Tuple[int, int]],
                padding: Tensor | None = None) -> Tensor:
        """query [B, Q, C]; reference [B, Q, L, 2] in [0, 1]; src [B, S, C] with the levels one
        after another; padding [B, S] bool, True outside of the picture (counts as zero value)."""
        B, Q, C = query.shape
        H, L, P = self.n_heads, self.n_levels, self.n_points
        value = self.value_proj(src)
        if padding is not None:
            value = value.masked_fill(padding[..., None], 0.0)
        value = value.view(B, -1, H, C // H)
        offsets = self.sampling_offsets(query).view(B, Q, H, L, P, 2)
        weights = self.attention_weights(query).view(B, Q, H, L * P)
        weights = weights.softmax(-1).view(B, Q, H, L, P)
        size = torch.tensor([[w, h] for h, w in shapes], dtype=query.dtype, device=query.device)
        loc = reference[:, :, None, :, None, :] + offsets / size[None, None, None, :, None, :]
        return self.output_proj(sample_levels(value, shapes, loc, weights))


class DeformEncoderLayer(nn.Module):
    def __init__(self, d_model, **kw):
        super().__init__()
        self.attn = MSDeformAttn(d_model, **kw)
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ffn = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, pos, reference, shapes, padding=None):
        x = self.n1(x + self.attn(x + pos, reference, x, shapes, padding))
        return self.n2(x + self.ffn(x))


def grid_references(shapes, valid_ratio):
    """Centres of all pixels of all levels; valid_ratio [B, L, 2] (x, y)."""
    refs = []
    for lvl, (h, w) in enumerate(shapes):
        y, x = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        y = y.flatten()[None] / (valid_ratio[:, None, lvl, 1] * h)
        x = x.flatten()[None] / (valid_ratio[:, None, lvl, 0] * w)
        refs.append(torch.stack([x, y], -1))
    return torch.cat(refs, 1)[:, :, None] * valid_ratio[:, None]


if __name__ == "__main__":
    torch.manual_seed(0)
    shapes = [(8, 10), (4, 5), (2, 3)]
    S = sum(h * w for h, w in shapes)
    layer = DeformEncoderLayer(64, n_levels=3, n_heads=4, n_points=4)
    x, pos = torch.randn(2, S, 64), torch.randn(2, S, 64)
    print(layer(x, pos, grid_references(shapes, torch.ones(2, 3, 2)), shapes).shape)
