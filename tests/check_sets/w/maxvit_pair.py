import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    """B H W C -> (B*nW, ws*ws, C): local windows of neighbouring pixels"""
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, ws * ws, C)


def window_reverse(wins, ws, H, W):
    C = wins.shape[-1]
    x = wins.view(-1, H // ws, W // ws, ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, H, W, C)


def grid_partition(x, gs):
    """B H W C -> (B*nG, gs*gs, C): each grid holds pixels with strides H/gs, W/gs over the whole image"""
    B, H, W, C = x.shape
    x = x.view(B, gs, H // gs, gs, W // gs, C)
    return x.permute(0, 2, 4, 1, 3, 5).contiguous().view(-1, gs * gs, C)


def grid_reverse(grids, gs, H, W):
    """inverse of grid_partition"""
    C = grids.shape[-1]
    x = grids.view(-1, H // gs, W // gs, gs, gs, C)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, H, W, C)


class RelPosAttention(nn.Module):
    def __init__(self, dim, size, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.02)
        c = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        r = c[:, :, None] - c[:, None, :] + size - 1
        self.register_buffer("index", r[0] * (2 * size - 1) + r[1])

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index].permute(2, 0, 1)
        a = (q * self.scale) @ k.transpose(-2, -1) + bias
        x = (a.softmax(-1) @ v).transpose(1, 2).reshape(B, N, C)
        return self.proj(x)


class PartitionAttention(nn.Module):
    def __init__(self, dim, heads, size, kind="window"):
        super().__init__()
        self.size = size
        self.norm1 = nn.LayerNorm(dim)
        self.attn = RelPosAttention(dim, size, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.part, self.rev = (window_partition, window_reverse) if kind == "window" else (grid_partition, grid_reverse)

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.part(self.norm1(x), self.size)
        y = self.rev(self.attn(y), self.size, H, W)
        x = x + y
        return x + self.mlp(self.norm2(x))


class MaxViTAttentionPair(nn.Module):
    """block attention followed by grid attention; x: (B, C, H, W), H and W multiples of `size`"""

    def __init__(self, dim=32, heads=2, size=4):
        super().__init__()
        self.block = PartitionAttention(dim, heads, size, "window")
        self.grid = PartitionAttention(dim, heads, size, "grid")

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = self.grid(self.block(x))
        return x.permute(0, 3, 1, 2)
