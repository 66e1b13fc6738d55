"""Vision transformer over spectrogram patches with axial rotary positions.

The grid has ``freq_bins`` rows and ``time_steps`` columns, and tokens are stored
row by row: token n lies at row n // time_steps and column n % time_steps.  In
every head the first half of the channels is rotated by the row, the second half
by the column; pairs inside a half are (i, i + half/2).  No class token.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def grid_angles(rows: int, cols: int, dim: int, base: float = 100.0) -> torch.Tensor:
    """Angles [rows * cols, dim / 2]: dim/4 for the row, then dim/4 for the column."""
    freq = base ** (-torch.arange(dim // 4).float() / (dim // 4))
    y, x = torch.meshgrid(torch.arange(rows).float(), torch.arange(cols).float(),
                          indexing="xy")
    ang_y = y.reshape(-1, 1) * freq
    ang_x = x.reshape(-1, 1) * freq
    return torch.cat([ang_y, ang_x], dim=-1)


def rotate_pairs(x, ang):
    a, b = x.chunk(2, dim=-1)
    c, s = ang.cos(), ang.sin()
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


def axial_rope(x, ang):
    # x: [B, H, N, d]
    ang_y, ang_x = ang.chunk(2, dim=-1)
    top, left = x.chunk(2, dim=-1)
    return torch.cat([rotate_pairs(top, ang_y), rotate_pairs(left, ang_x)], dim=-1)


class AxialAttention(nn.Module):
    def __init__(self, dim, heads, grid):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.register_buffer("angles", grid_angles(*grid, dim // heads), persistent=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q = axial_rope(q, self.angles)
        k = axial_rope(k, self.angles)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(b, n, c))


class SpectrogramViT(nn.Module):
    def __init__(self, freq_bins=6, time_steps=10, patch_dim=16, dim=64, heads=4, depth=1):
        super().__init__()
        self.patch = nn.Linear(patch_dim, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.ModuleDict({
                "norm1": nn.LayerNorm(dim),
                "attn": AxialAttention(dim, heads, (freq_bins, time_steps)),
                "norm2": nn.LayerNorm(dim),
                "mlp": nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
            }))

    def forward(self, patches):
        """patches: [B, freq_bins * time_steps, patch_dim], row by row."""
        x = self.patch(patches)
        for layer in self.layers:
            x = x + layer["attn"](layer["norm1"](x))
            x = x + layer["mlp"](layer["norm2"](x))
        return x
