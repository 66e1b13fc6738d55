import torch
import torch.nn as nn


def window_partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(windows, ws, H, W):
    B = windows.shape[0] // (H * W // ws // ws)
    x = windows.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class SwinAttention(nn.Module):
    """Shifted-window attention on (B, H, W, C) with (H, W) = input_resolution, multiples of the window."""

    def __init__(self, dim, num_heads, window_size=2, shift_size=1, input_resolution=(4, 6)):
        super().__init__()
        self.num_heads, self.ws, self.shift = num_heads, window_size, shift_size
        self.resolution = input_resolution
        self.scale = (dim // num_heads) ** -0.5
        self.table = nn.Parameter(torch.randn((2 * window_size - 1) ** 2, num_heads) * 0.02)
        c = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]) + window_size - 1
        self.register_buffer("index", rel[0] * (2 * window_size - 1) + rel[1])
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        H, W = input_resolution
        region = torch.zeros(1, H, W, 1)
        cnt = 0
        for h in (slice(0, -window_size), slice(-window_size, -shift_size), slice(-shift_size, None)):
            for w in (slice(0, -window_size), slice(-window_size, -shift_size), slice(-shift_size, None)):
                region[:, h, w] = cnt
                cnt += 1
        ids = window_partition(region, window_size).squeeze(-1)
        self.register_buffer("attn_mask", (ids[:, None, :] != ids[:, :, None]).float() * -100.0)

    def forward(self, x):
        B, H, W, C = x.shape
        x = torch.roll(x, (-self.shift, -self.shift), dims=(1, 2))
        w = window_partition(x, self.ws)
        n, l, _ = w.shape
        q, k, v = self.qkv(w).reshape(n, l, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        attn = attn + self.table[self.index.view(-1)].view(l, l, -1).permute(2, 0, 1)
        nw = self.attn_mask.shape[0]
        attn = (attn.view(B, nw, self.num_heads, l, l) + self.attn_mask[None, :, None]).view(-1, self.num_heads, l, l)
        y = (attn.softmax(-1) @ v).transpose(1, 2).reshape(n, l, C)
        y = window_reverse(self.proj(y), self.ws, H, W)
        return torch.roll(y, (self.shift, self.shift), dims=(1, 2))
