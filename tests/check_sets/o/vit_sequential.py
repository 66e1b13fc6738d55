import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.fn = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.fn(x)


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, _ = x.shape
        qkv = self.to_qkv(x).reshape(b, n, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        out = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


class VisionTransformer(nn.Module):
    """img (B, 3, 12, 8)"""

    def __init__(self, dim=16, depth=2, heads=4, patch=4, grid=(3, 2), classes=7):
        super().__init__()
        self.patch, self.grid = patch, grid
        self.to_tokens = nn.Linear(3 * patch * patch, dim)
        self.pos = nn.Parameter(torch.randn(grid[0] * grid[1], dim))
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    Residual(nn.LayerNorm(dim), SelfAttention(dim, heads)),
                    Residual(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
                )
                for _ in range(depth)
            )
        )
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        p, (gh, gw) = self.patch, self.grid
        x = img.reshape(img.shape[0], 3, gh, p, gw, p).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        return self.head(self.blocks(self.to_tokens(x) + self.pos).mean(1))
