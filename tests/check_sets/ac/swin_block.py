"""Swin Transformer block, single file, channels-last.

I stripped the config system and kept only what I need for 56x56 feature maps.
"""
import torch
import torch.nn as nn


def window_partition(x, ws):
    B, H, W, C = x.shape
    x = x.view(B, H // ws, ws, W // ws, ws, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, C)


def window_reverse(win, ws, H, W):
    B = win.shape[0] // ((H // ws) * (W // ws))
    x = win.view(B, H // ws, W // ws, ws, ws, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class WindowAttention(nn.Module):
    """Multi-head scaled dot-product attention inside one window, with relative position bias."""

    def __init__(self, dim, window_size, num_heads, qkv_bias=True):
        super().__init__()
        self.dim = dim
        self.ws = window_size
        self.num_heads = num_heads
        head_dim = dim // num_heads
        assert head_dim * num_heads == dim
        # usual 1/sqrt(d_k), so that the logits of a head have unit variance
        self.scale = dim ** -0.5

        self.rel_table = nn.Parameter(torch.zeros((2 * window_size - 1) ** 2, num_heads))
        nn.init.trunc_normal_(self.rel_table, std=0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(window_size), torch.arange(window_size),
                                            indexing="ij")).flatten(1)
        rel = coords[:, :, None] - coords[:, None, :]
        rel = rel.permute(1, 2, 0) + (window_size - 1)
        self.register_buffer("rel_index", rel[..., 0] * (2 * window_size - 1) + rel[..., 1])

        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, mask=None):
        # x: (num_windows*B, N, C); mask: (num_windows, N, N) of 0 / -100
        B_, N, C = x.shape
        qkv = self.qkv(x).reshape(B_, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q * self.scale) @ k.transpose(-2, -1)
        bias = self.rel_table[self.rel_index.view(-1)].view(N, N, -1).permute(2, 0, 1)
        attn = attn + bias.unsqueeze(0)
        if mask is not None:
            nW = mask.shape[0]
            attn = attn.view(B_ // nW, nW, self.num_heads, N, N) + mask[None, :, None]
            attn = attn.view(-1, self.num_heads, N, N)
        attn = attn.softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B_, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim, resolution, num_heads, window_size=7, shift=0, mlp_ratio=4.0):
        super().__init__()
        self.res, self.ws, self.shift = resolution, window_size, shift
        self.norm1 = nn.LayerNorm(dim)
        self.attn = WindowAttention(dim, window_size, num_heads)
        self.norm2 = nn.LayerNorm(dim)
        hidden = int(dim * mlp_ratio)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
        mask = None
        if shift > 0:
            region = torch.zeros(1, *resolution, 1)
            cuts = (slice(0, -window_size), slice(-window_size, -shift), slice(-shift, None))
            n = 0
            for h in cuts:
                for w in cuts:
                    region[:, h, w] = n
                    n += 1
            win = window_partition(region, window_size).squeeze(-1)
            diff = win.unsqueeze(1) - win.unsqueeze(2)
            mask = torch.zeros_like(diff).masked_fill(diff != 0, -100.0)
        self.register_buffer("attn_mask", mask)

    def forward(self, x):
        H, W = self.res
        B, L, C = x.shape
        y = self.norm1(x).view(B, H, W, C)
        if self.shift > 0:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = self.attn(window_partition(y, self.ws), self.attn_mask)
        y = window_reverse(y, self.ws, H, W)
        if self.shift > 0:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y.reshape(B, L, C)
        return x + self.mlp(self.norm2(x))
