import torch
import torch.nn as nn
import torch.nn.functional as F


def window_partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(win, ws, H, W):
    x = win.view(-1, H // ws, W // ws, ws, ws, win.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, win.shape[-1])


class WindowBlock(nn.Module):
    """Windowed multi-head self-attention of an image, each pixel over the pixels of its window.  x: (B, C, H, W)"""

    def __init__(self, dim, heads=2, ws=2):
        super().__init__()
        self.heads, self.ws = heads, ws
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.table = nn.Parameter(0.02 * torch.randn((2 * ws - 1) ** 2, heads))
        yx = torch.cartesian_prod(torch.arange(ws), torch.arange(ws))
        rel = yx[:, None] - yx[None] + ws - 1
        self.register_buffer("index", rel[..., 0] * (2 * ws - 1) + rel[..., 1])

    def forward(self, x):
        B, C, H, W = x.shape
        shortcut = x
        win = window_partition(self.norm(x.permute(0, 2, 3, 1)), self.ws)
        q, k, v = self.qkv(win).view(*win.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        attn = attn + self.table[self.index].permute(2, 0, 1)
        attn = F.softmax(attn, dim=1)
        win = self.proj((attn @ v).transpose(1, 2).reshape(win.shape))
        return shortcut + window_reverse(win, self.ws, H, W).permute(0, 3, 1, 2)
