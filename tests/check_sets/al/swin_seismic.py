"""Shifted windows (Liu et al. 2021) for 2-D seismic sections.  Feature maps are [B, H, W, C]."""
import torch
import torch.nn as nn


def window_partition(x, m):
    B, H, W, C = x.shape
    x = x.view(B, H // m, m, W // m, m, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, m * m, C)


def window_reverse(w, m, H, W):
    x = w.view(-1, H // m, W // m, m, m, w.shape[-1]).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, H, W, w.shape[-1])


def shift_regions(H, W, m, shift, device=None):
    """[windows, m*m] number of the region of each pixel after the cyclic shift."""
    img = torch.zeros(1, H, W, 1, device=device)
    cnt = 0
    for hs in (slice(0, H - m), slice(H - m, H - shift), slice(H - shift, H)):
        for ws in (slice(0, W - m), slice(W - m, W - shift), slice(W - shift, W)):
            img[:, hs, ws] = cnt
            cnt += 1
    return window_partition(img, m).squeeze(-1)


class ShiftedWindowAttention(nn.Module):
    """Attention inside m x m windows; with shift > 0 the map is rolled first, and pixels that were
    not neighbours before the roll do not attend to each other."""

    def __init__(self, dim, heads, m=7, shift=0):
        super().__init__()
        self.heads, self.m, self.shift = heads, m, shift
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.bias_table = nn.Parameter(torch.zeros((2 * m - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias_table, std=0.02)
        g = torch.stack(torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij")).flatten(1)
        rel = g[:, :, None] - g[:, None, :] + m - 1
        self.register_buffer("rel_index", rel[0] * (2 * m - 1) + rel[1], persistent=False)

    def forward(self, x):
        B, H, W, C = x.shape
        m = self.m
        assert H % m == 0 and W % m == 0
        if self.shift:
            x = x.roll((-self.shift, -self.shift), (1, 2))
        w = window_partition(x, m)
        n = m * m
        q, k, v = self.qkv(w).reshape(-1, n, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        a = a + self.bias_table[self.rel_index].permute(2, 0, 1)
        if self.shift:
            reg = shift_regions(H, W, m, self.shift, x.device)
            other = reg[:, :, None] != reg[:, None, :]
            a = a.view(B, -1, self.heads, n, n).masked_fill(other[None, :, None], float("-inf"))
            a = a.view(-1, self.heads, n, n)
        a = a.softmax(-1)
        y = self.proj((a @ v).transpose(1, 2).reshape(-1, n, C))
        y = window_reverse(y, m, H, W)
        return y.roll((self.shift, self.shift), (1, 2)) if self.shift else y


class SwinPair(nn.Module):
    def __init__(self, dim, heads, m=8):
        super().__init__()
        self.att = nn.ModuleList([ShiftedWindowAttention(dim, heads, m, s) for s in (0, m // 2)])
        self.n1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.mlp = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(),
                                                nn.Linear(4 * dim, dim)) for _ in range(2)])

    def forward(self, x):
        for a, n, f in zip(self.att, self.n1, self.mlp):
            x = x + a(n(x))
            x = x + f(x)
        return x
