"""Axial attention for mammograms: one pass along the columns, one along the rows.

A pixel first gathers from the pixels of its column, the result then from those
of its row, so two 1-D passes cover the picture. Each pass has a learned bias
that depends on the signed distance (key minus query), clipped at +-max_dist.
`breast` (B, H, W) is a boolean picture: True inside the breast. Background
pixels are never keys. Where a row or column has no breast pixel at all, the
pass contributes zero there.
"""
import torch
from torch import nn


class AxisPass(nn.Module):
    """Multi-query attention (one shared key/value head) along dim 1 of (M, L, C)."""

    def __init__(self, channels: int, heads: int, max_dist: int = 32):
        super().__init__()
        self.heads, self.hd, self.max_dist = heads, channels // heads, max_dist
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_kv = nn.Linear(channels, 2 * self.hd, bias=False)
        self.bias = nn.Parameter(torch.zeros(heads, 2 * max_dist + 1))
        self.proj = nn.Linear(channels, channels, bias=False)

    def forward(self, x, inside):
        M, L, C = x.shape
        q = self.to_q(x).view(M, L, self.heads, self.hd)
        k, v = self.to_kv(x).split(self.hd, dim=-1)
        pos = torch.arange(L, device=x.device)
        dist = (pos[None, :] - pos[:, None]).clamp(-self.max_dist, self.max_dist)
        s = torch.einsum("mihd,mjd->mhij", q, k) * self.hd ** -0.5
        s = s + self.bias[:, dist + self.max_dist]
        blocked = ~inside[:, None, None, :]
        s = s.masked_fill(blocked, float("-inf"))
        # rows without key: softmax of -inf only; replaced before it can spread
        s = s.masked_fill(blocked.all(-1, keepdim=True), 0.0)
        w = s.softmax(-1).masked_fill(blocked, 0.0)
        y = torch.einsum("mhij,mjd->mihd", w, v).reshape(M, L, C)
        return self.proj(y)


class AxialBlock(nn.Module):
    """x (B, C, H, W), breast (B, H, W) bool -> (B, C, H, W)"""

    def __init__(self, channels: int = 32, heads: int = 4):
        super().__init__()
        self.norm_v, self.norm_h = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.vertical = AxisPass(channels, heads)
        self.horizontal = AxisPass(channels, heads)

    def forward(self, x, breast):
        b, c, h, w = x.shape
        x = x.permute(0, 2, 3, 1)                                   # B H W C
        cols = self.norm_v(x).transpose(1, 2).reshape(b * w, h, c)  # a sequence per column
        y = self.vertical(cols, breast.transpose(1, 2).reshape(b * w, h))
        x = x + y.view(b, w, h, c).transpose(1, 2)
        rows = self.norm_h(x).reshape(b * h, w, c)
        y = self.horizontal(rows, breast.reshape(b * h, w))
        x = x + y.view(b, h, w, c)
        return x.permute(0, 3, 1, 2)


class DensityNet(nn.Module):
    """BI-RADS density (a-d) from one view"""

    def __init__(self, channels=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, channels, 7, 4, 3), nn.ReLU())
        self.block = AxialBlock(channels)
        self.cls = nn.Linear(channels, 4)

    def forward(self, img, threshold=0.05):
        f = self.stem(img)
        small = nn.functional.adaptive_avg_pool2d(img, f.shape[-2:])[:, 0]
        inside = small > threshold
        f = self.block(f, inside)
        area = inside[:, None].to(f)
        return self.cls((f * area).sum((2, 3)) / area.sum((2, 3)).clamp(min=1))


if __name__ == "__main__":
    print(DensityNet()(torch.rand(2, 1, 48, 32)).shape)
