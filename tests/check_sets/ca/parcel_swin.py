"""Swin stage used on depth images of parcels on the belt (damage detection).

Windows of ``window`` x ``window`` cells; every second block is shifted cyclically by
half a window.  After the shift a window may hold cells of up to four regions that are
not neighbours in the image; such pairs must not see each other.
"""
import torch
import torch.nn as nn


def to_windows(x: torch.Tensor, w: int) -> torch.Tensor:
    """(B, H, W, C) -> (B * nWin, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(win: torch.Tensor, w: int, H: int, W: int) -> torch.Tensor:
    C = win.shape[-1]
    x = win.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


class WindowAttention(nn.Module):
    def __init__(self, dim: int, window: int, heads: int):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)

        grid = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        flat = grid.flatten(1)                            # 2, N
        rel = flat[:, :, None] - flat[:, None, :]         # 2, N, N
        rel = rel + (window - 1)
        self.register_buffer("rel_index", rel[0] * (2 * window - 1) + rel[1])

        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x: torch.Tensor, allowed: torch.Tensor | None = None) -> torch.Tensor:
        Bw, N, C = x.shape
        qkv = self.qkv(x).reshape(Bw, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.bias_table[self.rel_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if allowed is not None:                           # nWin, N, N
            n_win = allowed.shape[0]
            attn = attn.view(Bw // n_win, n_win, self.heads, N, N)
            attn = attn.masked_fill(~allowed[None, :, None], float("-inf"))
            attn = attn.view(Bw, self.heads, N, N)
        attn = attn.softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(Bw, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim: int = 32, size: tuple = (8, 8), window: int = 4, heads: int = 4,
                 shift: int = 2):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        allowed = None
        if shift > 0:
            H, W = size
            region = torch.zeros(1, H, W, 1)
            cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for i, rows in enumerate(cuts):
                for j, cols in enumerate(cuts):
                    region[:, rows, cols, :] = 3 * i + j
            ids = to_windows(region, window).squeeze(-1)  # nWin, N
            allowed = ids[:, :, None] == ids[:, None, :]
        self.register_buffer("allowed", allowed)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, H, W, C = x.shape
        y = self.norm1(x)
        if self.shift > 0:
            y = torch.roll(y, (-self.shift, -self.shift), dims=(1, 2))
        y = self.attn(to_windows(y, self.window), self.allowed)
        y = from_windows(y, self.window, H, W)
        if self.shift > 0:
            y = torch.roll(y, (self.shift, self.shift), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))
