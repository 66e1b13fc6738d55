import torch
from torch import nn


class GridAttention(nn.Module):
    """MaxViT: x (B, C, H, W) is cut into a g x g grid; the pixels at the same place of their cells attend to each other."""

    def __init__(self, channels, grid=2, heads=2):
        super().__init__()
        self.g, self.heads = grid, heads
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj = nn.Conv1d(channels, channels, 1)
        self.bias = nn.Parameter(torch.randn(heads, grid * grid, grid * grid) * 0.1)

    def forward(self, x):
        B, C, H, W = x.shape
        g = self.g
        y = self.norm(x.movedim(1, -1)).movedim(-1, 1)
        y = y.view(B, C, g, H // g, g, W // g).permute(0, 3, 5, 1, 2, 4).reshape(-1, C, g * g)
        q, k, v = self.qkv(y).view(-1, 3, self.heads, C // self.heads, g * g).unbind(1)
        s = torch.einsum("nhci,nhcj->nhij", q, k) * (C // self.heads) ** -0.5 + self.bias
        y = torch.einsum("nhij,nhcj->nhci", torch.softmax(s, dim=3), v)
        y = self.proj(y.reshape(-1, C, g * g))
        y = y.view(B, H // g, W // g, C, g, g).permute(0, 3, 4, 1, 5, 2).reshape(B, C, H, W)
        return x + y
