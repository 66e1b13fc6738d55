"""ViT with 2-D rotary positions for variable-size histology tiles.

Axial RoPE: the first half of the channels of a head is turned by the row of the patch, the second
half by its column, so that q.k depends on (row - row', column - column').  Queries and keys only.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def patch_coordinates(rows, cols, device=None):
    """[rows*cols, 2] (row, column), row-major like flatten(2) of a conv output"""
    r, c = torch.meshgrid(torch.arange(rows, device=device), torch.arange(cols, device=device), indexing="ij")
    return torch.stack((r, c), -1).view(-1, 2)


class AxialRotary(nn.Module):
    def __init__(self, head_dim, base=100.0):
        super().__init__()
        assert head_dim % 4 == 0
        quarter = head_dim // 4
        self.register_buffer("freq", base ** (-torch.arange(quarter).float() / quarter), persistent=False)

    def table(self, coords):
        coords = coords.to(self.freq.dtype)
        by_row = coords[:, :1] * self.freq
        by_col = coords[:, :1] * self.freq
        angle = torch.cat((by_row, by_col), -1)             # [N, head_dim / 2]
        return angle.cos(), angle.sin()

    @staticmethod
    def apply(x, cos, sin):
        """x [B, H, N, d], neighbouring channels (2i, 2i+1) form the pairs"""
        a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.rotary = AxialRotary(dim // heads)

    def forward(self, x, coords):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        cos, sin = self.rotary.table(coords)
        q = self.rotary.apply(q, cos, sin)
        k = self.rotary.apply(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B, N, D))


class HistoViT(nn.Module):
    def __init__(self, patch=16, dim=192, heads=3, depth=12, classes=9):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, patch, patch)
        self.att = nn.ModuleList(RotaryAttention(dim, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        f = self.stem(img)
        coords = patch_coordinates(*f.shape[-2:], device=img.device)
        x = f.flatten(2).transpose(1, 2)
        for att, mlp, norm in zip(self.att, self.mlp, self.norms):
            x = x + att(norm(x), coords)
            x = x + mlp(x)
        return self.head(x.mean(1))
