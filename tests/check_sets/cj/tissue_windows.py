"""Window attention with relative position bias for whole-slide tiles.

Only the unshifted variant: tiles of neighbouring windows talk through the
patch merging above.
"""
import torch
from torch import nn


def partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def unpartition(win, ws, B, H, W):
    x = win.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class TissueWindowAttention(nn.Module):
    """x: (B, C, H, W) with H, W multiples of ``window``.

    Pixels attend to the pixels of their own window only. The learned bias of a
    head depends on (dy, dx) of query minus key.
    """

    def __init__(self, channels=16, heads=2, window=2):
        super().__init__()
        self.heads, self.window = heads, window
        self.scale = (channels // heads) ** -0.5
        self.norm = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, channels * 3)
        self.proj = nn.Linear(channels, channels)
        side = 2 * window - 1
        self.table = nn.Parameter(torch.randn(side * side, heads) * 0.2)

        yx = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        delta = yx[:, :, None] - yx[:, None, :] + (window - 1)
        self.register_buffer("index", delta[0] * side + delta[1])

    def forward(self, x):
        B, C, H, W = x.shape
        z = self.norm(x.permute(0, 2, 3, 1))
        z = partition(z, self.window)
        nW, n, _ = z.shape
        qkv = self.qkv(z).reshape(nW, n, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        logits = (q * self.scale) @ k.mT
        bias = self.table[self.index.view(-1)].view(n, n, self.heads).permute(2, 0, 1)
        attn = (logits + bias).softmax(-1)
        z = (attn @ v).transpose(1, 2).reshape(nW, n, C)
        z = unpartition(self.proj(z), self.window, B, H, W)
        return x + z.permute(0, 3, 1, 2)
