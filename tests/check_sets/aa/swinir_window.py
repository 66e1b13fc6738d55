"""Window self-attention block for image restoration."""
import torch
import torch.nn as nn


def window_partition(x, ws):
    """[B, H, W, C] -> [B * nWindows, ws * ws, C], windows in row-major order"""
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)


def window_reverse(windows, ws, h, w):
    """Inverse of window_partition: back to [B, H, W, C]"""
    b = windows.shape[0] // ((h // ws) * (w // ws))
    x = windows.view(b, h // ws, w // ws, ws, ws, -1)
    return x.permute(0, 1, 4, 2, 3, 5).reshape(b, h, w, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, ws, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * ws - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.5)
        yx = torch.stack(torch.meshgrid(torch.arange(ws), torch.arange(ws), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + ws - 1
        self.register_buffer("index", rel[0] * (2 * ws - 1) + rel[1], persistent=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index].permute(2, 0, 1)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(b, n, c))


class RestorationBlock(nn.Module):
    """x: [B, H, W, C]; H and W have to be multiples of the window size."""

    def __init__(self, dim=16, heads=2, window=4, mlp_ratio=2.0):
        super().__init__()
        self.window = window
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, heads)
        self.norm2 = nn.LayerNorm(dim)
        inner = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, inner), nn.GELU(), nn.Linear(inner, dim))

    def forward(self, x):
        h, w = x.shape[1:3]
        win = self.attn(window_partition(self.norm1(x), self.window))
        x = x + window_reverse(win, self.window, h, w)
        return x + self.mlp(self.norm2(x))
