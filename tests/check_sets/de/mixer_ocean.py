import torch
from torch import nn


class OceanMixer(nn.Module):
    """MLP mixer for sea surface temperature maps, (B, C, H, W) -> (B, C, H, W)."""

    def __init__(self, c=3, size=16, patch=4, dim=32, depth=2):
        super().__init__()
        n = (size // patch) ** 2
        self.cut = nn.Conv2d(c, dim, patch, stride=patch)
        self.rows = nn.ModuleList()
        self.cols = nn.ModuleList()
        for _ in range(depth):
            self.rows.append(nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Linear(2 * n, n)))
            self.cols.append(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.glue = nn.ConvTranspose2d(dim, c, patch, stride=patch)

    def forward(self, x):
        z = self.cut(x)
        shape = z.shape
        z = z.flatten(2).transpose(1, 2)
        for norm, token, chan in zip(self.norm, self.rows, self.cols):
            z = z + token(norm(z).transpose(1, 2)).transpose(1, 2)
            z = z + chan(z)
        return x + self.glue(z.transpose(1, 2).reshape(shape))
