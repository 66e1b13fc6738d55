"""3D shifted window attention for clips, x is (B, D, H, W, C)."""
import torch
import torch.nn as nn


def cut(x, ws):
    """-> (B * n_windows, tokens, C)"""
    B, D, H, W, C = x.shape
    x = x.view(B, D // ws[0], ws[0], H // ws[1], ws[1], W // ws[2], ws[2], C)
    return x.permute(0, 1, 3, 5, 2, 4, 6, 7).reshape(-1, ws[0] * ws[1] * ws[2], C)


def glue(w, ws, B, D, H, W):
    x = w.view(B, D // ws[0], H // ws[1], W // ws[2], ws[0], ws[1], ws[2], -1)
    return x.permute(0, 1, 4, 2, 5, 3, 6, 7).reshape(B, D, H, W, -1)


def region_mask(size, ws, shift):
    """(n_windows, N, N) additive mask: 0 inside one region, -inf between regions that
    were brought together only by the cyclic shift."""
    lab = torch.zeros(1, *size, 1)
    n = 0
    pieces = []
    for w, s in zip(ws, shift):
        pieces.append([slice(None)] if s == 0 else [slice(0, -w), slice(-w, -s), slice(-s, None)])
    for a in pieces[0]:
        for b in pieces[1]:
            for c in pieces[2]:
                lab[:, a, b, c] = n
                n += 1
    r = cut(lab, ws).squeeze(-1)
    same = r[:, :, None] == r[:, None, :]
    return torch.zeros(same.shape).masked_fill(~same, float("-inf"))


class VideoWindowAttention(nn.Module):
    def __init__(self, dim, window=(2, 4, 4), heads=4, shift=(0, 0, 0)):
        super().__init__()
        self.ws, self.shift, self.h = window, shift, heads
        self.scale = (dim // heads) ** -0.5
        d, h, w = window
        self.bias = nn.Parameter(torch.randn((2 * d - 1) * (2 * h - 1) * (2 * w - 1), heads) * 0.02)
        g = torch.stack(torch.meshgrid(*[torch.arange(n) for n in window], indexing="ij")).flatten(1)
        rel = (g[:, :, None] - g[:, None, :]).permute(1, 2, 0)
        rel = rel + torch.tensor([d - 1, h - 1, w - 1])
        idx = rel[..., 0] * (2 * h - 1) * (2 * w - 1) + rel[..., 1] * (2 * w - 1) + rel[..., 2]
        self.register_buffer("idx", idx, persistent=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, D, H, W, C = x.shape
        shifted = any(self.shift)
        if shifted:
            x = torch.roll(x, [-s for s in self.shift], dims=(1, 2, 3))
        t = cut(x, self.ws)
        Bw, N, _ = t.shape
        q, k, v = self.qkv(t).view(Bw, N, 3, self.h, C // self.h).permute(2, 0, 3, 1, 4)
        a = (q * self.scale) @ k.transpose(-2, -1)
        a = a + self.bias[self.idx.flatten()].view(N, N, self.h).permute(2, 0, 1)
        if shifted:
            m = region_mask((D, H, W), self.ws, self.shift).to(a)
            a = (a.view(B, -1, self.h, N, N) + m[None, :, None]).view(Bw, self.h, N, N)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(Bw, N, C)
        y = glue(self.proj(y), self.ws, B, D, H, W)
        if shifted:
            y = torch.roll(y, list(self.shift), dims=(1, 2, 3))
        return y


class ClipStage(nn.Module):
    def __init__(self, dim, depth=2, window=(2, 4, 4), heads=4):
        super().__init__()
        half = tuple(w // 2 for w in window)
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.a = nn.ModuleList(
            VideoWindowAttention(dim, window, heads, half if i % 2 else (0, 0, 0)) for i in range(depth))

    def forward(self, x):
        for n, a in zip(self.n, self.a):
            x = x + a(n(x))
        return x
