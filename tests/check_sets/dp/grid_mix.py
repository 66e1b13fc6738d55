"""Grid attention of MaxViT (sparse global mixing), channels-last.

The H x W map is covered by a fixed G x G grid: the tokens that attend to each
other are those with the same (row mod H/G, col mod W/G), i.e. G*G pixels that
lie H/G rows and W/G columns apart.  A table of relative positions on the grid,
(2G-1)^2 per head, is added to the logits.

``GridMix(C, heads, G)``: x (B, H, W, C), H and W divisible by G -> (B, H, W, C)
Scaling 1/sqrt(C/heads).  Residual and pre-norm are inside.
"""
import torch
from torch import nn


class GridMix(nn.Module):
    def __init__(self, C, heads, G):
        super().__init__()
        self.h, self.G = heads, G
        self.ln = nn.LayerNorm(C)
        self.in_proj = nn.Linear(C, 3 * C)
        self.out_proj = nn.Linear(C, C)
        self.table = nn.Parameter(torch.randn((2 * G - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(G), torch.arange(G), indexing="ij"))
        yx = yx.flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + G - 1
        self.register_buffer("idx", rel[0] * (2 * G - 1) + rel[1])

    def forward(self, x):
        B, H, W, C = x.shape
        G, h = self.G, self.h
        y = self.ln(x)
        # (B, G, H/G, G, W/G, C) -> groups by offset inside the cell
        y = y.reshape(B, G, H // G, G, W // G, C).permute(0, 2, 4, 1, 3, 5)
        cells = y.shape[:3]
        y = y.reshape(-1, G * G, C)
        q, k, v = self.in_proj(y).chunk(3, dim=-1)
        q, k, v = (t.reshape(-1, G * G, h, C // h).transpose(1, 2) for t in (q, k, v))
        bias = self.table[self.idx].permute(2, 0, 1)
        o = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(q.size(0), -1, -1, -1))
        o = self.out_proj(o.transpose(1, 2).reshape(-1, G * G, C))
        o = o.reshape(*cells, G, G, C).permute(0, 3, 1, 4, 2, 5)
        return x + o.reshape(B, H, W, C)
