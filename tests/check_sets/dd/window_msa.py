import torch
from torch import nn


class WindowMSA(nn.Module):
    """Attention in non-overlapping M x M windows with a learned relative position bias.

    forward takes (B, H, W, C), H and W multiples of M, and returns the same shape.
    """

    def __init__(self, C=32, M=4, heads=4):
        super().__init__()
        self.M, self.heads, self.scale = M, heads, (C // heads) ** -0.5
        self.qkv = nn.Linear(C, C * 3)
        self.proj = nn.Linear(C, C)
        self.table = nn.Parameter(torch.randn((2 * M - 1) ** 2, heads) * 0.02)
        yx = torch.stack(torch.meshgrid(torch.arange(M), torch.arange(M), indexing="ij")).flatten(1)
        diff = yx[:, :, None] - yx[:, None, :] + M - 1
        self.register_buffer("index", diff[0] * (2 * M - 1) + diff[1])

    def forward(self, x):
        B, H, W, C = x.shape
        M = self.M
        x = x.view(B, H // M, M, W // M, M, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, M * M, C)
        qkv = self.qkv(x).view(-1, M * M, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        a = q * self.scale @ k.transpose(-2, -1)
        a = a + self.table[self.index].permute(2, 0, 1)
        x = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, M * M, C)
        x = self.proj(x)
        return x.view(B, H // M, W // M, M, M, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
