"""Flood mapping from Sentinel-1: shifted-window transformer block (Swin).

Every second block moves the feature map by half a window before the windows are cut,
so that information crosses the window borders; its output belongs to the same
pixels as its input.
"""
import torch
import torch.nn as nn


def to_windows(x, w):
    """(B, H, W, C) -> (B * nW, w*w, C)"""
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def from_windows(x, w, H, W):
    B = x.shape[0] // ((H // w) * (W // w))
    x = x.view(B, H // w, W // w, w, w, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class WindowAttention(nn.Module):
    def __init__(self, dim, w, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.table = nn.Parameter(torch.zeros((2 * w - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        c = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
        rel = (c[:, :, None] - c[:, None, :]) + (w - 1)
        self.register_buffer("index", rel[0] * (2 * w - 1) + rel[1])

    def forward(self, x, mask=None):
        """x (B*nW, N, C); mask (nW, N, N) additive"""
        Bw, N, C = x.shape
        q, k, v = self.qkv(x).reshape(Bw, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-2, -1)
        a = a + self.table[self.index].permute(2, 0, 1)
        if mask is not None:
            nW = mask.shape[0]
            a = (a.view(Bw // nW, nW, self.heads, N, N) + mask[:, None]).view(-1, self.heads, N, N)
        y = a.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(Bw, N, C))


class SwinBlock(nn.Module):
    def __init__(self, dim, heads, window=8, shift=0):
        super().__init__()
        self.w, self.s = window, shift
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = WindowAttention(dim, window, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def region_mask(self, H, W, device):
        ids = torch.zeros(1, H, W, 1, device=device)
        cuts = (slice(0, -self.w), slice(-self.w, -self.s), slice(-self.s, None))
        n = 0
        for a in cuts:
            for b in cuts:
                ids[:, a, b] = n
                n += 1
        r = to_windows(ids, self.w).squeeze(-1)
        return (r[:, None, :] != r[:, :, None]).float() * -1e9

    def forward(self, x):
        """x (B, H, W, C), H and W multiples of the window"""
        B, H, W, C = x.shape
        y, mask = self.n1(x), None
        if self.s:
            y = torch.roll(y, (-self.s, -self.s), dims=(1, 2))
            mask = self.region_mask(H, W, x.device)
        y = from_windows(self.att(to_windows(y, self.w), mask), self.w, H, W)
        if self.s:
            y = torch.roll(y, (-self.s, -self.s), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))


class FloodNet(nn.Module):
    """VV, VH and slope -> water logit per 4x4 cell."""

    def __init__(self, bands=3, dim=48, heads=3, window=8, depth=4):
        super().__init__()
        self.stem = nn.Conv2d(bands, dim, 4, 4)
        self.blocks = nn.Sequential(*[SwinBlock(dim, heads, window, 0 if i % 2 == 0 else window // 2)
                                      for i in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        return self.head(self.blocks(x)).squeeze(-1)
